//! One process: what was done to it, and a close look at its memory.

use std::collections::BTreeMap;

use mega_core::engine::Tally;
use serde::{Deserialize, Serialize};

/// What a manager did to one process, for as long as it observed it without a break.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TallyReport {
    /// Regions.
    pub(crate) promoted: u64,
    /// Regions.
    pub(crate) demoted: u64,
    pub(crate) bytes_copied: u64,
    pub(crate) bytes_given_back: u64,
    /// Bytes of addresses that the policy wants huge pages for and that have none yet, as of the latest step.
    pub(crate) wanted: u64,
    /// `null` where nothing failed.
    pub(crate) last_failure: Option<LastFailure>,
}

/// An action that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastFailure {
    /// `promote`, `demote`, `promote_giant`, `demote_giant` or `free_zero`.
    pub(crate) action: String,
    pub(crate) cause: String,
    /// Steps that the manager took since; 0 for one of the latest step.
    pub(crate) steps_ago: u64,
}

impl TallyReport {
    /// `steps` is how many steps the manager has taken.
    pub(crate) fn new(tally: &Tally, steps: u64) -> Self {
        TallyReport {
            promoted: tally.promoted,
            demoted: tally.demoted,
            bytes_copied: tally.bytes_copied,
            bytes_given_back: tally.bytes_given_back,
            wanted: tally.wanted_bytes,
            last_failure: tally.last_failure.map(|failure| LastFailure {
                action: failure.kind.name().to_owned(),
                cause: failure.cause.name().to_owned(),
                steps_ago: steps.saturating_sub(failure.step + 1),
            }),
        }
    }
}

/// A close look at one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessDetail {
    pub(crate) pid: u32,
    /// Tells this process from a later one with its pid: when it started, in clock ticks since boot.
    pub(crate) start_time: u64,
    /// The selection that it belongs to.
    pub(crate) group: String,
    pub(crate) policy: String,
    /// The steps that its manager had taken when it looked; `null` before it did.
    pub(crate) step: Option<u64>,
    /// Whether the program switched huge pages off for itself by prctl; `null` where the kernel does not say.
    pub(crate) switched_off: Option<bool>,
    /// By address: those with an aligned 2 MiB, and sums over all others.
    pub(crate) mappings: Vec<MappingReport>,
}

/// One mapping, or all small ones together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MappingReport {
    /// 0 for all small mappings together.
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The file, or the kernel's name in brackets, or nothing.
    pub(crate) name: String,
    /// Mapped in regions that huge pages can map.
    pub(crate) mapped: u64,
    /// `null` where accesses are not known.
    pub(crate) accessed: Option<u64>,
    pub(crate) huge: u64,
    /// Of that, by giant pages.
    pub(crate) giant: u64,
    /// Why the rest is not huge: bytes by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Its regions in address order, some neighbours together; only those with something mapped.
    pub(crate) cells: Vec<CellReport>,
}

/// Some neighbouring regions, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellReport {
    pub(crate) start: u64,
    /// Of the regions in it with something mapped.
    pub(crate) length: u64,
    pub(crate) mapped: u64,
    pub(crate) accessed: u64,
    pub(crate) huge: u64,
    pub(crate) giant: u64,
}
