//! Ingens's compaction: the lowest addresses of each zone.
//!
//! Every 5 s it goes over the lowest 100 MB of each zone and empties what it can there, whatever a block holds. It does not go
//! on from where it was: what lies higher is never compacted (MEGA, sections 4.3 and 5; its table 7 counts 55,256 pages
//! scanned in a period, and 100 MB of two zones are 51,200). Ingens's published code does still less: it stops after 20
//! batches of 32 pages.
//!
//! This version passes over blocks with unmovable pages, because the mechanism refuses them before it moves anything.
//! Ingens's own code moved their other pages in vain. So this version does better than Ingens did.

use std::time::Duration;

use super::candidate::{Candidate, candidates};
use super::goal::{Goal, Selection, ToEmpty};
use super::zone::{PhysicalObservation, ZoneKind};
use super::{CompactionPolicy, pages_of_megabytes};
use crate::page::PageSize;

/// Selects by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowestFirst {
    /// Time from one compaction to the next.
    pub period: Duration,
    /// Base pages at the start of each zone that it goes over.
    pub zone_pages: u64,
}

impl Default for LowestFirst {
    /// Every 5 s, the lowest 100 MB of each zone.
    fn default() -> Self {
        LowestFirst {
            period: Duration::from_secs(5),
            zone_pages: pages_of_megabytes(100),
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

    /// All that lies in the lowest part of `ZONE_DMA32` and of `ZONE_NORMAL`.
    fn budget_pages(&self) -> u64 {
        self.zone_pages.saturating_mul(2)
    }

    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty> {
        let mut selection = Selection::new(observation, goal);
        for zone in observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
        {
            let end = zone.start_pfn.saturating_add(self.zone_pages);
            let lowest = candidates(zone, goal.unit).into_iter();
            for candidate in lowest
                .take_while(|candidate| candidate.first_pfn < end)
                .filter(can_be_moved)
            {
                if selection.take(&candidate).is_err() {
                    break;
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
