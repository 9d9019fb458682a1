//! A daemon's last day: `mega report --json`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Mode;
use crate::history::{SLOT, Slot};
use crate::manager::snapshot::Snapshot;
use crate::manager::worker::Published;

/// Reasons of refusal that are named, at most.
const MOST_REFUSED: usize = 50;

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

impl DayReport {
    /// The day of a manager; `None` where it keeps none.
    pub(crate) fn of(published: &Published) -> Option<Self> {
        let history = published.history()?;
        let snapshot = published.latest();
        let kernel = snapshot.host.kernel().as_ref();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let uptime = kernel.now().saturating_sub(snapshot.started);
        let memory = mega_linux::observe::memory::observe(kernel);
        Some(DayReport {
            pid: snapshot.own.pid,
            mode: snapshot.mode.clone(),
            host: host_name(),
            mega: env!("MEGA_VERSION").to_owned(),
            dry_run: snapshot.host.is_dry_run(),
            started: now.saturating_sub(uptime).as_secs(),
            made: now.as_secs(),
            memory: memory.map_or(0, |memory| memory.total),
            kept_in: history.kept_in().cloned(),
            slot_seconds: SLOT,
            slots: history.slots(),
            refused: refused(&snapshot),
        })
    }
}

fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

fn refused(snapshot: &Snapshot) -> Vec<RefusedNow> {
    let mut refused: Vec<RefusedNow> = snapshot
        .groups
        .iter()
        .flat_map(|group| {
            group.refused.iter().map(|refused| RefusedNow {
                selection: group.name.clone(),
                name: refused.name.clone(),
                why: refused.why.clone(),
            })
        })
        .collect();
    refused.sort();
    refused.dedup();
    refused.truncate(MOST_REFUSED);
    refused
}
