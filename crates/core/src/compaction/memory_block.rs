//! Memory blocks: the aligned pieces in which Linux gives up memory for good.
//!
//! mega empties a memory block like a chunk, the least occupied first. But it does not come back, and its free pages
//! are gone too. So the free memory outside the block must hold the block's data, and what the kernel keeps for itself.
//! Beyond that, as much as a memory block must stay free, so that the machine does not run out of memory.

use std::cmp::Reverse;

use serde::Serialize;

use super::block::PAGES_PER_BLOCK;
use super::zone::{PhysicalObservation, ZoneKind, ZoneObservation};
use crate::page::{BASE_PAGE_SIZE, PageSize};

/// A memory block that could be taken: all of it memory of one zone, nothing in it that cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryBlock {
    /// Its first frame.
    pub first_pfn: u64,
    /// Base pages in it.
    pub pages: u64,
    /// Its NUMA node.
    pub node: u32,
    /// Base pages in use; all can be moved.
    pub movable: u64,
}

impl MemoryBlock {
    /// Its first address.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.first_pfn.saturating_mul(BASE_PAGE_SIZE)
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.pages.saturating_mul(BASE_PAGE_SIZE)
    }
}

/// The memory blocks of `pages` base pages that could be taken, on `node` where one is given: those with the least to
/// move first, of like ones the highest, because low memory is what devices need.
#[must_use]
pub fn memory_blocks(
    observation: &PhysicalObservation,
    pages: u64,
    node: Option<u32>,
) -> Vec<MemoryBlock> {
    let mut found: Vec<MemoryBlock> = observation
        .zones
        .iter()
        .filter(|zone| zone.kind != ZoneKind::Dma)
        .filter(|zone| node.is_none_or(|node| node == zone.node))
        .flat_map(|zone| of_zone(zone, pages))
        // Its own free pages are in the room of its node, and go with it.
        .filter(|block| room(observation, block.node) / 2 >= block.pages)
        .collect();
    found.sort_by_key(|block| (block.movable, Reverse(block.first_pfn)));
    found
}

fn of_zone(zone: &ZoneObservation, pages: u64) -> impl Iterator<Item = MemoryBlock> + '_ {
    let per_block = u64::from(PAGES_PER_BLOCK);
    let number = move |index: u64| index / (pages / per_block).max(1);
    zone.blocks
        .chunk_by(move |a, b| number(a.block.index()) == number(b.block.index()))
        .filter_map(move |blocks| {
            let first = blocks.first()?;
            let free: u64 = blocks.iter().map(|block| u64::from(block.free)).sum();
            let movable: u64 = blocks.iter().map(|block| u64::from(block.movable)).sum();
            let giant = blocks
                .iter()
                .any(|block| block.page_size == PageSize::Giant);
            // Whatever is neither free nor movable is in the way: unmovable, another zone's, or a hole.
            (free + movable == pages && !giant).then(|| MemoryBlock {
                first_pfn: number(first.block.index()).saturating_mul(pages),
                pages,
                node: zone.node,
                movable,
            })
        })
}

/// Free base pages on a node that the kernel does not keep for itself.
fn room(observation: &PhysicalObservation, node: u32) -> u64 {
    observation
        .zones
        .iter()
        .filter(|zone| zone.node == node && zone.kind != ZoneKind::Dma)
        .map(|zone| zone.free_pages().saturating_sub(zone.reserve))
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Block, BlockObservation};
    use super::*;

    /// Four blocks make a memory block here.
    const PAGES: u64 = 4 * 512;

    fn block(index: u64, movable: u16, unmovable: u16) -> BlockObservation {
        BlockObservation {
            free: PAGES_PER_BLOCK - movable - unmovable,
            movable,
            unmovable,
            ..BlockObservation::free(Block::containing(index * 512))
        }
    }

    fn memory(node: u32, first: u64, occupancy: &[(u16, u16)]) -> PhysicalObservation {
        let blocks: Vec<BlockObservation> = (first..)
            .zip(occupancy)
            .map(|(index, &(movable, unmovable))| block(index, movable, unmovable))
            .collect();
        let free = blocks.iter().map(|block| u64::from(block.free)).sum();
        PhysicalObservation {
            zones: vec![ZoneObservation {
                node,
                kind: ZoneKind::Normal,
                start_pfn: first * 512,
                spanned: blocks.len() as u64 * 512,
                free_areas: vec![free],
                reserve: 0,
                blocks,
            }],
        }
    }

    fn starts(found: &[MemoryBlock]) -> Vec<u64> {
        found.iter().map(|block| block.first_pfn / PAGES).collect()
    }

    #[test]
    fn the_least_occupied_comes_first_and_of_like_ones_the_highest() {
        let mut occupancy = vec![(0, 0); 16];
        occupancy[1] = (100, 0);
        occupancy[13] = (50, 0);
        assert_eq!(
            starts(&memory_blocks(&memory(0, 8, &occupancy), PAGES, None)),
            [4, 3, 5, 2]
        );
    }

    #[test]
    fn what_cannot_be_moved_or_is_not_there_is_in_the_way() {
        let mut occupancy = vec![(0, 0); 12];
        occupancy[0] = (0, 1);
        // The last block of the last memory block is another zone's.
        occupancy.pop();
        assert_eq!(
            starts(&memory_blocks(&memory(0, 8, &occupancy), PAGES, None)),
            [3]
        );
    }

    #[test]
    fn what_is_in_it_must_fit_into_what_is_free_elsewhere() {
        let mut occupancy = vec![(512, 0); 4];
        occupancy.extend([(0, 0); 8]);
        let mut tight = memory(0, 8, &occupancy);
        assert_eq!(starts(&memory_blocks(&tight, PAGES, None)), [4, 3, 2]);
        tight.zones[0].reserve = 1;
        assert_eq!(starts(&memory_blocks(&tight, PAGES, None)), [0; 0]);
    }

    #[test]
    fn another_nodes_memory_is_left_alone() {
        let mut both = memory(0, 8, &[(0, 0); 8]);
        both.zones.extend(memory(1, 16, &[(0, 0); 8]).zones);
        let nodes: Vec<u32> = memory_blocks(&both, PAGES, Some(1))
            .iter()
            .map(|block| block.node)
            .collect();
        assert_eq!(nodes, [1, 1]);
        assert_eq!(memory_blocks(&both, PAGES, None).len(), 4);
    }

    proptest! {
        #[test]
        fn what_is_found_is_whole_and_can_be_moved(
            occupancy in proptest::collection::vec((0u16..=256, 0u16..=1), 0..64),
            first in 0u64..8,
            node in proptest::option::of(0u32..2),
        ) {
            let observation = memory(0, first, &occupancy);
            for found in memory_blocks(&observation, PAGES, node) {
                prop_assert_eq!(found.first_pfn % PAGES, 0);
                let inside: Vec<_> = observation.zones[0]
                    .blocks
                    .iter()
                    .filter(|block| (found.first_pfn..found.first_pfn + PAGES).contains(&block.block.first_pfn()))
                    .collect();
                prop_assert_eq!(inside.len(), 4);
                prop_assert!(inside.iter().all(|block| block.unmovable == 0));
            }
        }
    }
}
