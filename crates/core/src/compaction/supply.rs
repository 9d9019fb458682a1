//! How many huge and giant pages a machine could give: now, and once compaction has done its work.

use serde::Serialize;

use super::block::{PAGES_PER_BLOCK, Unit};
use super::candidate::candidates;
use super::goal::{Goal, ToEmpty};
use super::zone::PhysicalObservation;
use super::{CompactionPolicy, LeastOccupied};

/// Pages that could be given: one kind or the other, not both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Supply {
    /// Huge pages: free blocks.
    pub huge: u64,
    /// Giant pages: chunks of free blocks.
    pub giant: u64,
}

impl Supply {
    /// What is free now.
    #[must_use]
    pub fn now(observation: &PhysicalObservation) -> Self {
        let zones = observation.zones.iter();
        let chunks = zones.flat_map(|zone| candidates(zone, Unit::Chunk));
        Supply {
            huge: observation.free_blocks(),
            giant: chunks.filter(|chunk| chunk.is_free()).count() as u64,
        }
    }

    /// What is free once `policy` has emptied blocks, or the least occupied chunks are emptied, by the move of `pages` base pages at
    /// most. A forecast: what is pinned is not seen, and others allocate and free meanwhile.
    #[must_use]
    pub fn after(
        observation: &PhysicalObservation,
        policy: &mut dyn CompactionPolicy,
        pages: u64,
    ) -> Self {
        let now = Supply::now(observation);
        let goal = |unit| Goal {
            unit,
            count: u64::MAX,
            pages,
        };
        let blocks = policy.select(observation, &goal(Unit::Block));
        let chunks = LeastOccupied::default().select(observation, &goal(Unit::Chunk));
        Supply {
            huge: now.huge + gained(observation, &blocks),
            giant: now.giant + chunks.iter().filter(|chunk| chunk.empties).count() as u64,
        }
    }
}

/// Blocks that are gained at most by emptying some of these in turn. Their pages go into free memory beside free blocks, and once that
/// is full, free blocks are used up for them.
fn gained(observation: &PhysicalObservation, targets: &[ToEmpty]) -> u64 {
    let in_blocks = observation.free_blocks() * u64::from(PAGES_PER_BLOCK);
    // Negative by what has to go into free blocks.
    let mut room = i128::from(observation.free_pages()) - i128::from(in_blocks);
    let mut emptied = 0_u64;
    let mut best = 0;
    for target in targets {
        let free = u64::from(PAGES_PER_BLOCK).saturating_sub(target.pages.into());
        room -= i128::from(target.pages);
        if target.empties {
            room -= i128::from(free);
            emptied += 1;
        }
        let lacking = u64::try_from(-room).unwrap_or(0);
        let used_up = lacking.div_ceil(PAGES_PER_BLOCK.into());
        best = best.max(emptied.saturating_sub(used_up));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::{
        BLOCKS_PER_CHUNK, BestRatio, Block, BlockObservation, TwoScanners, ZoneKind,
        ZoneObservation,
    };
    use super::*;
    use proptest::prelude::*;

    /// A zone of blocks: how many pages of each are movable, and whether one more is unmovable.
    fn zone(blocks: &[(u16, bool)]) -> PhysicalObservation {
        let blocks: Vec<BlockObservation> = (0_u64..)
            .zip(blocks)
            .map(|(index, &(movable, unmovable))| {
                let unmovable = u16::from(unmovable);
                let movable = movable.min(PAGES_PER_BLOCK - unmovable);
                BlockObservation {
                    free: PAGES_PER_BLOCK - movable - unmovable,
                    movable,
                    unmovable,
                    ..BlockObservation::free(Block::containing(index * 512))
                }
            })
            .collect();
        let is_free = |block: &&BlockObservation| block.free == PAGES_PER_BLOCK;
        let whole = blocks.iter().filter(is_free).count() as u64;
        let free: u64 = blocks.iter().map(|block| u64::from(block.free)).sum();
        let mut free_areas = vec![0; 11];
        free_areas[9] = whole;
        free_areas[0] = free - whole * u64::from(PAGES_PER_BLOCK);
        PhysicalObservation {
            zones: vec![ZoneObservation {
                node: 0,
                kind: ZoneKind::Normal,
                start_pfn: 0,
                spanned: blocks.len() as u64 * 512,
                free_areas,
                reserve: 0,
                blocks,
            }],
        }
    }

    fn after(observation: &PhysicalObservation, pages: u64) -> Supply {
        Supply::after(observation, &mut BestRatio::default(), pages)
    }

    #[test]
    fn half_full_blocks_make_half_as_many_free_ones() {
        let memory = zone(&[(256, false); 100]);
        assert_eq!(Supply::now(&memory), Supply { huge: 0, giant: 0 });
        assert_eq!(after(&memory, u64::MAX).huge, 50);
        // A budget for ten of them.
        assert_eq!(after(&memory, 2560).huge, 10);
        let kernel = Supply::after(&memory, &mut TwoScanners, u64::MAX);
        assert!((40..=50).contains(&kernel.huge), "{kernel:?}");
    }

    #[test]
    fn what_cannot_be_moved_stays_in_the_way() {
        let memory = zone(&[(100, true); 100]);
        assert_eq!(after(&memory, u64::MAX), Supply::default());
    }

    #[test]
    fn a_block_that_is_used_up_for_another_is_not_gained() {
        // All that is free is in free blocks, but for a page in each of the others.
        let mut blocks = [(511, false); 20];
        blocks[..10].fill((0, false));
        let memory = zone(&blocks);
        assert_eq!(Supply::now(&memory).huge, 10);
        assert_eq!(after(&memory, u64::MAX).huge, 10);
    }

    #[test]
    fn chunks_are_counted_apart() {
        let chunk = usize::try_from(BLOCKS_PER_CHUNK).unwrap();
        let mut blocks = vec![(0, false); 3 * chunk];
        // The second has a page to move, the third one that cannot be.
        blocks[chunk].0 = 1;
        blocks[2 * chunk].1 = true;
        let memory = zone(&blocks);
        assert_eq!(Supply::now(&memory).giant, 1);
        assert_eq!(after(&memory, u64::MAX).giant, 2);
        assert_eq!(after(&memory, 0).giant, 1);
    }

    proptest! {
        #[test]
        fn compaction_takes_nothing_away_and_makes_no_memory(
            blocks in prop::collection::vec((0..=512_u16, any::<bool>()), 1..60),
            pages in prop_oneof![Just(u64::MAX), 0..20_000_u64],
        ) {
            let memory = zone(&blocks);
            let now = Supply::now(&memory);
            for supply in [after(&memory, pages), Supply::after(&memory, &mut TwoScanners, pages)] {
                prop_assert!(supply.huge >= now.huge && supply.giant >= now.giant);
                prop_assert!(supply.huge * 512 <= memory.free_pages());
            }
        }
    }
}
