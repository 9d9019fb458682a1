//! What a policy can choose to empty: a block or a chunk, with its pages counted.

use std::time::Duration;

use super::block::{BLOCKS_PER_CHUNK, Block, BlockObservation, Unit};
use super::zone::{ZoneKind, ZoneObservation};
use crate::page::PageSize;

/// A whole block or chunk of one zone, with the pages of all its blocks counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Block or chunk.
    pub unit: Unit,
    /// Its first frame.
    pub first_pfn: u64,
    /// Its NUMA node.
    pub node: u32,
    /// Its zone.
    pub zone: ZoneKind,
    /// Base pages in the free lists.
    pub free: u32,
    /// Base pages in use that can be migrated: what emptying it copies.
    pub movable: u32,
    /// Base pages in use that cannot, and frames without memory: each makes emptying it impossible.
    pub in_the_way: u32,
    /// Base pages accessed since the last look; 0 where that is not known.
    pub accessed: u32,
    /// Age of its youngest block. `None` where that is not known.
    pub age: Option<Duration>,
    /// The largest page in it.
    pub page_size: PageSize,
}

impl Candidate {
    /// Whether emptying it is possible and of use: nothing in the way, something to move, and something
    /// free already (where nothing is free, as much contiguity is spent on the copy as is gained).
    #[must_use]
    pub const fn is_worth_emptying(&self) -> bool {
        self.in_the_way == 0 && self.movable > 0 && self.free > 0
    }

    /// Whether all its pages are free.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.in_the_way == 0 && self.movable == 0
    }

    fn of_block(zone: &ZoneObservation, block: &BlockObservation) -> Self {
        Candidate {
            unit: Unit::Block,
            first_pfn: block.block.first_pfn(),
            node: zone.node,
            zone: zone.kind,
            free: block.free.into(),
            movable: block.movable.into(),
            in_the_way: u32::from(block.unmovable) + u32::from(block.absent()),
            accessed: block.accessed.unwrap_or(0).into(),
            age: block.age,
            page_size: block.page_size,
        }
    }

    /// The chunk of `blocks`, which are all of one chunk.
    fn of_chunk(zone: &ZoneObservation, blocks: &[BlockObservation]) -> Option<Self> {
        let first = blocks.first()?;
        let mut chunk = Candidate {
            unit: Unit::Chunk,
            first_pfn: first.block.chunk().first_pfn(),
            free: 0,
            movable: 0,
            in_the_way: 0,
            accessed: 0,
            ..Candidate::of_block(zone, first)
        };
        for block in blocks {
            let block = Candidate::of_block(zone, block);
            chunk.free += block.free;
            chunk.movable += block.movable;
            chunk.in_the_way += block.in_the_way;
            chunk.accessed += block.accessed;
            chunk.age = match (chunk.age, block.age) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (known, None) | (None, known) => known,
            };
            chunk.page_size = chunk.page_size.max(block.page_size);
        }
        // Blocks that the zone does not have are another zone's, or holes.
        chunk.in_the_way = Unit::Chunk
            .pages()
            .saturating_sub(chunk.free)
            .saturating_sub(chunk.movable);
        Some(chunk)
    }
}

/// Every block, or every chunk, that `zone` has a part of, in address order.
#[must_use]
pub fn candidates(zone: &ZoneObservation, unit: Unit) -> Vec<Candidate> {
    match unit {
        Unit::Block => zone
            .blocks
            .iter()
            .map(|block| Candidate::of_block(zone, block))
            .collect(),
        Unit::Chunk => zone
            .blocks
            .chunk_by(|a, b| a.block.chunk() == b.block.chunk())
            .filter_map(|blocks| Candidate::of_chunk(zone, blocks))
            .collect(),
    }
}

/// The blocks of `zone` that lie in `candidate`, in address order.
#[must_use]
pub(super) fn blocks_of<'a>(
    zone: &'a ZoneObservation,
    candidate: &Candidate,
) -> &'a [BlockObservation] {
    let count = match candidate.unit {
        Unit::Block => 1,
        Unit::Chunk => BLOCKS_PER_CHUNK,
    };
    let first = Block::containing(candidate.first_pfn).index();
    let start = zone
        .blocks
        .partition_point(|block| block.block.index() < first);
    let end = zone
        .blocks
        .partition_point(|block| block.block.index() < first.saturating_add(count));
    zone.blocks.get(start..end).unwrap_or_default()
}
