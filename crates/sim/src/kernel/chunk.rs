//! Chunks: which are free, and which is emptied for a giant page.

use super::shared_memory::mappers;
use super::{ChunkChoice, Kernel};
use crate::address_space::Entry;
use crate::physical::BlockUse;

/// A chunk by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chunk(pub(super) u32);

/// Blocks in one.
const BLOCKS: u32 = 512;

impl Chunk {
    pub(super) fn blocks(self) -> std::ops::Range<u32> {
        self.0 * BLOCKS..(self.0 + 1) * BLOCKS
    }
}

impl Kernel {
    /// The whole chunks of a node.
    fn chunks_of(&self, node: u32) -> Vec<Chunk> {
        (0..self.memory.blocks() / BLOCKS)
            .map(Chunk)
            .filter(|chunk| self.memory.node_of_chunk(chunk.0) == Some(node))
            .collect()
    }

    /// The first chunk of a node that is free as a whole.
    pub(super) fn free_chunk(&self, node: u32) -> Option<Chunk> {
        let mut chunks = self.chunks_of(node).into_iter();
        chunks.find(|chunk| self.is_free(*chunk))
    }

    /// How many chunks of a node are free as a whole.
    pub(super) fn free_chunks(&self, node: u32) -> u64 {
        let chunks = self.chunks_of(node).into_iter();
        chunks.filter(|chunk| self.is_free(*chunk)).count() as u64
    }

    fn is_free(&self, chunk: Chunk) -> bool {
        self.memory.chunk_counts(chunk.0).free == BLOCKS * 512
    }

    /// The chunk that is to be emptied for a giant page: of those that can be, by the setting.
    pub(super) fn chunk_to_empty(&mut self, node: u32) -> Option<Chunk> {
        let chunks = self.chunks_of(node);
        let can_be = |chunk: &Chunk| {
            let counts = self.memory.chunk_counts(chunk.0);
            // Page cache makes room where none is free.
            let free = self.memory.free_frames() + self.cached();
            let room = free.saturating_sub(counts.free.into());
            counts.unmovable == 0 && u64::from(counts.movable) < room && !self.holds_giant(*chunk)
        };
        match self.settings.chunk_choice {
            ChunkChoice::LeastOccupied => chunks
                .into_iter()
                .filter(can_be)
                .min_by_key(|chunk| (self.memory.chunk_counts(chunk.0).movable, *chunk)),
            ChunkChoice::Sequential => {
                let next = chunks.partition_point(|chunk| chunk.0 < self.chunk_scanner);
                let (before, after) = chunks.split_at(next);
                let chosen = after
                    .iter()
                    .chain(before)
                    .find(|chunk| can_be(chunk))
                    .copied()?;
                self.chunk_scanner = chosen.0 + 1;
                Some(chosen)
            }
        }
    }

    /// Whether a giant page lies in a chunk.
    pub(super) fn holds_giant(&self, chunk: Chunk) -> bool {
        chunk.blocks().any(|block| self.is_in_giant(block))
    }

    /// Whether the huge page that a block holds is a part of a giant page.
    pub(super) fn is_in_giant(&self, block: u32) -> bool {
        let BlockUse::Huge(owner) = self.memory.block_use(block) else {
            return false;
        };
        mappers(&self.families, &self.shared, owner).any(|(pid, address)| {
            let space = &self.process(pid).space;
            let region = mega_core::Region::containing(address);
            let is_giant = space
                .span(address)
                .is_some_and(|span| span.giant.is_some());
            is_giant
                && matches!(space.entry(region), Entry::Huge(page) if page.frame.block_index() == block)
        })
    }
}
