//! What one scrape shows, added up from the manager's latest snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mega_core::MemoryObservation;
use mega_core::engine::{Totals, Unmet};
use mega_core::worth::Estimate;
use mega_linux::exchanges::Exchanges;
use mega_linux::{observe, process};

use super::cgroups::{Cgroup, Sums};
use crate::config::Settings;
use crate::events::Change;
use crate::manager::snapshot::{GroupSnapshot, Snapshot};
use crate::published::Published;
use crate::report::{CompactionReport, Observed};

/// What one scrape shows.
#[derive(Debug)]
pub(super) struct Sample {
    /// When the daemon started, in seconds since 1970.
    pub(super) started: f64,
    /// The time since the manager made its snapshot.
    pub(super) age: Duration,
    pub(super) cpu: Duration,
    /// `None` where it cannot be read just now.
    pub(super) resident: Option<u64>,
    pub(super) tracker: String,
    pub(super) fault: &'static str,
    pub(super) dry_run: bool,
    /// Whether processes could not be listed.
    pub(super) failed: bool,
    /// As it is now. `None` where it cannot be read.
    pub(super) memory: Option<MemoryObservation>,
    /// What came of all exchanges by the host; `None` where it offers none.
    pub(super) exchange: Option<Exchanges>,
    /// Whether a host's page tables lie below this machine's.
    pub(super) is_guest: bool,
    /// Nothing without the kernel module.
    pub(super) compaction: CompactionReport,
    /// What has changed since the start, by name.
    pub(super) events: [(&'static str, u64); Change::NAMES.len()],
    pub(super) selections: Vec<Selection>,
    pub(super) cgroups: Vec<Cgroup>,
}

/// One selection.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) name: String,
    pub(super) settings: Arc<Settings>,
    /// The time from the latest observation to the next.
    pub(super) interval: Duration,
    /// What was done since the start.
    pub(super) totals: Totals,
    /// CPU seconds that huge pages saved its processes since the start, as far as their gain was measured.
    pub(super) saved: Estimate,
    pub(super) longest_hold: Duration,
    /// Processes that run and cannot be observed.
    pub(super) refused: u64,
    /// Processes that have less in huge pages than is promised.
    pub(super) short_of_coverage: u64,
    /// Whether the latest step failed.
    pub(super) failed: bool,
    /// Bytes of addresses that huge pages cannot map, by reason.
    pub(super) not_eligible: BTreeMap<String, u64>,
    /// What the latest step lacked.
    pub(super) unmet: Vec<Unmet>,
    /// How many of its cgroups are summed.
    pub(super) summed_cgroups: u64,
}

impl Sample {
    /// Adds up the latest snapshot. `started` is when the daemon started, in seconds since 1970. No more than `max_cgroups` are told
    /// apart. A process that has ended since the snapshot is left out.
    pub(super) fn of(published: &Published, started: f64, max_cgroups: usize) -> Self {
        let snapshot = &*published.latest();
        let kernel = snapshot.host.kernel().as_ref();
        let mut selections: Vec<Selection> = snapshot.groups.iter().map(Selection::of).collect();
        let (cgroups, summed) = cgroups(snapshot, max_cgroups);
        for (place, count) in summed {
            if let Some(selection) = selections.get_mut(place) {
                selection.summed_cgroups = count;
            }
        }
        Sample {
            started,
            age: kernel.now().saturating_sub(snapshot.made),
            cpu: kernel.cpu_time(),
            resident: process::stat(kernel, snapshot.own.pid)
                .ok()
                .map(|stat| stat.resident),
            tracker: snapshot.host.tracker_kind().to_string(),
            fault: snapshot.fault.mode.name(),
            dry_run: snapshot.host.is_dry_run(),
            failed: snapshot.last_error.is_some(),
            memory: observe::memory::observe(kernel).ok(),
            exchange: Exchanges::read(kernel),
            is_guest: snapshot.host.is_guest(),
            compaction: snapshot.compaction.unwrap_or_default(),
            events: published.events().counts(),
            selections,
            cgroups,
        }
    }
}

impl Selection {
    fn of(group: &GroupSnapshot) -> Self {
        let mut not_eligible = BTreeMap::new();
        for (reason, bytes) in group.not_eligible.values().flatten() {
            *not_eligible.entry(reason.clone()).or_default() += bytes;
        }
        Selection {
            name: group.name.clone(),
            settings: Arc::clone(&group.settings),
            interval: group.interval(),
            totals: group.totals.clone(),
            saved: group.saved_in_all,
            longest_hold: group.longest_hold,
            refused: group.refused_count,
            short_of_coverage: group.short_of_coverage(),
            failed: group.last_error.is_some(),
            not_eligible,
            unmet: group
                .latest
                .as_ref()
                .map_or_else(Vec::new, |latest| latest.unmet.clone()),
            summed_cgroups: 0,
        }
    }
}

/// The cgroups of all selections, and how many of each selection are summed.
fn cgroups(
    snapshot: &Snapshot,
    max_cgroups: usize,
) -> (Vec<Cgroup>, std::collections::HashMap<usize, u64>) {
    let table = snapshot.host.processes();
    let mut sums = Sums::default();
    for (place, group) in snapshot.groups.iter().enumerate() {
        for summary in group.latest.iter().flat_map(|latest| &latest.processes) {
            if let Some(facts) = table.facts(summary.process) {
                let cgroup = facts.cgroup.as_deref().unwrap_or_default();
                sums.add(place, cgroup, Observed::from(summary));
            }
        }
    }
    sums.bounded(max_cgroups)
}
