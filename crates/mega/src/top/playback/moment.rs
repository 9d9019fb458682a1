//! What a look of a recording shows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use mega_core::engine::{Closeup, RegionView, Totals, Verdict};
use mega_core::worth::Estimate;
use mega_core::{ActionKind, Cause, Outcome, ProcessId, ProcessObservation};
use mega_linux::process::anatomy::{Anatomy, Part};
use mega_record::{Acted, Compacted, Header, Look};

use crate::manager::closeup;
use crate::report::{
    Actions, CompactionReport, GroupStatus, HostPage, LastFailure, ManagerStatus, Memory, Mode,
    Observed, OwnCost, ProcessDetail, ProcessReport, TallyReport,
};
use crate::top::sample::Sample;

/// What one look shows.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// The time in the recording.
    pub(crate) at: Duration,
    pub(crate) sample: Sample,
    /// Whether it lies before what was shown until now.
    pub(crate) rewinds: bool,
}

/// What looks said until now.
#[derive(Debug, Default)]
pub(super) struct Known {
    names: BTreeMap<ProcessId, String>,
    mappings: BTreeMap<ProcessId, Vec<Range<u64>>>,
    looks: u64,
    cpu: Duration,
    /// What the manager did before the latest look, and to which process.
    done: Totals,
    by_process: BTreeMap<ProcessId, Done>,
    /// What it did after the latest look.
    doing: Vec<Acted>,
    /// What its compaction did before the latest look.
    compacted: CompactionReport,
    /// What that did after it.
    compacting: Vec<Compacted>,
}

/// What a manager did.
#[derive(Debug, Default)]
struct Done {
    totals: Totals,
    /// The last failure, and the look behind which it was.
    failure: Option<(ActionKind, Cause, u64)>,
}

impl Done {
    fn add(&mut self, acted: &Acted, look: u64) {
        let kind = acted.action.kind;
        self.totals.record(kind, acted.outcome);
        if let Outcome::Failed(cause) = acted.outcome {
            self.failure = Some((kind, cause, look));
        }
    }

    /// As of this look.
    fn report(&self, look: u64) -> TallyReport {
        TallyReport {
            promoted: self.totals.done[ActionKind::Promote],
            demoted: self.totals.done[ActionKind::Demote],
            bytes_copied: self.totals.bytes_copied,
            bytes_given_back: self.totals.bytes_given_back,
            wanted: 0,
            last_failure: self.failure.map(|(kind, cause, then)| LastFailure {
                action: kind.name().to_owned(),
                cause: cause.name().to_owned(),
                steps_ago: look.saturating_sub(then),
            }),
        }
    }
}

impl Known {
    /// Adds the next look.
    pub(super) fn add(&mut self, look: &Look) {
        let processes = look.observation.processes.iter();
        let here: BTreeSet<ProcessId> = processes.map(|seen| seen.process).collect();
        self.names.retain(|process, _| here.contains(process));
        self.mappings.retain(|process, _| here.contains(process));
        self.names.extend(look.news.names.clone());
        self.mappings.extend(look.news.mappings.clone());
        for acted in std::mem::take(&mut self.doing) {
            let process = acted.action.target.process;
            self.done.record(acted.action.kind, acted.outcome);
            let tally = self.by_process.entry(process).or_default();
            tally.add(&acted, self.looks);
        }
        self.by_process.retain(|process, _| here.contains(process));
        self.doing.clone_from(&look.actions);
        for compacted in std::mem::take(&mut self.compacting) {
            self.compacted.add(&compacted.emptied);
        }
        self.compacting.clone_from(&look.compacted);
        self.looks += 1;
        self.cpu += look.cpu;
    }

    /// What the look shows that was added last.
    pub(super) fn moment(&self, header: &Header, look: &Look) -> Moment {
        let processes = look.observation.processes.iter();
        let processes: Vec<ProcessReport> = processes.map(|seen| self.process(seen)).collect();
        let group = GroupStatus {
            name: "recorded".to_owned(),
            policy: String::new(),
            parameters: BTreeMap::new(),
            interval_seconds: look.observation.interval.as_secs_f64(),
            interval_auto: false,
            cpu_budget: 0.0,
            copy_budget: 0,
            standstill: 0.0,
            lock_bound_seconds: 0.0,
            longest_hold_seconds: 0.0,
            coverage: None,
            coverage_of: None,
            short_of_coverage: 0,
            totals: processes.iter().map(|process| process.observed).sum(),
            saved_cpu_seconds: Estimate::default(),
            processes,
            refused: Vec::new(),
            refused_count: 0,
            actions: Actions {
                steps: self.looks,
                ..Actions::from(&self.done)
            },
            recording: None,
            last_error: None,
        };
        let cpu_seconds = self.cpu.as_secs_f64();
        let passed = look.at.as_secs_f64();
        let manager = ManagerStatus {
            pid: 0,
            mode: Mode::Observe,
            tracker: header.tracker.clone(),
            dry_run: true,
            fault: None,
            uptime_seconds: passed,
            manager: OwnCost {
                cpu_seconds,
                cpu_share: if passed > 0.0 {
                    cpu_seconds / passed
                } else {
                    0.0
                },
                resident: 0,
            },
            memory: Some(Memory::from(&look.observation.memory)),
            free_areas: look.free_areas(),
            groups: vec![group],
            compaction: (self.compacted.tried > 0).then_some(self.compacted),
            exchange: None,
            host_page: HostPage::of_recording(header),
            process_lists: 0,
            last_error: None,
        };
        Moment {
            at: look.at,
            sample: Sample {
                time: header.began.saturating_add(look.at.as_secs()),
                pressure: None,
                managers: vec![manager],
                detail: None,
                troubles: Vec::new(),
            },
            rewinds: false,
        }
    }

    fn process(&self, seen: &ProcessObservation) -> ProcessReport {
        let observed = Observed::from(seen);
        let tally = self.by_process.get(&seen.process);
        ProcessReport {
            pid: seen.process.pid,
            name: self.names.get(&seen.process).cloned().unwrap_or_default(),
            resident: observed.mapped,
            observed,
            tally: tally.map_or_else(TallyReport::default, |tally| tally.report(self.looks)),
            not_eligible: BTreeMap::new(),
            larger_folios: None,
            gain: None,
            saved_cpu_seconds: None,
            runs_guest: false,
        }
    }

    /// A close look at a process. `None` where it was not there.
    pub(super) fn detail(&self, look: &Look, pid: u32) -> Option<ProcessDetail> {
        let mut processes = look.observation.processes.iter();
        let seen = processes.find(|seen| seen.process.pid == pid)?;
        let view = |region: &_| RegionView {
            observed: *region,
            // A recording does not say what was in the way, so no reason is shown.
            verdict: Verdict::Huge,
        };
        let closeup = Closeup {
            process: seen.process,
            accesses_known: seen.accesses_known,
            regions: seen.regions.iter().map(view).collect(),
        };
        let ranges = self.mappings.get(&seen.process).into_iter().flatten();
        let part = |range: &Range<u64>| Part {
            range: range.clone(),
            name: "[not recorded]".to_owned(),
            shared: false,
            obstacle: None,
        };
        let anatomy = Anatomy {
            parts: ranges.map(part).collect(),
            switched_off: None,
        };
        let mut mappings = closeup::mappings(&anatomy, Some(&closeup), &[]);
        mappings
            .iter_mut()
            .for_each(|mapping| mapping.reasons.clear());
        Some(ProcessDetail {
            pid,
            start_time: seen.process.start_time,
            group: "recorded".to_owned(),
            policy: "none: it was recorded".to_owned(),
            step: Some(self.looks),
            switched_off: None,
            mappings,
        })
    }
}
