//! Trident's smart compaction: it empties the chunk with the least data.
//!
//! Section 5.1.3 of the paper counts the occupied frames of each 1 GiB of physical memory. It empties the one with the
//! fewest that has no unmovable page, and moves its pages into the fullest others. The kernel's free lists take care of
//! the last part: migration takes base pages from the smallest free areas, and those lie where memory is nearly full.
//!
//! The policy leaves alone a chunk that already holds a giant page: to empty it would undo the giant page.

use std::time::Duration;

use super::CompactionPolicy;
use super::candidate::{Candidate, candidates};
use super::goal::{Goal, Refusal, Selection, ToEmpty};
use super::zone::{PhysicalObservation, ZoneKind};
use crate::page::PageSize;

/// Selects the least occupied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeastOccupied {
    /// Time from one compaction to the next.
    pub period: Duration,
    /// Base pages to migrate per period.
    pub budget_pages: u64,
}

impl Default for LeastOccupied {
    /// The paper compacts on demand and names neither period nor budget: khugepaged's 10 s
    /// (`scan_sleep_millisecs`), and one whole chunk, so that a period can always get on.
    fn default() -> Self {
        LeastOccupied {
            period: Duration::from_secs(10),
            budget_pages: super::block::PAGES_PER_CHUNK.into(),
        }
    }
}

impl CompactionPolicy for LeastOccupied {
    fn name(&self) -> &'static str {
        "trident"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn budget_pages(&self) -> u64 {
        self.budget_pages
    }

    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty> {
        let mut least_occupied: Vec<Candidate> = observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
            .flat_map(|zone| candidates(zone, goal.unit))
            .filter(|candidate| candidate.is_worth_emptying())
            .filter(|candidate| candidate.page_size != PageSize::Giant)
            .collect();
        least_occupied.sort_by_key(|candidate| (candidate.movable, candidate.first_pfn));

        let mut selection = Selection::new(observation, goal);
        for candidate in &least_occupied {
            match selection.take(candidate) {
                // What follows has at least as much to move, but may lie on a node with more room.
                Ok(()) | Err(Refusal::NoRoom) => {}
                Err(Refusal::Enough | Refusal::OverBudget) => break,
            }
        }
        selection.into_targets()
    }
}
