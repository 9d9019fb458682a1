//! What one step saw and did.

use std::time::Duration;

use serde::Serialize;

use crate::observation::{MemoryObservation, ProcessObservation};
use crate::page::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PageSize};
use crate::process::ProcessId;

use super::closeup::Closeup;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    /// What was done to it, this step included.
    pub tally: Tally,
}

impl ProcessSummary {
    /// Adds up an observation of one process.
    pub(super) fn of(observed: &ProcessObservation, tally: Tally) -> Self {
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
            tally,
        };
        for region in &observed.regions {
            summary.regions += 1;
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
            }
        }
        summary
    }
}
