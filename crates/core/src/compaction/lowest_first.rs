//! Ingens's compaction: the lowest addresses first.
//!
//! Every 5 s it empties up to 100 MB of each zone. It starts with the blocks near the start of the zone, whatever they
//! hold (MEGA, sections 4.3 and 5, on Ingens's published code).
//!
//! This version passes over blocks with unmovable pages, because the mechanism refuses them before it moves anything.
//! Ingens's own code moved their other pages in vain. So this version does better than Ingens did.

use std::time::Duration;

use super::candidate::{Candidate, candidates};
use super::goal::{Goal, Refusal, Selection, ToEmpty};
use super::zone::{PhysicalObservation, ZoneKind};
use super::{CompactionPolicy, pages_of_megabytes};
use crate::page::PageSize;

/// Selects by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowestFirst {
    /// Time from one compaction to the next.
    pub period: Duration,
    /// Base pages to migrate per period and zone.
    pub zone_budget_pages: u64,
}

impl Default for LowestFirst {
    /// Every 5 s, 100 MB of each zone.
    fn default() -> Self {
        LowestFirst {
            period: Duration::from_secs(5),
            zone_budget_pages: pages_of_megabytes(100),
        }
    }
}

impl CompactionPolicy for LowestFirst {
    fn name(&self) -> &'static str {
        "ingens"
    }

    fn period(&self) -> Duration {
        self.period
    }

    /// Of `ZONE_DMA32` and `ZONE_NORMAL` together.
    fn budget_pages(&self) -> u64 {
        self.zone_budget_pages.saturating_mul(2)
    }

    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty> {
        let mut selection = Selection::new(observation, goal);
        for zone in observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
        {
            let mut left = self.zone_budget_pages;
            for candidate in candidates(zone, goal.unit) {
                if !can_be_moved(&candidate) {
                    continue;
                }
                let Some(rest) = left.checked_sub(candidate.movable.into()) else {
                    break;
                };
                match selection.take(&candidate) {
                    Ok(()) => left = rest,
                    Err(Refusal::Enough | Refusal::OverBudget | Refusal::NoRoom) => break,
                }
            }
        }
        selection.into_targets()
    }
}

/// Full blocks too: the scan does not look how full a block is. Huge pages stay (section 2.4).
fn can_be_moved(candidate: &Candidate) -> bool {
    candidate.in_the_way == 0 && candidate.movable > 0 && candidate.page_size == PageSize::Base
}
