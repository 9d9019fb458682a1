//! How often the pages in use are mapped, and what becomes of one when a page table entry is gone: it is freed with the last. What
//! belongs to shared memory is held by that as by one entry more.
//!
//! A huge page lasts as long as an entry maps it whole. When the last of these is gone, the parts that entries of base pages
//! still map stay as base pages, and the others are freed: the split that Linux defers until memory is short (`deferred_split_folio`)
//! happens at once.

use super::PhysicalMemory;
use super::block::{BlockRecord, Contents, FrameKind};
use super::frame::{FRAMES_PER_BLOCK, Frame};

/// The entries that map a block's pages, without the first that maps each base page or the huge page.
#[derive(Clone, Debug)]
pub(super) struct Mappings {
    /// Those that map the huge page whole.
    pub(super) huge: u32,
    /// Those that map each base page, or that part of the huge page.
    pub(super) base: [u32; FRAMES_PER_BLOCK],
}

impl Mappings {
    const NONE: Mappings = Mappings {
        huge: 0,
        base: [0; FRAMES_PER_BLOCK],
    };
}

impl BlockRecord {
    fn mappings(&mut self) -> &mut Mappings {
        self.mappings
            .get_or_insert_with(|| Box::new(Mappings::NONE))
    }
}

impl PhysicalMemory {
    /// Page table entries that map a movable base page, or that part of a huge page; 0 where there is none.
    #[must_use]
    pub fn mappings(&self, frame: Frame) -> u32 {
        let Some(block) = self.blocks.get(frame.block_index() as usize) else {
            return 0;
        };
        let more = block.mappings.as_ref();
        let base = more.map_or(0, |more| more.base[frame.offset()]);
        match &block.contents {
            Contents::Huge(_) => 1 + more.map_or(0, |more| more.huge) + base,
            Contents::Split(frames) if frames.kind(frame.offset()) == FrameKind::Movable => {
                1 + base
            }
            _ => 0,
        }
    }

    /// How often each page of a block is mapped, where all are mapped as often and that can be told at once.
    pub(crate) fn mappings_of_all(&self, block: u32) -> Option<u32> {
        let block = self.blocks.get(block as usize)?;
        let more = block.mappings.as_ref();
        let is_plain = more.is_none_or(|more| more.base.iter().all(|&count| count == 0));
        match &block.contents {
            Contents::Huge(_) if is_plain => Some(1 + more.map_or(0, |more| more.huge)),
            Contents::Huge(_) | Contents::Split(_) => None,
            _ => Some(0),
        }
    }

    /// Whether more than one entry maps a base page, or anything of the huge page that it is a part of.
    #[must_use]
    pub fn is_shared(&self, frame: Frame) -> bool {
        let Some(block) = self.blocks.get(frame.block_index() as usize) else {
            return false;
        };
        let Some(more) = &block.mappings else {
            return false;
        };
        match &block.contents {
            Contents::Huge(_) => more.huge > 0 || more.base.iter().any(|&count| count > 0),
            _ => more.base[frame.offset()] > 0,
        }
    }

    /// One entry more maps a base page that is in use.
    pub fn share(&mut self, frame: Frame) {
        let block = &mut self.blocks[frame.block_index() as usize];
        block.mappings().base[frame.offset()] += 1;
        self.debug_check_mapped(frame);
    }

    /// One entry more maps a huge page whole.
    pub fn share_huge(&mut self, first: Frame) {
        let block = &mut self.blocks[first.block_index() as usize];
        debug_assert!(matches!(block.contents, Contents::Huge(_)));
        block.mappings().huge += 1;
        self.debug_check(first);
    }

    /// An entry that mapped a base page, or a part of a huge page, is gone.
    pub fn release(&mut self, frame: Frame) {
        let block = &mut self.blocks[frame.block_index() as usize];
        match &mut block.mappings {
            Some(more) if more.base[frame.offset()] > 0 => {
                more.base[frame.offset()] -= 1;
                self.debug_check_mapped(frame);
            }
            _ => {
                debug_assert!(!matches!(block.contents, Contents::Huge(_)));
                self.free(frame);
            }
        }
    }

    /// An entry that mapped a huge page whole is gone.
    pub fn release_huge(&mut self, first: Frame) {
        if !self.is_shared(first) {
            self.free(first);
            return;
        }
        let more = self.blocks[first.block_index() as usize].mappings();
        if more.huge > 0 {
            more.huge -= 1;
            self.debug_check(first);
            return;
        }
        self.split_huge(first);
        for offset in 0..FRAMES_PER_BLOCK {
            self.release(Frame::in_block(first.block_index(), offset));
        }
    }

    /// An entry that mapped a huge page whole became 512 that map its parts. With the last such entry the huge page becomes
    /// 512 base pages of the same owner where it lies.
    pub fn split_mapping(&mut self, first: Frame) {
        let block = &mut self.blocks[first.block_index() as usize];
        match &mut block.mappings {
            Some(more) if more.huge > 0 => {
                more.huge -= 1;
                more.base.iter_mut().for_each(|count| *count += 1);
                self.debug_check(first);
            }
            _ => self.split_huge(first),
        }
    }

    /// What maps a page maps another one instead, that was placed just now.
    pub(super) fn move_mappings(&mut self, from: Frame, to: Frame) {
        let Some(more) = &mut self.blocks[from.block_index() as usize].mappings else {
            return;
        };
        let count = std::mem::take(&mut more.base[from.offset()]);
        if count > 0 {
            let block = &mut self.blocks[to.block_index() as usize];
            block.mappings().base[to.offset()] = count;
        }
    }

    /// Moves a huge page to another block, where one was placed just now, with all that maps it.
    pub fn migrate_huge(&mut self, from: Frame, to: Frame) {
        let more = self.blocks[from.block_index() as usize].mappings.take();
        self.blocks[to.block_index() as usize].mappings = more;
        self.free(from);
        self.debug_check(to);
    }
}
