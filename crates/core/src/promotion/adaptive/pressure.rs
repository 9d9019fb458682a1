//! Where memory is short: on the whole machine, or in the memory cgroup of a process.

use std::collections::BTreeSet;

use crate::observation::{CgroupMemory, Observation, ProcessObservation};
use crate::process::ProcessId;
use crate::promotion::memory::share_available;

use super::settings::Settings;

/// How much must be available again, by what is to stay available, until memory is no longer short.
const ENOUGH: f64 = 1.5;

/// The share of memory that must be available so that it is no longer short.
pub(super) fn enough(settings: &Settings) -> f64 {
    (settings.keep_available * ENOUGH).min(1.0)
}

/// Whose memory is short: from `keep_available` until there is [enough]. A process is judged by the machine's memory and, where
/// its cgroup has a limit, by what that leaves: a container at its own limit is short of memory whatever the machine has.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    machine: bool,
    /// Processes that are short within their own limit.
    own: BTreeSet<ProcessId>,
}

impl Pressure {
    pub(super) fn update(&mut self, settings: &Settings, observation: &Observation) {
        let is_short = |available: f64, was_short: bool| {
            available
                < if was_short {
                    enough(settings)
                } else {
                    settings.keep_available
                }
        };
        self.machine = is_short(share_available(&observation.memory), self.machine);
        let of_process = |process: &ProcessObservation| {
            let available = share_of_limit_available(&process.cgroup?);
            let was_short = self.own.contains(&process.process);
            is_short(available, was_short).then_some(process.process)
        };
        self.own = observation
            .processes
            .iter()
            .filter_map(of_process)
            .collect();
    }

    /// Whether anybody is short of memory.
    pub(super) fn is_anywhere(&self) -> bool {
        self.machine || !self.own.is_empty()
    }

    /// Whether the machine is.
    pub(super) fn is_on_machine(&self) -> bool {
        self.machine
    }

    /// Whether a process is short within its own limit.
    pub(super) fn is_own(&self, process: ProcessId) -> bool {
        self.own.contains(&process)
    }

    /// Whether a process is, for either reason.
    pub(super) fn is_on(&self, process: ProcessId) -> bool {
        self.machine || self.is_own(process)
    }
}

#[allow(clippy::cast_precision_loss)]
fn share_of_limit_available(cgroup: &CgroupMemory) -> f64 {
    if cgroup.limit == 0 {
        0.0
    } else {
        (cgroup.available as f64 / cgroup.limit as f64).min(1.0)
    }
}
