//! What one step saw and did.

use std::time::Duration;

use serde::Serialize;

use crate::coverage::Obstacle;
use crate::observation::{Counted, MemoryObservation, ProcessObservation, RegionObservation};
use crate::page::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PageSize};
use crate::process::ProcessId;

use super::closeup::Closeup;
use super::gains::MeasuredGain;
use super::tally::Tally;
use super::totals::Totals;
use super::unmet::Unmet;

/// What one step saw and did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// The processes observed, by id, as they were before anything was done.
    pub processes: Vec<ProcessSummary>,
    /// Those of them that somebody looks closely at, by id, as they were before anything was done.
    #[serde(skip)]
    pub closeups: Vec<Closeup>,
    /// Physical memory before anything was done.
    pub memory: MemoryObservation,
    /// What was done in this step alone.
    pub actions: Totals,
    /// What it wanted of physical memory and could not have, each node once; only nodes that lack something.
    pub unmet: Vec<Unmet>,
    /// CPU time that the manager used for observing.
    pub observe_cpu: Duration,
    /// CPU time that the manager used for the whole step.
    pub step_cpu: Duration,
    /// How long to wait, once the step is done, before the next: the interval, or longer when observing takes too much of the
    /// CPU budget, or nothing when the step ended before all was done that the budgets allow.
    pub next_interval: Duration,
}

/// One process as it was observed, added up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessSummary {
    /// Which process.
    pub process: ProcessId,
    /// Its eligible regions with at least one base page mapped.
    pub regions: u64,
    /// Bytes mapped in them.
    pub mapped_bytes: u64,
    /// Bytes accessed in them in the interval; of a huge page, all or nothing.
    pub accessed_bytes: u64,
    /// Bytes of them that huge pages map, or giant ones.
    pub huge_bytes: u64,
    /// Bytes of these that giant pages map.
    pub giant_bytes: u64,
    /// Bytes of zero-filled base pages in huge pages, as far as they were counted; `None` when none were.
    pub bloat_bytes: Option<u64>,
    /// Whether accesses were seen over the whole interval; otherwise `accessed_bytes` means nothing.
    pub accesses_known: bool,
    /// Bytes of them that base pages map, by what is in the way.
    pub rest: Rest,
    /// What of all that counts for a promise of coverage: all of it, unless the observation says what does.
    pub counted: Covered,
    /// What was done to it, this step included.
    pub tally: Tally,
    /// What huge pages would have gained it when that was measured last. `None` where the policy did not ask, or it could not
    /// be measured.
    pub gain: Option<MeasuredGain>,
}

/// Memory in eligible regions, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// What has a physical page.
    pub mapped: u64,
    /// What of it huge pages map, or giant ones.
    pub huge: u64,
    /// The rest, by what is in the way.
    pub rest: Rest,
}

impl Covered {
    fn add(&mut self, region: &RegionObservation) {
        self.mapped += region.resident_bytes();
        if region.is_huge() {
            self.huge += region.resident_bytes();
        } else {
            self.rest.add(region);
        }
    }
}

/// Bytes that base pages map, by what is in the way of a huge page, as far as the region itself shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rest {
    /// Nothing ([`Obstacle::None`]).
    pub free: u64,
    /// [`Obstacle::PartlyMapped`].
    pub partly_mapped: u64,
    /// [`Obstacle::Swapped`].
    pub swapped: u64,
}

impl Rest {
    /// Each obstacle with its bytes, 0 included.
    pub fn iter(&self) -> impl Iterator<Item = (Obstacle, u64)> + use<> {
        let all = [
            (Obstacle::None, self.free),
            (Obstacle::PartlyMapped, self.partly_mapped),
            (Obstacle::Swapped, self.swapped),
        ];
        all.into_iter()
    }

    fn add(&mut self, region: &RegionObservation) {
        let bytes = region.resident_bytes();
        match Obstacle::seen_in(region) {
            Obstacle::Swapped => self.swapped += bytes,
            Obstacle::PartlyMapped => self.partly_mapped += bytes,
            Obstacle::None | Obstacle::SharedSinceFork | Obstacle::SwitchedOff => {
                self.free += bytes;
            }
        }
    }
}

impl ProcessSummary {
    /// The part in huge or giant pages of what counts for a promise, 0 to 1. `None` where nothing of that is mapped.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn coverage(&self) -> Option<f64> {
        let Covered { mapped, huge, .. } = self.counted;
        (mapped > 0).then(|| huge as f64 / mapped as f64)
    }

    /// Whether at least `least` of what counts for a promise, 0 to 1, is in huge or giant pages. Where nothing is mapped, all of
    /// it is.
    #[must_use]
    pub fn reaches(&self, least: f64) -> bool {
        self.coverage().is_none_or(|coverage| coverage >= least)
    }

    /// Adds up an observation of one process. `counted` is what a promise is about; `None` for all.
    #[must_use]
    pub fn of(
        observed: &ProcessObservation,
        counted: Option<&Counted>,
        tally: Tally,
        gain: Option<MeasuredGain>,
    ) -> Self {
        let pages = |pages: u16| u64::from(pages) * BASE_PAGE_SIZE;
        let mut summary = ProcessSummary {
            process: observed.process,
            regions: 0,
            mapped_bytes: 0,
            accessed_bytes: 0,
            huge_bytes: 0,
            giant_bytes: 0,
            bloat_bytes: None,
            accesses_known: observed.accesses_known,
            rest: Rest::default(),
            counted: Covered::default(),
            tally,
            gain,
        };
        for region in &observed.regions {
            summary.regions += 1;
            if counted.is_none_or(|counted| counted.contains(region.region)) {
                summary.counted.add(region);
            }
            summary.mapped_bytes += pages(region.mapped);
            summary.accessed_bytes += pages(region.accessed);
            if region.page_size == PageSize::Giant {
                summary.giant_bytes += HUGE_PAGE_SIZE;
            }
            if region.is_huge() {
                summary.huge_bytes += HUGE_PAGE_SIZE;
                if let Some(zero_filled) = region.zero_filled {
                    *summary.bloat_bytes.get_or_insert(0) += pages(zero_filled);
                }
            } else {
                summary.rest.add(region);
            }
        }
        summary
    }
}
