//! What a manager has seen and done, for those who ask: the control socket, metrics, and the live view.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::events::EventLog;
use crate::history::{DayReport, History, RefusedNow, SLOT};
use crate::manager::snapshot::Snapshot;
use crate::manager::watch::Watch;
use crate::report::{HostPage, ManagerStatus, ProcessDetail};

/// Reasons of refusal that a report of a day names, at most.
const MOST_REFUSED: usize = 50;

/// What a manager has seen and done, for those who ask.
#[derive(Clone)]
pub(crate) struct Published {
    latest: Arc<Mutex<Arc<Snapshot>>>,
    watch: Watch,
    events: EventLog,
    history: Option<History>,
}

impl Published {
    /// What is there before the first step.
    pub(crate) fn new(snapshot: Snapshot, watch: Watch, history: Option<History>) -> Self {
        Published {
            latest: Arc::new(Mutex::new(Arc::new(snapshot))),
            watch,
            events: EventLog::default(),
            history,
        }
    }

    /// Its last day; `None` where none is kept.
    pub(crate) fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// What has changed.
    pub(crate) fn events(&self) -> &EventLog {
        &self.events
    }

    /// The latest snapshot.
    pub(crate) fn latest(&self) -> Arc<Snapshot> {
        // A snapshot is replaced as a whole, so a poisoned lock holds a good one.
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The status of the manager. Making it does not hold the lock.
    pub(crate) fn status(&self) -> ManagerStatus {
        self.latest().status()
    }

    /// A close look at one of its processes. The manager looks closely from its next step on, for as long as somebody
    /// keeps asking.
    ///
    /// # Errors
    /// In words, where it does not manage this process or the process cannot be looked at.
    pub(crate) fn process(&self, pid: u32) -> Result<ProcessDetail, String> {
        let latest = self.latest();
        let detail = latest.process(pid)?;
        self.watch.add(pid, latest.host.kernel().now());
        Ok(detail)
    }

    /// Its last day as a report; `None` where none is kept.
    pub(crate) fn day(&self) -> Option<DayReport> {
        let history = self.history()?;
        let snapshot = self.latest();
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
            host_page: HostPage::of(snapshot.host.is_guest(), false),
            runs_guest: snapshot.runs_guest(),
            kept_in: history.kept_in().cloned(),
            slot_seconds: SLOT,
            slots: history.slots(),
            refused: refused(&snapshot),
        })
    }

    /// Replaces the latest snapshot.
    pub(crate) fn set(&self, snapshot: Snapshot) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
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
