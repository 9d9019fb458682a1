//! What came of recording: `mega record --json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::HostPage;

/// What `mega record --json` prints.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RecordReport {
    pub(crate) version: u32,
    pub(crate) file: PathBuf,
    /// Its size.
    pub(crate) bytes: u64,
    pub(crate) looks: u64,
    /// Looks that were due and were not made, because the one before took too long.
    pub(crate) missed: u64,
    /// From the beginning to the last look.
    pub(crate) seconds: f64,
    /// Processes that were seen.
    pub(crate) processes: u64,
    /// Which tracker looked.
    pub(crate) tracker: String,
    /// CPU time of looking, as a share of one core.
    pub(crate) looking_share: f64,
    /// CPU time of measuring touches.
    pub(crate) measuring_share: f64,
    /// CPU time of all else: making what was seen into a file. A manager that does not record does without.
    pub(crate) recording_share: f64,
    /// By which pages the host of this guest maps what was recorded; `null` on a machine that is no guest.
    pub(crate) host_page: Option<HostPage>,
    /// Whether one of the processes runs a virtual machine by KVM, whose own page sizes are not known here.
    pub(crate) runs_guest: bool,
}

/// The recording that a manager makes: a part of its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TapeReport {
    pub(crate) file: PathBuf,
    pub(crate) looks: u64,
    /// Bytes that are written.
    pub(crate) bytes: u64,
    /// CPU time that it took beyond managing.
    pub(crate) cpu_seconds: f64,
}
