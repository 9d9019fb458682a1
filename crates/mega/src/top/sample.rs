//! What is known at one moment.

use std::time::{SystemTime, UNIX_EPOCH};

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::observe::pressure;
use serde::{Deserialize, Serialize};

use crate::report::{HostPage, ManagerStatus, Memory, ProcessDetail};

/// What is known at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// When, in seconds since 1970 (UTC).
    pub(crate) time: u64,
    /// `null` where the kernel does not tell.
    pub(crate) pressure: Option<PressureReport>,
    pub(crate) managers: Vec<ManagerStatus>,
    /// The process that somebody looks closely at, and its manager's pid.
    pub(crate) detail: Option<(u32, ProcessDetail)>,
    /// What did not work, in words.
    pub(crate) troubles: Vec<String>,
}

/// The share of the last ten seconds in which tasks waited for memory, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PressureReport {
    /// At least one task waited.
    pub(crate) some: f64,
    /// All tasks waited that were not idle.
    pub(crate) full: f64,
}

impl Sample {
    /// A sample of now, without managers.
    pub(crate) fn now() -> Self {
        Sample {
            time: seconds_since_1970(),
            pressure: read_pressure(&LiveKernel),
            managers: Vec::new(),
            detail: None,
            troubles: Vec::new(),
        }
    }

    /// The machine's memory, as a manager saw it last.
    pub(crate) fn memory(&self) -> Option<Memory> {
        self.managers
            .iter()
            .rev()
            .find_map(|manager| manager.memory)
    }

    /// By which pages a guest's host maps what the guest maps; `None` where the machine is no guest.
    pub(crate) fn host_page(&self) -> Option<HostPage> {
        self.managers.iter().find_map(|manager| manager.host_page)
    }

    /// Whether one of the processes runs a virtual machine.
    pub(crate) fn runs_guest(&self) -> bool {
        let groups = self.managers.iter().flat_map(|manager| &manager.groups);
        let mut processes = groups.flat_map(|group| &group.processes);
        processes.any(|process| process.runs_guest)
    }

    /// How many free blocks there are of each order; empty where it is not known.
    pub(crate) fn free_areas(&self) -> &[u64] {
        let mut known = self.managers.iter().map(|manager| &manager.free_areas);
        known
            .find(|areas| !areas.is_empty())
            .map_or(&[], Vec::as_slice)
    }
}

fn seconds_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn read_pressure(kernel: &dyn Kernel) -> Option<PressureReport> {
    let pressure = pressure::memory(kernel).ok()?;
    Some(PressureReport {
        some: pressure.some,
        full: pressure.full,
    })
}
