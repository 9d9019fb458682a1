//! Allocation and freeing: which zone gives, and what is recorded of what it gave.

use super::PhysicalMemory;
use super::block::{Contents, FrameKind};
use super::frame::{Frame, Owner};
use super::free_list::{BLOCK_ORDER, LARGEST_ORDER};
use super::mobility::Mobility;

/// What pages are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// A movable base page of that owner.
    Base(Owner),
    /// A movable huge page whose first base page is the owner's.
    Huge(Owner),
    /// Pages of the kernel's own that cannot move, of this order (0 to 10).
    Unmovable(u8),
    /// Pages of the kernel's own that could be reclaimed, of this order (0 to 10).
    Reclaimable(u8),
}

impl Pages {
    /// The order of the area that they need.
    #[must_use]
    pub const fn order(self) -> u8 {
        match self {
            Pages::Base(_) => 0,
            Pages::Huge(_) => BLOCK_ORDER,
            Pages::Unmovable(order) | Pages::Reclaimable(order) => {
                if order > LARGEST_ORDER {
                    LARGEST_ORDER
                } else {
                    order
                }
            }
        }
    }

    /// The kind of blocks that they belong in.
    #[must_use]
    pub const fn mobility(self) -> Mobility {
        match self {
            Pages::Base(_) | Pages::Huge(_) => Mobility::Movable,
            Pages::Unmovable(_) => Mobility::Unmovable,
            Pages::Reclaimable(_) => Mobility::Reclaimable,
        }
    }
}

/// How far down an allocation may take a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// To the low watermark: the first attempt of every allocation.
    Normal,
    /// To the min watermark: the attempt after the kernel began to reclaim.
    Pressed,
}

impl PhysicalMemory {
    /// Allocates, on `node` if that has memory, or else on the others in order. `None` where no zone may give it
    /// (`get_page_from_freelist`).
    pub fn allocate(&mut self, pages: Pages, node: u32, urgency: Urgency) -> Option<Frame> {
        let first = self.take_area(pages, node, urgency)?;
        self.place(first, pages);
        self.blocks[first.block_index() as usize].mapped_at = self.now;
        self.debug_check(first);
        Some(first)
    }

    /// Takes an area out of the free lists.
    pub(super) fn take_area(&mut self, pages: Pages, node: u32, urgency: Urgency) -> Option<Frame> {
        // First without breaking into blocks of another kind (`alloc_flags_nofragment`).
        let found = [true, false]
            .into_iter()
            .find_map(|keeps_blocks| self.take_from_zones(pages, node, urgency, keeps_blocks));
        match found {
            Some(_) => self.events.allocated += 1,
            None => self.events.failed += 1,
        }
        found
    }

    fn take_from_zones(
        &mut self,
        pages: Pages,
        node: u32,
        urgency: Urgency,
        keeps_blocks: bool,
    ) -> Option<Frame> {
        let (order, mobility) = (pages.order(), pages.mobility());
        let nodes = self.zonelists.len();
        let node = (node as usize).min(nodes.saturating_sub(1));
        (0..self.zones.len()).find_map(|place| {
            let zone = self.zonelists[node][place];
            if !self.zones[zone].may_give(order, urgency) {
                return None;
            }
            self.take(zone, order, mobility, keeps_blocks)
        })
    }

    /// `__rmqueue`.
    pub(super) fn take(
        &mut self,
        zone: usize,
        order: u8,
        mobility: Mobility,
        keeps_blocks: bool,
    ) -> Option<Frame> {
        self.take_smallest(zone, order, mobility)
            .or_else(|| self.take_fallback(zone, order, mobility, keeps_blocks))
    }

    /// Records what is in an area that was taken out of the free lists.
    pub(super) fn place(&mut self, first: Frame, pages: Pages) {
        let order = pages.order();
        let index = first.block_index() as usize;
        let block = &mut self.blocks[index];
        match pages {
            Pages::Base(owner) => {
                let frames = block.split();
                frames.set_kind(first.offset(), FrameKind::Movable);
                frames.set_owner(first.offset(), owner);
            }
            Pages::Huge(owner) => block.contents = Contents::Huge(owner),
            Pages::Unmovable(_) | Pages::Reclaimable(_) if order < BLOCK_ORDER => {
                let frames = block.split();
                frames.set_kind(first.offset(), FrameKind::Kernel(order));
            }
            Pages::Unmovable(_) | Pages::Reclaimable(_) => {
                block.contents = Contents::Kernel { order };
                if order > BLOCK_ORDER {
                    self.blocks[index + 1].contents = Contents::KernelTail;
                }
            }
        }
        self.count(first, order, |block, pages_in_it| {
            block.free -= pages_in_it;
            match pages {
                Pages::Base(_) | Pages::Huge(_) => block.movable += pages_in_it,
                _ => block.unmovable += pages_in_it,
            }
        });
    }

    /// Changes the counts of the blocks that an area lies in.
    fn count(
        &mut self,
        first: Frame,
        order: u8,
        change: impl Fn(&mut super::block::BlockRecord, u16),
    ) {
        let pages = 1u16 << order.min(BLOCK_ORDER);
        let blocks = 1u32 << order.saturating_sub(BLOCK_ORDER);
        for block in 0..blocks {
            change(
                &mut self.blocks[(first.block_index() + block) as usize],
                pages,
            );
        }
    }

    /// Gives back what begins at `first` and no entry maps any more: a base page, a huge page or pages of the kernel's own. Returns
    /// how many base pages it had, 0 where nothing in use begins there.
    pub fn free(&mut self, first: Frame) -> u64 {
        let Some((order, is_movable)) = self.in_use(first) else {
            return 0;
        };
        self.lift(first, order, is_movable);
        self.events.freed += 1;
        // Block by block: each may be of another kind by now (`split_large_buddy`).
        let part = order.min(BLOCK_ORDER);
        for index in 0..1 << (order - part) {
            let first = first.plus(index << part);
            let mobility = self.mobility_of(first);
            self.give_back(first, part, mobility);
        }
        self.debug_check(first);
        1 << order
    }

    /// Forgets what is in an area.
    pub(super) fn lift(&mut self, first: Frame, order: u8, is_movable: bool) {
        let index = first.block_index() as usize;
        match &mut self.blocks[index].contents {
            Contents::Split(frames) => frames.set_kind(first.offset(), FrameKind::Tail),
            contents => *contents = Contents::Taken,
        }
        if order > BLOCK_ORDER {
            self.blocks[index + 1].contents = Contents::Taken;
        }
        self.count(first, order, |block, pages| {
            block.free += pages;
            if is_movable {
                block.movable -= pages;
            } else {
                block.unmovable -= pages;
            }
        });
    }

    /// The order of what is in use from a frame on, and whether it can move.
    fn in_use(&self, first: Frame) -> Option<(u8, bool)> {
        let block = self.blocks.get(first.block_index() as usize)?;
        match &block.contents {
            Contents::Huge(_) if first.offset() == 0 => Some((BLOCK_ORDER, true)),
            Contents::Kernel { order } if first.offset() == 0 => Some((*order, false)),
            Contents::Split(frames) => match frames.kind(first.offset()) {
                FrameKind::Movable => Some((0, true)),
                FrameKind::Kernel(order) => Some((order, false)),
                FrameKind::Free(_) | FrameKind::Tail => None,
            },
            _ => None,
        }
    }

    /// Breaks a huge page up into 512 base pages of the same owner where it lies.
    pub(super) fn split_huge(&mut self, first: Frame) {
        let block = &mut self.blocks[first.block_index() as usize];
        let Contents::Huge(owner) = block.contents else {
            return;
        };
        let frames = block.split();
        for (offset, page) in (0..super::frame::FRAMES_PER_BLOCK).zip(0..) {
            frames.set_kind(offset, FrameKind::Movable);
            frames.set_owner(offset, owner.plus(page));
        }
        self.debug_check(first);
    }
}
