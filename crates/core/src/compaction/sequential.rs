//! Sequential compaction: what Linux does for a chunk. Trident's figures 6 and 7 compare with it.
//!
//! It scans memory from low to high addresses, and continues where the last scan ended. It moves the pages of each unit
//! as it finds them. It notices an unmovable page only when the scan reaches it; everything it moved in that unit
//! before was in vain. This version counts whole blocks: it takes the pages in the block of the first unmovable page as
//! not yet moved, which favours this baseline.

use std::collections::BTreeMap;
use std::time::Duration;

use super::block::{BlockObservation, PAGES_PER_BLOCK};
use super::candidate::{Candidate, blocks_of, candidates};
use super::goal::{Goal, Refusal, Selection, ToEmpty};
use super::zone::{PhysicalObservation, ZoneKind};
use super::{CompactionPolicy, LeastOccupied};

/// Selects in address order, on from the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequential {
    /// Time from one compaction to the next.
    pub period: Duration,
    /// Base pages to migrate per period.
    pub budget_pages: u64,
    /// Where the last scan ended: the next frame, per node and zone.
    position: BTreeMap<(u32, ZoneKind), u64>,
}

impl Sequential {
    /// A scan that starts at the lowest address.
    #[must_use]
    pub fn new(period: Duration, budget_pages: u64) -> Self {
        Sequential {
            period,
            budget_pages,
            position: BTreeMap::new(),
        }
    }
}

impl Default for Sequential {
    /// As [`LeastOccupied`]'s, which it is compared with.
    fn default() -> Self {
        let LeastOccupied {
            period,
            budget_pages,
        } = LeastOccupied::default();
        Sequential::new(period, budget_pages)
    }
}

impl CompactionPolicy for Sequential {
    fn name(&self) -> &'static str {
        "sequential"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn budget_pages(&self) -> u64 {
        self.budget_pages
    }

    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty> {
        let mut selection = Selection::new(observation, goal);
        for zone in observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
        {
            let position = self.position.entry((zone.node, zone.kind)).or_default();
            let all = candidates(zone, goal.unit);
            let split = all.partition_point(|candidate| candidate.first_pfn < *position);
            let (before, after) = all.split_at(split);
            for candidate in after.iter().chain(before) {
                let blocks = blocks_of(zone, candidate);
                let taken = if !is_whole(candidate, blocks) {
                    Ok(())
                } else if candidate.in_the_way > 0 {
                    selection.take_in_vain(candidate, moved_before_the_first_unmovable(blocks))
                } else if candidate.movable > 0 {
                    selection.take(candidate)
                } else {
                    Ok(())
                };
                match taken {
                    Ok(()) => {
                        *position = candidate.first_pfn + u64::from(candidate.unit.pages());
                    }
                    Err(Refusal::Enough | Refusal::OverBudget | Refusal::NoRoom) => break,
                }
            }
        }
        let mut targets = selection.into_targets();
        targets.retain(|target| target.pages > 0);
        targets
    }
}

/// Whether there is memory in all of it. The scanner sees a hole without touching a page.
fn is_whole(candidate: &Candidate, blocks: &[BlockObservation]) -> bool {
    let present = blocks
        .iter()
        .map(|block| u32::from(PAGES_PER_BLOCK - block.absent()));
    present.sum::<u32>() == candidate.unit.pages()
}

fn moved_before_the_first_unmovable(blocks: &[BlockObservation]) -> u32 {
    let moved = blocks.iter().take_while(|block| block.unmovable == 0);
    moved.map(|block| u32::from(block.movable)).sum()
}
