//! What a manager has seen and done. It makes a snapshot after each step; a status is made of the latest one when somebody
//! asks.
//!
//! So an answer never waits for a step, which may take long. Only an answer looks up the names of the processes and the
//! manager's own cost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mega_core::ProcessId;
use mega_core::engine::{Interval, StepReport, Totals};
use mega_core::worth::Estimate;
use mega_linux::exchanges::Exchanges;
use mega_linux::guest::Vmms;
use mega_linux::kernel::Kernel;
use mega_linux::observe::larger_folios::LargerFolios;
use mega_linux::physical::buddyinfo;
use mega_linux::process::anatomy::anatomy;
use mega_linux::process::not_eligible::NotEligible;
use mega_linux::settings::fault::{FaultMeans, FaultMode};
use mega_linux::{Host, process};

use crate::config::Settings;
use crate::manager::closeup;
use crate::report::{
    Actions, CompactionReport, ExchangeReport, FaultReport, GainReport, GroupStatus, HostPage,
    ManagerStatus, Memory, Mode, Observed, OwnCost, ProcessDetail, ProcessReport, RefusedReport,
    TallyReport, TapeReport, folio_reports,
};

/// What a manager has seen and done.
pub(crate) struct Snapshot {
    pub(crate) host: Arc<Host>,
    /// The manager's own process.
    pub(crate) own: ProcessId,
    /// When that process started, by the kernel's clock.
    pub(crate) started: Duration,
    /// When the snapshot was made, by the same clock.
    pub(crate) made: Duration,
    pub(crate) mode: Mode,
    pub(crate) fault: Fault,
    pub(crate) groups: Vec<GroupSnapshot>,
    /// `None` without the kernel module.
    pub(crate) compaction: Option<CompactionReport>,
    /// How often processes were listed.
    pub(crate) process_lists: u64,
    /// Why processes could not be listed just now, if they could not.
    pub(crate) last_error: Option<String>,
}

/// What page faults of the managed programs should take, and what mega does about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) mode: FaultMode,
    pub(crate) means: FaultMeans,
}

/// What a manager has seen and done of one group.
pub(crate) struct GroupSnapshot {
    pub(crate) name: String,
    pub(crate) settings: Arc<Settings>,
    /// What was done since the start.
    pub(crate) totals: Totals,
    /// The latest step; `None` before the first one.
    pub(crate) latest: Option<Arc<StepReport>>,
    /// CPU seconds that huge pages saved the processes whose gain was measured.
    pub(crate) saved: BTreeMap<ProcessId, Estimate>,
    /// The same in all, since the start.
    pub(crate) saved_in_all: Estimate,
    /// Processes that the latest step could not observe; at most 100.
    pub(crate) refused: Vec<RefusedReport>,
    /// How many these are in all.
    pub(crate) refused_count: u64,
    /// Of the processes with memory that huge pages cannot map: how many bytes, by reason.
    pub(crate) not_eligible: BTreeMap<ProcessId, BTreeMap<String, u64>>,
    /// What base page table entries map of larger folios.
    pub(crate) larger_folios: LargerFolios,
    /// What huge pages cannot map, where it is and why, of the processes that somebody looks closely at.
    pub(crate) left_alone: BTreeMap<ProcessId, Vec<NotEligible>>,
    /// The longest time that mega held a process's mmap lock in one go, since the start.
    pub(crate) longest_hold: Duration,
    /// The recording that is made of it.
    pub(crate) recording: Option<TapeReport>,
    /// Why the latest step failed, if it did.
    pub(crate) last_error: Option<String>,
}

impl Snapshot {
    /// Makes the status, with the manager's own cost until now.
    pub(crate) fn status(&self) -> ManagerStatus {
        let kernel = self.host.kernel().as_ref();
        let vmms = Vmms::of(kernel);
        let uptime = kernel.now().saturating_sub(self.started).as_secs_f64();
        let cpu_seconds = kernel.cpu_time().as_secs_f64();
        let own = process::stat(kernel, self.own.pid);
        let latest = self
            .groups
            .iter()
            .rev()
            .find_map(|group| group.latest.as_ref());
        ManagerStatus {
            pid: self.own.pid,
            mode: self.mode.clone(),
            tracker: self.host.tracker_kind().to_string(),
            dry_run: self.host.is_dry_run(),
            fault: Some(FaultReport {
                mode: self.fault.mode.name().to_owned(),
                by: self.fault.means.describe(kernel),
            }),
            uptime_seconds: uptime,
            manager: OwnCost {
                cpu_seconds,
                cpu_share: if uptime > 0.0 {
                    cpu_seconds / uptime
                } else {
                    0.0
                },
                resident: own.map_or(0, |stat| stat.resident),
            },
            memory: latest.map(|report| Memory::from(&report.memory)),
            free_areas: buddyinfo::total(&buddyinfo::read(kernel).unwrap_or_default()),
            groups: self
                .groups
                .iter()
                .map(|group| group.status(kernel, vmms))
                .collect(),
            compaction: self.compaction,
            exchange: Exchanges::read(kernel).as_ref().map(ExchangeReport::from),
            // What was exchanged earlier the host may have mended by now.
            host_page: HostPage::of(self.host.is_guest(), false),
            process_lists: self.process_lists,
            last_error: self.last_error.clone(),
        }
    }

    /// Whether one of the processes runs a virtual machine.
    pub(crate) fn runs_guest(&self) -> bool {
        let vmms = Vmms::of(self.host.kernel().as_ref());
        let latest = self.groups.iter().filter_map(|group| group.latest.as_ref());
        let mut processes = latest.flat_map(|report| &report.processes);
        processes.any(|summary| vmms.contain(summary.process.pid))
    }

    /// A close look at one process, as far as the manager took one.
    ///
    /// # Errors
    /// In words, where no group has the process or it cannot be looked at.
    pub(crate) fn process(&self, pid: u32) -> Result<ProcessDetail, String> {
        let found = self.groups.iter().find_map(|group| {
            let latest = group.latest.as_ref()?;
            let mut processes = latest.processes.iter();
            let summary = processes.find(|summary| summary.process.pid == pid)?;
            Some((group, latest, summary.process))
        });
        let (group, latest, process) =
            found.ok_or_else(|| format!("process {pid} is not managed here"))?;
        let anatomy = anatomy(&self.host, pid).map_err(|error| error.to_string())?;
        let closeup = latest.closeups.iter().find(|seen| seen.process == process);
        let left_alone = group.left_alone.get(&process);
        Ok(ProcessDetail {
            pid,
            start_time: process.start_time,
            group: group.name.clone(),
            policy: group.settings.policy.clone(),
            step: closeup.map(|_| group.totals.steps),
            switched_off: anatomy.switched_off,
            mappings: closeup::mappings(&anatomy, closeup, left_alone.map_or(&[], Vec::as_slice)),
        })
    }
}

impl GroupSnapshot {
    /// The interval; where the programs ask for it, the one since the latest step.
    pub(crate) fn interval(&self) -> Duration {
        match (self.settings.interval, &self.latest) {
            (Interval::Fixed(interval), _) => interval,
            (Interval::Auto, Some(latest)) => latest.next_interval,
            (Interval::Auto, None) => Interval::EQUAL,
        }
    }

    /// How many processes have less in huge pages than was promised; 0 where nothing was.
    pub(crate) fn short_of_coverage(&self) -> u64 {
        let least = self.settings.coverage.unwrap_or(0.0);
        let summaries = self.latest.iter().flat_map(|report| &report.processes);
        let short = summaries.filter(|summary| !summary.reaches(least));
        short.count() as u64
    }

    fn status(&self, kernel: &dyn Kernel, vmms: Vmms<'_>) -> GroupStatus {
        let summaries = self.latest.iter().flat_map(|report| &report.processes);
        let processes: Vec<ProcessReport> = summaries
            .map(|summary| (summary, process::stat_of(kernel, summary.process)))
            .map(|(summary, stat)| ProcessReport {
                pid: summary.process.pid,
                resident: stat.as_ref().map_or(0, |stat| stat.resident),
                name: stat.map(|stat| stat.name).unwrap_or_default(),
                observed: Observed::from(summary),
                tally: TallyReport::new(&summary.tally, self.totals.steps),
                not_eligible: self
                    .not_eligible
                    .get(&summary.process)
                    .cloned()
                    .unwrap_or_default(),
                larger_folios: self
                    .larger_folios
                    .of(summary.process)
                    .as_ref()
                    .map(folio_reports),
                gain: summary.gain.as_ref().map(GainReport::from),
                saved_cpu_seconds: self.saved.get(&summary.process).copied(),
                runs_guest: vmms.contain(summary.process.pid),
            })
            .collect();
        GroupStatus {
            name: self.name.clone(),
            policy: self.settings.policy.clone(),
            parameters: self.settings.parameters.clone(),
            interval_seconds: self.interval().as_secs_f64(),
            interval_auto: self.settings.interval == Interval::Auto,
            cpu_budget: self.settings.budgets.cpu_share,
            copy_budget: self.settings.budgets.copy_bytes_per_second,
            standstill: self.settings.budgets.standstill,
            lock_bound_seconds: self.settings.lock_bound.as_secs_f64(),
            longest_hold_seconds: self.longest_hold.as_secs_f64(),
            coverage: self.settings.coverage,
            coverage_of: self
                .settings
                .coverage_of
                .as_ref()
                .map(|chosen| chosen.words().collect()),
            short_of_coverage: self.short_of_coverage(),
            saved_cpu_seconds: self.saved_in_all,
            totals: processes.iter().map(|process| process.observed).sum(),
            processes,
            refused: self.refused.clone(),
            refused_count: self.refused_count,
            actions: Actions::from(&self.totals),
            recording: self.recording.clone(),
            last_error: self.last_error.clone(),
        }
    }
}
