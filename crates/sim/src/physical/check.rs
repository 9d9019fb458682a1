//! What must hold of physical memory after every operation.

use mega_core::compaction::PAGES_PER_BLOCK;

use super::PhysicalMemory;
use super::block::{BlockRecord, Contents, FrameKind, NONE};
use super::frame::{FRAMES_PER_BLOCK, Frame};
use super::free_list::{BLOCK_ORDER, LARGEST_ORDER};
use super::mobility::Mobility;

/// What does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("physical memory is not as it must be: {0}")]
pub struct Broken(String);

const MOBILITIES: [Mobility; Mobility::COUNT] = [
    Mobility::Unmovable,
    Mobility::Movable,
    Mobility::Reclaimable,
    Mobility::Isolated,
];

impl PhysicalMemory {
    /// Looks through all of it. Costs O(frames of split blocks).
    ///
    /// # Errors
    ///
    /// When something does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        for block in 0..self.blocks() {
            self.check_block(block)?;
        }
        for zone in 0..self.zones.len() {
            self.check_zone(zone)?;
        }
        Ok(())
    }

    /// Blocks and frames that [`Self::check`] looks at.
    pub(crate) fn steps_of_check(&self) -> u64 {
        let steps = |block: &BlockRecord| match block.contents {
            Contents::Split(_) => FRAMES_PER_BLOCK as u64,
            _ => 1,
        };
        self.blocks.iter().map(steps).sum()
    }

    /// After an operation on an area: its blocks, and the neighbour that its free area may reach into.
    pub(super) fn debug_check(&self, first: Frame, order: u8) {
        if cfg!(debug_assertions) {
            let blocks = 1 << order.saturating_sub(BLOCK_ORDER);
            let start = first.block_index();
            for block in start..start + blocks {
                let result = self.check_block(block);
                debug_assert!(result.is_ok(), "{result:?}");
            }
        }
    }

    /// A block is tiled by areas that begin at multiples of their size, its counts are those of its areas, and no two free
    /// buddies lie side by side.
    fn check_block(&self, block: u32) -> Result<(), Broken> {
        let record = &self.blocks[block as usize];
        let at = |what: &str| Err(Broken(format!("block {block}: {what}")));
        let counts = (record.free, record.movable, record.unmovable);
        let expected = match &record.contents {
            Contents::Free { order } => {
                if !(BLOCK_ORDER..=LARGEST_ORDER).contains(order) {
                    return at("a whole block that is no area of order 9 or 10");
                }
                if !block.is_multiple_of(1 << (order - BLOCK_ORDER)) {
                    return at("a free area begins where none of its order can");
                }
                self.check_unmerged(Frame::in_block(block, 0), *order)?;
                (PAGES_PER_BLOCK, 0, 0)
            }
            Contents::FreeTail => (PAGES_PER_BLOCK, 0, 0),
            Contents::Huge(_) => (0, PAGES_PER_BLOCK, 0),
            Contents::Kernel { .. } | Contents::KernelTail => (0, 0, PAGES_PER_BLOCK),
            Contents::Split(_) => self.count_areas(block)?,
            Contents::Taken => return at("nobody said what came into it"),
        };
        self.check_mappings(block)?;
        if counts != expected {
            return at(&format!(
                "counts (free, movable, unmovable) {counts:?}, and it has {expected:?}"
            ));
        }
        Ok(())
    }

    fn count_areas(&self, block: u32) -> Result<(u16, u16, u16), Broken> {
        let at = |what: &str| Broken(format!("block {block}: {what}"));
        let Some(frames) = self.blocks[block as usize].frames() else {
            return Ok((0, 0, 0));
        };
        let (mut free, mut movable, mut unmovable) = (0, 0, 0);
        for (offset, kind, length) in frames.areas() {
            if offset % length != 0 || offset + length > FRAMES_PER_BLOCK {
                return Err(at("an area begins where none of its order can"));
            }
            if (offset + 1..offset + length).any(|inner| frames.kind(inner) != FrameKind::Tail) {
                return Err(at("an area begins inside another"));
            }
            let pages = u16::try_from(length).unwrap_or(u16::MAX);
            match kind {
                FrameKind::Free(order) => {
                    self.check_unmerged(Frame::in_block(block, offset), order)?;
                    free += pages;
                }
                FrameKind::Movable => movable += pages,
                FrameKind::Kernel(_) => unmovable += pages,
                FrameKind::Tail => return Err(at("a frame that belongs to nothing")),
            }
        }
        Ok((free, movable, unmovable))
    }

    /// Only what programs have is mapped more than once.
    fn check_mappings(&self, block: u32) -> Result<(), Broken> {
        let record = &self.blocks[block as usize];
        let Some(more) = &record.mappings else {
            return Ok(());
        };
        let is_movable = |offset: usize| match &record.contents {
            Contents::Huge(_) => true,
            Contents::Split(frames) => frames.kind(offset) == FrameKind::Movable,
            _ => false,
        };
        let is_huge = matches!(record.contents, Contents::Huge(_));
        let mut base = more.base.iter().enumerate();
        if more.huge > 0 && !is_huge || base.any(|(at, &count)| count > 0 && !is_movable(at)) {
            return Err(Broken(format!(
                "block {block}: something is mapped that is not there"
            )));
        }
        Ok(())
    }

    /// Free buddies have become one area, unless one of them is isolated.
    fn check_unmerged(&self, first: Frame, order: u8) -> Result<(), Broken> {
        let buddy = first.buddy(order);
        let is_apart = order >= LARGEST_ORDER
            || self.free_order(buddy) != Some(order)
            || self.zone_of(buddy.block_index()) != self.zone_of(first.block_index())
            || (order >= BLOCK_ORDER
                && !(self.mobility_of(buddy).is_mergeable()
                    && self.mobility_of(first).is_mergeable()));
        if is_apart {
            return Ok(());
        }
        let (first, buddy) = (first.number(), buddy.number());
        Err(Broken(format!(
            "the free areas of order {order} at {first} and {buddy} are buddies"
        )))
    }

    /// Every list holds what it should, once and linked both ways, and all that is free is in one.
    fn check_zone(&self, zone: usize) -> Result<(), Broken> {
        let at = |what: String| Err(Broken(format!("zone {zone}: {what}")));
        let record = &self.zones[zone];
        let (mut listed, mut isolated) = (0u64, 0u64);
        for order in 0..=LARGEST_ORDER {
            for mobility in MOBILITIES {
                let list = record.lists.list(order, mobility);
                let (mut place, mut previous, mut count) = (list.first, NONE, 0);
                while place != NONE {
                    let first = Frame::new(place);
                    if self.free_order(first) != Some(order) || self.mobility_of(first) != mobility
                    {
                        return at(format!(
                            "{place} is in the list of order {order}, {mobility:?}"
                        ));
                    }
                    if self.links(first).previous != previous {
                        return at(format!("the links of {place} do not fit"));
                    }
                    (previous, place, count) = (place, self.links(first).next, count + 1);
                }
                if (list.last, list.count) != (previous, count) {
                    return at(format!(
                        "the list of order {order}, {mobility:?}, ends wrongly"
                    ));
                }
                listed += count << order;
                if mobility == Mobility::Isolated {
                    isolated += count << order;
                }
            }
        }
        let blocks = record
            .blocks
            .clone()
            .map(|block| &self.blocks[block as usize]);
        let free: u64 = blocks.map(|block| u64::from(block.free)).sum();
        if free != listed || record.free != listed - isolated {
            return at(format!(
                "{free} pages are free, {listed} are in lists, {} are counted",
                record.free
            ));
        }
        Ok(())
    }
}
