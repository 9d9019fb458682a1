//! Emptying chosen blocks, as `alloc_contig_range` does it: isolate, move what is in use, and free.

use super::PhysicalMemory;
use super::allocate::{Pages, Urgency};
use super::block::{Contents, FrameKind};
use super::frame::{FRAMES_PER_BLOCK, Frame, Owner};
use super::free_list::{BLOCK_ORDER, LARGEST_ORDER};
use super::mobility::Mobility;

/// A movable page that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTheWay {
    /// Where it lies.
    pub frame: Frame,
    /// Whose it is.
    pub owner: Owner,
}

impl PhysicalMemory {
    /// Makes a block's free pages unavailable (`set_migratetype_isolate`). A free area that reaches beyond the block is
    /// split first.
    pub fn isolate(&mut self, block: u32) {
        self.break_largest(block);
        let first = Frame::in_block(block, 0);
        if self.free_order(first) == Some(BLOCK_ORDER) {
            let mobility = self.mobility_of(first);
            self.remove(first, BLOCK_ORDER, mobility);
            self.blocks[block as usize].mobility = Mobility::Isolated;
            self.add_to_tail(first, BLOCK_ORDER, Mobility::Isolated);
        } else {
            self.change_kind(block, Mobility::Isolated);
        }
        self.debug_check(first);
    }

    /// Ends that: its free pages are to be had again, for movable pages first, and join what is free beside it
    /// (`unset_migratetype_isolate`).
    pub fn end_isolation(&mut self, block: u32) {
        let first = Frame::in_block(block, 0);
        if self.mobility_of(first) != Mobility::Isolated {
            return;
        }
        // Two isolated blocks may have joined.
        self.break_largest(block);
        if self.free_order(first) == Some(BLOCK_ORDER) {
            self.remove(first, BLOCK_ORDER, Mobility::Isolated);
            self.blocks[block as usize].mobility = Mobility::Movable;
            self.give_back(first, BLOCK_ORDER, Mobility::Movable);
        } else {
            self.change_kind(block, Mobility::Movable);
        }
        self.debug_check(first);
    }

    /// Splits the free area of order 10 that a block lies in, if it does.
    fn break_largest(&mut self, block: u32) {
        let first = Frame::in_block(block, 0).aligned(LARGEST_ORDER);
        if self.free_order(first) != Some(LARGEST_ORDER) {
            return;
        }
        let mobility = self.mobility_of(first);
        self.remove(first, LARGEST_ORDER, mobility);
        self.add_to_head(first, BLOCK_ORDER, mobility);
        self.add_to_head(first.plus(1 << BLOCK_ORDER), BLOCK_ORDER, mobility);
    }

    /// The movable base pages of a split block, in order.
    pub fn movable_in(&self, block: u32) -> Vec<InTheWay> {
        let Some(frames) = self.blocks[block as usize].frames() else {
            return Vec::new();
        };
        (0..FRAMES_PER_BLOCK)
            .filter(|&offset| frames.kind(offset) == FrameKind::Movable)
            .map(|offset| InTheWay {
                frame: Frame::in_block(block, offset),
                owner: frames.owner(offset),
            })
            .collect()
    }

    /// Moves a base page to where the allocator wants it, on its node if that has room. Its new place; `None` where there
    /// is none.
    pub fn migrate(&mut self, from: Frame) -> Option<Frame> {
        let owner = self.owner_of(from)?;
        let zone = self.zone_of(from.block_index());
        let node = self.zones[zone].node;
        // It is not mapped anew, so the age of its new block stays.
        let to = self.take_area(Pages::Base(owner), node, Urgency::Pressed)?;
        self.move_base(from, to, owner);
        Some(to)
    }

    /// Moves a base page onto a frame that was taken out of the free lists.
    fn move_base(&mut self, from: Frame, to: Frame, owner: Owner) {
        self.place(to, Pages::Base(owner));
        self.move_mappings(from, to);
        self.free(from);
        self.debug_check(to);
    }

    /// Takes the first free frame of a split block out of the free lists, for [`PhysicalMemory::migrate_to`]
    /// (`isolate_freepages_block`).
    pub fn take_frame(&mut self, block: u32) -> Option<Frame> {
        let frames = self.blocks[block as usize].frames()?;
        let (offset, order) = frames.areas().find_map(|(offset, kind, _)| match kind {
            FrameKind::Free(order) => Some((offset, order)),
            _ => None,
        })?;
        let first = Frame::in_block(block, offset);
        let mobility = self.mobility_of(first);
        self.remove(first, order, mobility);
        self.expand(first, 0, order, mobility);
        self.debug_check_taken(first);
        Some(first)
    }

    /// Moves a base page onto a frame that [`PhysicalMemory::take_frame`] took. Whether there was one.
    pub fn migrate_to(&mut self, from: Frame, to: Frame) -> bool {
        let Some(owner) = self.owner_of(from) else {
            return false;
        };
        self.move_base(from, to, owner);
        true
    }

    /// Takes a whole free block out of the free lists for a huge page. Whether it was free.
    pub fn take_block(&mut self, block: u32, owner: Owner) -> bool {
        self.break_largest(block);
        let first = Frame::in_block(block, 0);
        if self.free_order(first) != Some(BLOCK_ORDER) {
            return false;
        }
        let mobility = self.mobility_of(first);
        self.remove(first, BLOCK_ORDER, mobility);
        self.place(first, Pages::Huge(owner));
        self.debug_check(first);
        true
    }

    /// The owner of the movable page that lies at a frame: of a base page, or of that part of a huge page.
    #[must_use]
    pub fn owner_of(&self, frame: Frame) -> Option<Owner> {
        let block = self.blocks.get(frame.block_index() as usize)?;
        match &block.contents {
            Contents::Huge(owner) => Some(owner.plus(frame.offset() as u64)),
            Contents::Split(frames) if frames.kind(frame.offset()) == FrameKind::Movable => {
                Some(frames.owner(frame.offset()))
            }
            _ => None,
        }
    }
}
