//! One slot of a day, as it is kept, sent and printed. Sizes are in bytes and, unless said otherwise, means over the time that was
//! looked at.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};

use mega_core::engine::Totals;
use mega_core::worth::Estimate;
use mega_core::{PerKind, per_kind};
use serde::{Deserialize, Serialize};

/// The length of a slot, in seconds.
pub(crate) const SLOT: u64 = 300;

/// What is counted by name: bytes, failures, events.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Five minutes of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Slot {
    /// When it begins, in seconds since 1970.
    pub(crate) start: u64,
    /// How much of it the daemon saw.
    pub(crate) seconds: f64,
    /// CPU time that the daemon used.
    pub(crate) cpu_seconds: f64,
    /// The most that the daemon had resident.
    pub(crate) resident: u64,
    /// Free memory of the machine.
    pub(crate) free: u64,
    /// Free in blocks of at least 2 MiB.
    pub(crate) contiguity: u64,
    /// Blocks that were emptied ahead of promotions.
    pub(crate) blocks_emptied: u64,
    /// What changed, by the names of `mega events`; only what did.
    pub(crate) events: Counts,
    pub(crate) selections: Vec<SelectionSlot>,
}

/// Five minutes of a selection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SelectionSlot {
    pub(crate) name: String,
    /// The latest.
    pub(crate) policy: String,
    /// What was promised last, 0 to 1; `null` where nothing was.
    pub(crate) promised: Option<f64>,
    /// How much of the slot the daemon had this selection.
    pub(crate) seconds: f64,
    /// The most at a time.
    pub(crate) processes: u64,
    /// The most at a time that could not be observed.
    pub(crate) refused: u64,
    /// The most at a time that had less in huge pages than is promised.
    pub(crate) short: u64,
    /// For how long some had.
    pub(crate) short_seconds: f64,
    /// What has a physical page, in regions that huge pages can map.
    pub(crate) mapped: u64,
    /// Of that, in huge or giant pages.
    pub(crate) huge: u64,
    /// Of that, in giant pages.
    pub(crate) giant: u64,
    /// The least part in huge pages at a look, 0 to 1; `null` where nothing was mapped.
    pub(crate) lowest: Option<f64>,
    /// Addresses that the policy wanted huge pages for and that had none yet.
    pub(crate) wanted: u64,
    /// What base pages map, by what is in the way.
    pub(crate) rest: Counts,
    /// Addresses that huge pages cannot map, by reason.
    pub(crate) not_eligible: Counts,
    /// What was done.
    pub(crate) done: Done,
    /// The programs with the most in base pages, by command name.
    pub(crate) uncovered: Vec<Uncovered>,
}

/// The memory of a program that is not in huge pages, over all its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Uncovered {
    pub(crate) name: String,
    pub(crate) mapped: u64,
    pub(crate) huge: u64,
    /// As in [`SelectionSlot::wanted`].
    pub(crate) wanted: u64,
    /// As in [`SelectionSlot::rest`].
    pub(crate) rest: Counts,
}

impl Uncovered {
    /// What base pages map.
    pub(crate) fn base(&self) -> u64 {
        self.mapped.saturating_sub(self.huge)
    }
}

/// What was done, in a time. Fields as in `actions` of `mega status --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Done {
    pub(crate) steps: u64,
    #[serde(flatten, with = "per_kind::done")]
    pub(crate) done: PerKind<u64>,
    #[serde(flatten, with = "per_kind::left_out")]
    pub(crate) left_out: PerKind<u64>,
    pub(crate) bytes_copied: u64,
    pub(crate) bytes_given_back: u64,
    pub(crate) bloat_bytes_added: u64,
    pub(crate) deferred_by_budget: u64,
    /// CPU time that huge pages saved, in milliseconds.
    pub(crate) saved_ms: u64,
    /// The same, the least that the measurements allow.
    pub(crate) saved_least_ms: u64,
    /// The same, the most.
    pub(crate) saved_most_ms: u64,
    /// Failed actions of all kinds, by cause.
    pub(crate) failures: Counts,
}

impl Done {
    /// What a selection did, and the CPU seconds that this saved.
    pub(crate) fn of(totals: &Totals, saved: Estimate) -> Self {
        let mut failures = Counts::new();
        for (_, causes) in totals.failures.iter() {
            for (cause, count) in causes {
                *failures.entry(cause.name().to_owned()).or_default() += count;
            }
        }
        Done {
            steps: totals.steps,
            done: totals.done,
            left_out: totals.left_out,
            bytes_copied: totals.bytes_copied,
            bytes_given_back: totals.bytes_given_back,
            bloat_bytes_added: totals.bloat_bytes_added,
            deferred_by_budget: totals.deferred_by_budget,
            saved_ms: milliseconds(saved.value),
            saved_least_ms: milliseconds(saved.low),
            saved_most_ms: milliseconds(saved.high),
            failures,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

impl Done {
    /// What was saved, in seconds.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a time is shown with three digits"
    )]
    pub(crate) fn saved_cpu_seconds(&self) -> Estimate {
        let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
        Estimate::within(
            seconds(self.saved_ms),
            seconds(self.saved_least_ms),
            seconds(self.saved_most_ms),
        )
    }

    /// Each pair of fields of two, put together by `put`.
    fn zip(&self, other: &Done, put: impl Fn(u64, u64) -> u64) -> Done {
        // Taken apart so that a new field cannot be forgotten here.
        let Done {
            steps,
            done,
            left_out,
            bytes_copied,
            bytes_given_back,
            bloat_bytes_added,
            deferred_by_budget,
            saved_ms,
            saved_least_ms,
            saved_most_ms,
            failures,
        } = other;
        Done {
            steps: put(self.steps, *steps),
            done: self.done.zip(done, &put),
            left_out: self.left_out.zip(left_out, &put),
            bytes_copied: put(self.bytes_copied, *bytes_copied),
            bytes_given_back: put(self.bytes_given_back, *bytes_given_back),
            bloat_bytes_added: put(self.bloat_bytes_added, *bloat_bytes_added),
            deferred_by_budget: put(self.deferred_by_budget, *deferred_by_budget),
            saved_ms: put(self.saved_ms, *saved_ms),
            saved_least_ms: put(self.saved_least_ms, *saved_least_ms),
            saved_most_ms: put(self.saved_most_ms, *saved_most_ms),
            failures: zip(&self.failures, failures, put),
        }
    }
}

impl AddAssign<&Done> for Done {
    fn add_assign(&mut self, other: &Done) {
        *self = self.zip(other, u64::saturating_add);
    }
}

impl Sub for &Done {
    type Output = Done;

    fn sub(self, before: &Done) -> Done {
        self.zip(before, u64::saturating_sub)
    }
}

/// Each pair of values of two, put together by `put`; 0 stands for one that is missing. Only what is more than nothing stays.
pub(crate) fn zip(one: &Counts, other: &Counts, put: impl Fn(u64, u64) -> u64) -> Counts {
    let names = one.keys().chain(other.keys());
    let value = |counts: &Counts, name| counts.get(name).copied().unwrap_or(0);
    let put_together = names.map(|name| (name.clone(), put(value(one, name), value(other, name))));
    put_together.filter(|&(_, value)| value > 0).collect()
}
