//! A daemon's last day: `mega report --json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Slot;
use crate::report::{HostPage, Mode};

/// What `mega report --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DaysReport {
    pub(crate) version: u32,
    /// A day for each daemon, by pid.
    pub(crate) days: Vec<DayReport>,
}

/// The last 24 hours of a daemon, of those before its last restart too where it keeps them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DayReport {
    /// The daemon's pid.
    pub(crate) pid: u32,
    #[serde(flatten)]
    pub(crate) mode: Mode,
    /// The machine's name.
    pub(crate) host: String,
    /// The version of the daemon.
    pub(crate) mega: String,
    pub(crate) dry_run: bool,
    /// When the daemon started and when it answered, in seconds since 1970.
    pub(crate) started: u64,
    pub(crate) made: u64,
    /// The machine's memory.
    pub(crate) memory: u64,
    /// By which pages the host of this guest maps what the guest maps; `null` on a machine that is no guest, or where an older mega answers.
    #[serde(default)]
    pub(crate) host_page: Option<HostPage>,
    /// Whether one of the processes that it manages runs a virtual machine by KVM, whose own page sizes are not known here.
    #[serde(default)]
    pub(crate) runs_guest: bool,
    /// Where the slots are kept; `null` where they end with the daemon.
    pub(crate) kept_in: Option<PathBuf>,
    /// The length of a slot.
    pub(crate) slot_seconds: u64,
    /// By time; those in which no daemon ran are missing.
    pub(crate) slots: Vec<Slot>,
    /// Processes that cannot be observed now.
    pub(crate) refused: Vec<RefusedNow>,
}

/// Processes that cannot be observed now, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RefusedNow {
    pub(crate) selection: String,
    /// The command's name, up to 15 bytes.
    pub(crate) name: String,
    pub(crate) why: String,
}
