//! What mega says as JSON. These structures are an interface: `docs/interfaces.md` describes them. All
//! sizes are in bytes, all times in seconds.

mod action;
mod coverage;
mod exchange;
pub(crate) mod gain;
mod process;
mod record;
mod replay;
mod scan;
mod status;
mod supply;
mod worth;

use std::collections::BTreeMap;

use mega_core::engine::{ProcessSummary, Tally, Totals};
use mega_core::worth::Estimate;
use mega_core::{ActionKind, MemoryObservation, PerKind, ProcessObservation, per_kind};
use serde::{Deserialize, Serialize};

pub(crate) use action::{ActionReport, Words, words};
pub(crate) use coverage::{CoverageReport, Managed, ProcessCoverage, free_blocks};
pub(crate) use exchange::{ExchangeReport, HostPage, sizes_in_few_words, sizes_in_words};
pub(crate) use gain::GainReport;
pub(crate) use process::{CellReport, LastFailure, MappingReport, ProcessDetail, TallyReport};
pub(crate) use record::{RecordReport, TapeReport};
pub(crate) use replay::{PointReport, PolicyReplay, RecordingReport, ReplayReport};
pub(crate) use scan::{
    FolioReport, NotEligibleReport, RegionReport, ScanReport, ScanTotals, folio_reports,
    folios_in_words, region_reports,
};
pub(crate) use status::{
    CompactionReport, FaultReport, GroupStatus, ManagerStatus, Mode, OwnCost, ProfileUse,
    RefusedReport, RunReport, StatusReport,
};
pub(crate) use supply::MachineSupply;
pub(crate) use worth::{Obstacle, SelectionWorthReport, WorthReport};

/// The version of every structure here. It changes when a field changes its meaning or goes away, not
/// when one is added.
pub(crate) const VERSION: u32 = 1;

/// Physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) available: u64,
    pub(crate) free: u64,
    /// Free in blocks of at least 2 MiB.
    pub(crate) contiguity: u64,
    /// The part of free memory in smaller blocks, 0 to 1.
    pub(crate) fmfi: f64,
}

impl From<&MemoryObservation> for Memory {
    fn from(memory: &MemoryObservation) -> Self {
        Memory {
            total: memory.total,
            available: memory.available,
            free: memory.free,
            contiguity: memory.contiguity,
            fmfi: memory.fmfi(),
        }
    }
}

/// Sums over the regions of one process, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Observed {
    /// How many regions.
    pub(crate) regions: u64,
    pub(crate) mapped: u64,
    /// `null` where accesses are not known.
    pub(crate) accessed: Option<u64>,
    /// Mapped by huge pages, or by giant ones.
    pub(crate) huge: u64,
    /// Of that, mapped by giant pages.
    #[serde(default)]
    pub(crate) giant: u64,
    /// Zero-filled base pages in huge pages that were counted; `null` where no huge page was.
    pub(crate) bloat: Option<u64>,
}

impl From<&ProcessSummary> for Observed {
    fn from(summary: &ProcessSummary) -> Self {
        Observed {
            regions: summary.regions,
            mapped: summary.mapped_bytes,
            accessed: summary.accesses_known.then_some(summary.accessed_bytes),
            huge: summary.huge_bytes,
            giant: summary.giant_bytes,
            bloat: summary.bloat_bytes,
        }
    }
}

impl From<&ProcessObservation> for Observed {
    fn from(seen: &ProcessObservation) -> Self {
        Observed::from(&ProcessSummary::of(seen, None, Tally::default(), None))
    }
}

impl std::iter::Sum for Observed {
    /// Accesses are known where they are known of all, bloat where it is known of any.
    fn sum<I: Iterator<Item = Observed>>(observed: I) -> Self {
        let none = Observed {
            accessed: Some(0),
            ..Observed::default()
        };
        observed.fold(none, |sum, one| Observed {
            regions: sum.regions + one.regions,
            mapped: sum.mapped + one.mapped,
            accessed: sum.accessed.zip(one.accessed).map(|(sum, one)| sum + one),
            huge: sum.huge + one.huge,
            giant: sum.giant + one.giant,
            bloat: match (sum.bloat, one.bloat) {
                (None, None) => None,
                (sum, one) => Some(sum.unwrap_or(0) + one.unwrap_or(0)),
            },
        })
    }
}

/// One process, as it was observed last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessReport {
    pub(crate) pid: u32,
    /// The command's name, up to 15 bytes; empty where the process has ended.
    pub(crate) name: String,
    /// All that it has resident, of whatever kind; 0 where an older mega answers.
    #[serde(default)]
    pub(crate) resident: u64,
    #[serde(flatten)]
    pub(crate) observed: Observed,
    #[serde(flatten)]
    pub(crate) tally: TallyReport,
    /// Bytes of addresses that huge pages would be of use in and cannot map, by reason.
    #[serde(default)]
    pub(crate) not_eligible: BTreeMap<String, u64>,
    /// An estimate of what base page table entries map of larger folios, by size; `null` where that is not known, or an older mega
    /// answers.
    #[serde(default)]
    pub(crate) larger_folios: Option<Vec<FolioReport>>,
    /// What huge pages would have gained it when that was measured last; `null` where that was not, or an older mega answers.
    #[serde(default)]
    pub(crate) gain: Option<GainReport>,
    /// CPU time that huge pages saved it since then, in seconds; `null` with `gain`.
    #[serde(default)]
    pub(crate) saved_cpu_seconds: Option<Estimate>,
    /// Whether it runs a virtual machine by KVM, so that these are the sizes behind a guest's memory, whose own are not known
    /// here.
    #[serde(default)]
    pub(crate) runs_guest: bool,
}

/// What was done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Actions {
    /// Observations made.
    pub(crate) steps: u64,
    /// What was done: `promoted`, `demoted`, `promoted_giant`, `demoted_giant`, and `freed_zero` for spans that gave
    /// zero-filled huge pages back.
    #[serde(flatten, with = "per_kind::done")]
    pub(crate) done: PerKind<u64>,
    pub(crate) already_so: u64,
    pub(crate) failures: Failures,
    /// What a dry run left out: `would_promote`, `would_demote` and so on.
    #[serde(flatten, with = "per_kind::left_out")]
    pub(crate) left_out: PerKind<u64>,
    pub(crate) bytes_copied: u64,
    /// Bytes that giant pages needed moved and that the host exchanged instead of a copy.
    #[serde(default)]
    pub(crate) bytes_exchanged: u64,
    pub(crate) bytes_given_back: u64,
    /// Bytes that promotions added to what is resident.
    pub(crate) bloat_bytes_added: u64,
    /// Regions whose zero-filled base pages were counted.
    pub(crate) inspected: u64,
    /// Actions that a budget put off. One that is put off twice counts twice.
    pub(crate) deferred_by_budget: u64,
    /// Actions held back because they failed before. One that is held back twice counts twice.
    pub(crate) backed_off: u64,
    /// Promotions held back because a part of the region is swapped out, each time anew.
    #[serde(default)]
    pub(crate) held_for_swap: u64,
}

impl Actions {
    /// What was done with giant pages; `None` where nothing was.
    pub(crate) fn giant_in_words(&self) -> Option<String> {
        let done = |kind| self.done[kind];
        let (promoted, demoted) = (
            done(ActionKind::PromoteGiant),
            done(ActionKind::DemoteGiant),
        );
        let freed = done(ActionKind::FreeZero);
        (promoted + demoted + freed > 0).then(|| {
            format!(
                "{promoted} spans promoted to giant pages, {demoted} demoted, {freed} relieved of zero-filled huge pages"
            )
        })
    }
}

/// Failed actions by cause: `no_memory`, `busy`, `gone`, `not_eligible`, `not_huge`, `not_permitted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Failures(pub(crate) PerKind<BTreeMap<String, u64>>);

impl Failures {
    /// The failures of all kinds, one entry for each kind and cause.
    pub(crate) fn by_cause(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.0.values().flatten()
    }

    /// The number of all failures.
    pub(crate) fn count(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }

    /// One line for each kind of action that failed: how often, and why.
    pub(crate) fn in_words(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(kind, causes)| {
            let line = || format!("failed {}: {}", words(kind).plural, causes_in_words(causes));
            (!causes.is_empty()).then(line)
        })
    }
}

impl From<&Totals> for Actions {
    fn from(totals: &Totals) -> Self {
        let mut failures = PerKind::<BTreeMap<String, u64>>::default();
        for (kind, causes) in totals.failures.iter() {
            let named = causes
                .iter()
                .map(|(cause, count)| (cause.name().to_owned(), *count));
            failures[kind] = named.collect();
        }
        Actions {
            steps: totals.steps,
            done: totals.done,
            already_so: totals.already_so,
            failures: Failures(failures),
            left_out: totals.left_out,
            bytes_copied: totals.bytes_copied,
            bytes_exchanged: totals.bytes_exchanged,
            bytes_given_back: totals.bytes_given_back,
            bloat_bytes_added: totals.bloat_bytes_added,
            inspected: totals.inspected,
            deferred_by_budget: totals.deferred_by_budget,
            backed_off: totals.backed_off,
            held_for_swap: totals.held_for_swap,
        }
    }
}

/// Causes with their counts, as "3 no memory, 1 busy".
pub(crate) fn causes_in_words(causes: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = causes
        .iter()
        .map(|(cause, count)| format!("{count} {}", cause.replace('_', " ")))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::Cause;

    #[test]
    fn causes_are_named_as_the_core_serializes_them() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).expect("a string"), cause.name());
        }
    }

    #[test]
    fn giant_pages_are_told_only_where_there_were_some() {
        let mut actions = Actions::default();
        assert_eq!(actions.giant_in_words(), None);
        actions.done[ActionKind::DemoteGiant] = 2;
        let words =
            "0 spans promoted to giant pages, 2 demoted, 0 relieved of zero-filled huge pages";
        assert_eq!(actions.giant_in_words().as_deref(), Some(words));
    }

    #[test]
    fn failures_are_told_by_kind_and_cause() {
        let causes = |count| BTreeMap::from([("no_memory".to_owned(), count)]);
        let mut failures = Failures::default();
        failures.0[ActionKind::Promote] = causes(3);
        failures.0[ActionKind::FreeZero] = causes(1);
        let lines: Vec<String> = failures.in_words().collect();
        assert_eq!(
            lines,
            [
                "failed promotions: 3 no memory",
                "failed searches for zero-filled huge pages: 1 no memory"
            ]
        );
        assert_eq!(failures.count(), 4);
    }

    #[test]
    fn an_older_managers_status_is_read_without_giant_pages() {
        let mut status = serde_json::to_value(Actions::default()).expect("serializes");
        let fields = status.as_object_mut().expect("an object");
        fields.retain(|name, _| !name.ends_with("_giant") && !name.ends_with("_zero"));
        let read: Actions = serde_json::from_value(status).expect("it is read");
        assert_eq!(read, Actions::default());
    }

    #[test]
    fn accesses_of_a_sum_are_known_only_where_all_are() {
        let known = Observed {
            regions: 1,
            mapped: 10,
            accessed: Some(4),
            huge: 0,
            giant: 0,
            bloat: None,
        };
        let unknown = Observed {
            accessed: None,
            bloat: Some(3),
            ..known
        };
        let sum: Observed = [known, known].into_iter().sum();
        assert_eq!((sum.mapped, sum.accessed, sum.bloat), (20, Some(8), None));
        let sum: Observed = [known, unknown].into_iter().sum();
        assert_eq!((sum.accessed, sum.bloat), (None, Some(3)));
    }
}
