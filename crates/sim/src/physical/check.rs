//! What must hold of physical memory after every operation.

use mega_core::compaction::PAGES_PER_BLOCK;

use super::PhysicalMemory;
use super::block::{BlockRecord, Contents, FrameKind, NONE};
use super::frame::{FRAMES_PER_BLOCK, Frame};
use super::free_list::{BLOCK_ORDER, FreeList, LARGEST_ORDER};
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
            self.check_block(block, None)?;
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

    /// At the end of each operation, in builds with debug assertions: the block that it touched.
    pub(super) fn debug_check(&self, frame: Frame) {
        if cfg!(debug_assertions) {
            let result = self.check_touched(frame, None);
            debug_assert!(result.is_ok(), "{result:?}");
        }
    }

    /// The same, after a frame was taken for which nobody has said yet what comes into it.
    pub(super) fn debug_check_taken(&self, frame: Frame) {
        if cfg!(debug_assertions) {
            let result = self.check_touched(frame, Some(frame));
            debug_assert!(result.is_ok(), "{result:?}");
        }
    }

    /// At the end of an operation that changes nothing but how often a page is mapped, in such builds: it is one that can be.
    pub(super) fn debug_check_mapped(&self, frame: Frame) {
        debug_assert!(
            self.mappings(frame) > 0,
            "{frame:?} is mapped and not in use"
        );
    }

    /// After a list changed, in builds with debug assertions: these lie in it side by side, and it counts none if it has none.
    pub(super) fn debug_check_row(&self, zone: usize, order: u8, mobility: Mobility, row: &[u32]) {
        if cfg!(debug_assertions) {
            let list = self.zones[zone].lists.list(order, mobility);
            let mut areas = row.iter().filter(|&&place| place != NONE);
            let holds = areas.all(|&place| self.belongs(place, order, mobility))
                && row
                    .windows(2)
                    .all(|pair| self.are_joined(list, pair[0], pair[1]))
                && (list.first == NONE) == (list.count == 0);
            debug_assert!(
                holds,
                "zone {zone}: the list of order {order}, {mobility:?}, is not as it must be at {row:?}"
            );
        }
    }

    /// A block, what shares an area of order 10 with it, and the sum of its zone.
    fn check_touched(&self, frame: Frame, taken: Option<Frame>) -> Result<(), Broken> {
        let block = frame.block_index();
        self.check_block(block, taken)?;
        let other = frame.buddy(BLOCK_ORDER).block_index();
        // A split block is no half of an area of order 10, nor was it before: what is done to one block does not split the other.
        if self.blocks[other as usize].frames().is_none() {
            self.check_block(other, None)?;
        }
        self.check_free(self.zone_of(block))
    }

    /// A block is tiled by areas that begin at multiples of their size, its counts are those of its areas, and no two free
    /// buddies lie side by side. One frame may be taken.
    fn check_block(&self, block: u32, taken: Option<Frame>) -> Result<(), Broken> {
        self.check_halves(block)?;
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
            Contents::Split(_) => self.count_areas(block, taken)?,
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

    /// An area of order 10 has both the blocks that it lies in, and where it is free they are of one kind.
    fn check_halves(&self, block: u32) -> Result<(), Broken> {
        let first = &self.blocks[(block & !1) as usize];
        let second = &self.blocks[(block | 1) as usize];
        let has_tail = matches!(second.contents, Contents::FreeTail | Contents::KernelTail);
        let fits = match first.contents {
            Contents::Free { order } if order > BLOCK_ORDER => {
                matches!(second.contents, Contents::FreeTail) && first.mobility == second.mobility
            }
            Contents::Kernel { order } if order > BLOCK_ORDER => {
                matches!(second.contents, Contents::KernelTail)
            }
            Contents::FreeTail | Contents::KernelTail => false,
            _ => !has_tail,
        };
        if fits {
            return Ok(());
        }
        Err(Broken(format!("block {block}: half an area of order 10")))
    }

    fn count_areas(&self, block: u32, taken: Option<Frame>) -> Result<(u16, u16, u16), Broken> {
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
                // It is in no list, and counts as free until something is placed there.
                FrameKind::Tail if taken == Some(Frame::in_block(block, offset)) => free += pages,
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
        for order in 0..=LARGEST_ORDER {
            for mobility in MOBILITIES {
                let list = record.lists.list(order, mobility);
                let (mut place, mut previous, mut count) = (list.first, NONE, 0);
                while place != NONE {
                    if !self.belongs(place, order, mobility) {
                        return at(format!(
                            "{place} is in the list of order {order}, {mobility:?}"
                        ));
                    }
                    if !self.are_joined(list, previous, place) {
                        return at(format!("the links of {place} do not fit"));
                    }
                    let next = self.links(Frame::new(place)).next;
                    (previous, place, count) = (place, next, count + 1);
                }
                if (list.last, list.count) != (previous, count) {
                    return at(format!(
                        "the list of order {order}, {mobility:?}, ends wrongly"
                    ));
                }
            }
        }
        let blocks = record
            .blocks
            .clone()
            .map(|block| &self.blocks[block as usize]);
        let free: u64 = blocks.map(|block| u64::from(block.free)).sum();
        let listed = MOBILITIES.map(|mobility| record.lists.pages(mobility));
        let listed: u64 = listed.iter().sum();
        if free != listed {
            return at(format!("{free} pages are free, {listed} are in lists"));
        }
        self.check_free(zone)
    }

    /// A zone counts as free what its lists have, but for what is isolated.
    fn check_free(&self, zone: usize) -> Result<(), Broken> {
        let record = &self.zones[zone];
        let kinds = MOBILITIES.iter().filter(|kind| kind.is_mergeable());
        let listed: u64 = kinds.map(|&kind| record.lists.pages(kind)).sum();
        if record.free == listed {
            return Ok(());
        }
        let free = record.free;
        Err(Broken(format!(
            "zone {zone}: {listed} pages may be had from its lists, {free} are counted"
        )))
    }

    /// Whether a free area of this order begins there, in a block of this kind.
    fn belongs(&self, place: u32, order: u8, mobility: Mobility) -> bool {
        let first = Frame::new(place);
        self.free_order(first) == Some(order) && self.mobility_of(first) == mobility
    }

    /// Whether two areas lead to each other in a list, or one of them to its end.
    fn are_joined(&self, list: &FreeList, previous: u32, next: u32) -> bool {
        let after = match previous {
            NONE => list.first,
            previous => self.links(Frame::new(previous)).next,
        };
        let before = match next {
            NONE => list.last,
            next => self.links(Frame::new(next)).previous,
        };
        (after, before) == (next, previous)
    }
}
