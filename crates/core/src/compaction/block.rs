//! Blocks and chunks: the aligned pieces of physical memory that a huge or a giant page needs whole.

use std::time::Duration;

use serde::Serialize;

use crate::page::PageSize;

/// Base pages in a block (order 9).
pub const PAGES_PER_BLOCK: u16 = 512;
/// Blocks in a chunk.
pub const BLOCKS_PER_CHUNK: u64 = 512;
/// Base pages in a chunk (order 18).
pub const PAGES_PER_CHUNK: u32 = 512 * 512;

/// An aligned piece of physical memory that can be emptied as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// 2 MiB, room for a huge page.
    Block,
    /// 1 GiB, room for a giant page.
    Chunk,
}

impl Unit {
    /// The buddy order of a free unit: 9 or 18.
    #[must_use]
    pub const fn order(self) -> u8 {
        match self {
            Unit::Block => 9,
            Unit::Chunk => 18,
        }
    }

    /// Base pages in one.
    #[must_use]
    pub const fn pages(self) -> u32 {
        1 << self.order()
    }

    /// Bytes in one.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Unit::Block => PageSize::Huge.bytes(),
            Unit::Chunk => PageSize::Giant.bytes(),
        }
    }
}

/// An aligned 2 MiB of physical memory, called by its index: frame number / 512.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Block(u64);

impl Block {
    /// The block that frame `pfn` lies in.
    #[must_use]
    pub const fn containing(pfn: u64) -> Self {
        Block(pfn / PAGES_PER_BLOCK as u64)
    }

    /// Frame number / 512.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.0
    }

    /// Its first frame.
    #[must_use]
    pub const fn first_pfn(self) -> u64 {
        self.0.saturating_mul(PAGES_PER_BLOCK as u64)
    }

    /// The chunk it lies in.
    #[must_use]
    pub const fn chunk(self) -> Chunk {
        Chunk(self.0 / BLOCKS_PER_CHUNK)
    }
}

/// An aligned 1 GiB of physical memory, called by its index: frame number / 262,144.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Chunk(u64);

impl Chunk {
    /// Its first frame.
    #[must_use]
    pub const fn first_pfn(self) -> u64 {
        self.0.saturating_mul(PAGES_PER_CHUNK as u64)
    }
}

/// One block, as it was when it was looked at.
///
/// `free + movable + unmovable` is at most 512; what is missing to 512 are frames without memory (holes, and
/// memory that is offline).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockObservation {
    /// Which.
    pub block: Block,
    /// Base pages in the kernel's free lists.
    pub free: u16,
    /// Base pages in use that the kernel can migrate.
    pub movable: u16,
    /// Base pages in use that it cannot.
    pub unmovable: u16,
    /// Base pages in use that were accessed since the last look. `None` where the observer cannot tell.
    pub accessed: Option<u16>,
    /// Time since a page of the block was last mapped anew, at the resolution of the looks. `None` where
    /// the observer cannot tell.
    pub age: Option<Duration>,
    /// The largest page that lies in the block, or that the block lies in.
    pub page_size: PageSize,
}

impl BlockObservation {
    /// A block with all its pages free.
    #[must_use]
    pub const fn free(block: Block) -> Self {
        BlockObservation {
            block,
            free: PAGES_PER_BLOCK,
            movable: 0,
            unmovable: 0,
            accessed: None,
            age: None,
            page_size: PageSize::Base,
        }
    }

    /// Frames without memory.
    #[must_use]
    pub const fn absent(&self) -> u16 {
        PAGES_PER_BLOCK
            .saturating_sub(self.free)
            .saturating_sub(self.movable)
            .saturating_sub(self.unmovable)
    }

    /// Whether all its pages are free.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.free == PAGES_PER_BLOCK
    }
}
