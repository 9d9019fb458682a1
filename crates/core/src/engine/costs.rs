//! What actions cost so far, to estimate what the engine can afford.

use crate::action::ActionKind;
use crate::per_kind::PerKind;

/// Seconds of CPU time for one inspection, and for one action of each kind; and the time that a process stands still for a
/// promotion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    inspection: Cost,
    actions: PerKind<Cost>,
    standstill: PerKind<Cost>,
}

/// A mean that halves the weight of the past with every measurement; `None` before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Cost(Option<f64>);

/// Seconds for an inspection before the first is measured: it reads what a promotion copies.
const INSPECTION: f64 = 1e-3;

/// Seconds for an action of a kind before the first is measured: what was seen on a 2-core virtual machine with Linux 6.18,
/// rather too much than too little.
const fn unmeasured(kind: ActionKind) -> f64 {
    match kind {
        // 0.4 to 4.6 ms.
        ActionKind::Promote => 5e-3,
        // 85 us.
        ActionKind::Demote => 0.2e-3,
        // By copy 600 ms in Trident's guest (section 6), in place 82 us under emulation.
        ActionKind::PromoteGiant => 0.6,
        // 6 us under emulation.
        ActionKind::DemoteGiant => 0.2e-3,
        // A span that holds nothing but zeros is read twice; in one that is in use, 512 times a word.
        ActionKind::FreeZero => 0.4,
    }
}

/// No cost is taken for less, so that what can be afforded stays finite.
const LEAST: f64 = 1e-7;

/// The most actions that the machine gets at once. Between two batches the CPU budget is looked at
/// again; a batch of 128 MiB still lets neighbours share system calls.
const LARGEST_BATCH: usize = 64;
/// The same while nobody knows yet what an action costs.
const FIRST_BATCH: usize = 8;

impl Costs {
    pub(super) fn inspection(&self) -> f64 {
        self.inspection.0.unwrap_or(INSPECTION)
    }

    pub(super) fn learn_inspections(&mut self, seconds: f64, count: usize) {
        self.inspection.learn(seconds, count);
    }

    pub(super) fn learn_actions(&mut self, kind: ActionKind, seconds: f64, count: usize) {
        self.actions[kind].learn(seconds, count);
    }

    /// Seconds that a process stands still for one action of a kind; `None` before the first is measured.
    pub(super) fn standstill(&self, kind: ActionKind) -> Option<f64> {
        self.standstill[kind].0
    }

    pub(super) fn learn_standstill(&mut self, kind: ActionKind, seconds: f64, count: usize) {
        self.standstill[kind].learn(seconds, count);
    }

    /// How many actions `seconds` suffice for: at least one, unless there is no time at all.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn affordable(&self, kind: ActionKind, seconds: f64) -> usize {
        let cost = self.actions[kind].0.unwrap_or(unmeasured(kind));
        if seconds > 0.0 {
            ((seconds / cost) as usize).max(1)
        } else {
            0
        }
    }

    /// How many actions the machine may get at once when `seconds` are left.
    pub(super) fn batch(&self, kind: ActionKind, seconds: f64) -> usize {
        let largest = match (kind, self.actions[kind].0) {
            // A cheap one says nothing about the next, which may copy or read a gigabyte.
            (ActionKind::PromoteGiant | ActionKind::FreeZero, _) => 1,
            (_, Some(_)) => LARGEST_BATCH,
            (_, None) => FIRST_BATCH,
        };
        self.affordable(kind, seconds).clamp(1, largest)
    }
}

impl Cost {
    #[allow(clippy::cast_precision_loss)]
    fn learn(&mut self, seconds: f64, count: usize) {
        if count > 0 {
            let measured = (seconds / count as f64).max(LEAST);
            self.0 = Some(
                self.0
                    .map_or(measured, |mean| f64::midpoint(mean, measured)),
            );
        }
    }
}
