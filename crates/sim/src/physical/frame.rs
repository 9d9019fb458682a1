//! How a base page of physical memory is named, and whom it belongs to.

use mega_core::compaction::{Block, PAGES_PER_BLOCK};

/// Base pages in a block, as an index.
pub(crate) const FRAMES_PER_BLOCK: usize = PAGES_PER_BLOCK as usize;

/// A base page of physical memory, by its number: its first address / 4096.
///
/// There are fewer than 2^30, so simulated memory has less than 4 TiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(u32);

impl Frame {
    /// The frame of this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Frame(number)
    }

    /// The frame `offset` frames into the block of this index.
    pub(crate) const fn in_block(block: u32, offset: usize) -> Self {
        #[allow(clippy::cast_possible_truncation)] // an offset is below 512
        let offset = offset as u32;
        Frame(block * PAGES_PER_BLOCK as u32 + offset)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The block that it lies in.
    #[must_use]
    pub const fn block(self) -> Block {
        Block::containing(self.0 as u64)
    }

    /// The index of the block that it lies in.
    #[must_use]
    pub const fn block_index(self) -> u32 {
        self.0 / PAGES_PER_BLOCK as u32
    }

    /// Its place in its block, 0 to 511.
    #[must_use]
    pub const fn offset(self) -> usize {
        (self.0 % PAGES_PER_BLOCK as u32) as usize
    }

    /// The other half of the area of twice the size (`__find_buddy_pfn` of Linux).
    pub(super) const fn buddy(self, order: u8) -> Self {
        Frame(self.0 ^ (1 << order))
    }

    /// The first frame of the area of this order that it lies in.
    pub(crate) const fn aligned(self, order: u8) -> Self {
        Frame(self.0 & !((1 << order) - 1))
    }

    /// The frame so many after it.
    pub(super) const fn plus(self, frames: u32) -> Self {
        Frame(self.0 + frames)
    }
}

/// Whose movable page it is, so that whoever moves it can tell: the reverse mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u64);

/// Bits of the page number: virtual addresses have 48.
const PAGE_BITS: u32 = 36;

impl Owner {
    /// Owners that there can be.
    pub const HOLDERS: u32 = 1 << 20;

    /// The page of this number that `holder` has: for a process, its virtual address / 4096.
    #[must_use]
    pub const fn new(holder: u32, page: u64) -> Self {
        debug_assert!(holder < Self::HOLDERS && page < 1 << PAGE_BITS);
        Owner((holder as u64) << PAGE_BITS | page)
    }

    /// Who has it.
    #[must_use]
    pub const fn holder(self) -> u32 {
        (self.0 >> PAGE_BITS) as u32
    }

    /// Which of the holder's pages it is.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.0 & ((1 << PAGE_BITS) - 1)
    }

    /// The holder's page so many after it.
    pub(super) const fn plus(self, pages: u64) -> Self {
        Owner(self.0 + pages)
    }

    pub(super) const fn to_word(self) -> u64 {
        self.0
    }

    pub(super) const fn from_word(word: u64) -> Self {
        Owner(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_keeps_both_its_parts() {
        let owner = Owner::new(Owner::HOLDERS - 1, (1 << PAGE_BITS) - 1);
        assert_eq!(owner.holder(), Owner::HOLDERS - 1);
        assert_eq!(owner.page(), (1 << PAGE_BITS) - 1);
    }

    #[test]
    fn buddies_are_each_others() {
        let frame = Frame::new(0x1_2340);
        for order in 0..10 {
            let frame = frame.aligned(order);
            assert_eq!(frame.buddy(order).buddy(order), frame);
            assert_ne!(frame.buddy(order), frame);
        }
    }
}
