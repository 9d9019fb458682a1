//! What came of recording: `mega record --json`.

use std::path::PathBuf;

use serde::Serialize;

/// What `mega record --json` prints.
#[derive(Clone, Debug, Serialize)]
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
    /// CPU time of all else: making what was seen into a file, and measuring touches.
    pub(crate) recording_share: f64,
}
