//! What an allocation takes when its own kind of blocks has nothing free: areas, or whole blocks, of another kind.

use super::PhysicalMemory;
use super::block::{FrameKind, NONE};
use super::frame::Frame;
use super::free_list::{BLOCK_ORDER, LARGEST_ORDER};
use super::mobility::Mobility;
use mega_core::compaction::PAGES_PER_BLOCK;

impl PhysicalMemory {
    /// Takes an area from another kind's lists, with its block where that is allowed (`__rmqueue_claim`), else without
    /// (`__rmqueue_steal`). From no split block where `keeps_blocks` is set (`ALLOC_NOFRAGMENT`).
    pub(super) fn take_fallback(
        &mut self,
        zone: usize,
        order: u8,
        mobility: Mobility,
        keeps_blocks: bool,
    ) -> Option<Frame> {
        let claimed = self.claim(zone, order, mobility, keeps_blocks);
        let found = match claimed {
            None if !keeps_blocks => self.steal(zone, order, mobility),
            claimed => claimed,
        };
        self.events.fallbacks += u64::from(found.is_some());
        found
    }

    fn claim(
        &mut self,
        zone: usize,
        order: u8,
        mobility: Mobility,
        keeps_blocks: bool,
    ) -> Option<Frame> {
        let (first, found) = self.claimable(zone, order, mobility, keeps_blocks)?;
        self.claim_block(zone, first, found, order, mobility)
    }

    /// The largest area of another kind whose block may be claimed, and its order.
    pub(super) fn claimable(
        &self,
        zone: usize,
        order: u8,
        mobility: Mobility,
        keeps_blocks: bool,
    ) -> Option<(Frame, u8)> {
        let least = if order < BLOCK_ORDER && keeps_blocks {
            BLOCK_ORDER
        } else {
            order
        };
        let found = (least..=LARGEST_ORDER)
            .rev()
            .filter_map(|found| Some((found, self.fallback(zone, found, mobility)?)))
            .take_while(|(found, _)| may_claim(*found, mobility));
        found
            .map(|(found, other)| (self.first(zone, found, other), found))
            .find(|(first, found)| {
                *found >= BLOCK_ORDER || self.is_worth_claiming(first.block_index(), mobility)
            })
    }

    /// The area that a list begins with.
    pub(super) fn first(&self, zone: usize, order: u8, mobility: Mobility) -> Frame {
        Frame::new(self.zones[zone].lists.list(order, mobility).first)
    }

    /// Breaks the smallest area of another kind. Its block stays what it is.
    pub(super) fn steal(&mut self, zone: usize, order: u8, mobility: Mobility) -> Option<Frame> {
        let (found, other) = (order..=LARGEST_ORDER)
            .find_map(|found| Some((found, self.fallback(zone, found, mobility)?)))?;
        let first = self.first(zone, found, other);
        self.remove(first, found, other);
        self.expand(first, order, found, other);
        Some(first)
    }

    /// Whose list of that order has something (`find_suitable_fallback`).
    fn fallback(&self, zone: usize, order: u8, mobility: Mobility) -> Option<Mobility> {
        let lists = &self.zones[zone].lists;
        let mut others = mobility.fallbacks().iter().copied();
        others.find(|&other| lists.list(order, other).first != NONE)
    }

    /// Makes the block of a free area one of this kind, and takes an area from it (`try_to_steal_block`).
    pub(super) fn claim_block(
        &mut self,
        zone: usize,
        first: Frame,
        found: u8,
        order: u8,
        mobility: Mobility,
    ) -> Option<Frame> {
        if found >= BLOCK_ORDER {
            self.remove(first, found, self.mobility_of(first));
            for block in 0..1u32 << (found - BLOCK_ORDER) {
                let block = &mut self.blocks[(first.block_index() + block) as usize];
                self.events.blocks_claimed += u64::from(block.mobility != mobility);
                block.mobility = mobility;
            }
            self.expand(first, order, found, mobility);
            return Some(first);
        }
        let block = first.block_index();
        self.change_kind(block, mobility);
        self.events.blocks_claimed += 1;
        self.take_smallest(zone, order, mobility)
    }

    /// Whether at least half of the block is free or of the kind that is wanted.
    fn is_worth_claiming(&self, block: u32, mobility: Mobility) -> bool {
        let block = &self.blocks[block as usize];
        let alike = match (mobility, block.mobility) {
            (Mobility::Movable, _) => block.movable,
            // All that cannot be moved counts: which of it is of which kind is not known.
            (_, Mobility::Movable) => block.unmovable,
            _ => 0,
        };
        block.free + alike >= PAGES_PER_BLOCK / 2
    }

    /// Makes a split block one of another kind, and moves its free areas to the ends of that kind's lists
    /// (`__move_freepages_block`).
    pub(super) fn change_kind(&mut self, block: u32, mobility: Mobility) {
        let other = self.blocks[block as usize].mobility;
        let areas = self.free_areas_of(block);
        for &(first, order) in &areas {
            self.remove(first, order, other);
        }
        // In between, so that no list ever holds an area of a block of another kind.
        self.blocks[block as usize].mobility = mobility;
        for (first, order) in areas {
            self.add_to_tail(first, order, mobility);
        }
    }

    /// The free areas of a split block, and their orders.
    fn free_areas_of(&self, block: u32) -> Vec<(Frame, u8)> {
        let Some(frames) = self.blocks[block as usize].frames() else {
            return Vec::new();
        };
        let free = frames.areas().filter_map(|(offset, kind, _)| match kind {
            FrameKind::Free(order) => Some((Frame::in_block(block, offset), order)),
            _ => None,
        });
        free.collect()
    }
}

/// Whether an allocation may claim the block that it falls back to (`can_steal_fallback`): pages that cannot move always,
/// so that they stay together; others for large areas only.
fn may_claim(found: u8, mobility: Mobility) -> bool {
    found >= BLOCK_ORDER / 2 || mobility != Mobility::Movable
}
