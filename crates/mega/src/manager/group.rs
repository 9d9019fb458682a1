//! A group of processes with the same settings, and its steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::Emptied;
use mega_core::engine::{Engine, Interval, StepReport, Unmet};
use mega_core::promotion::Policy;
use mega_core::savings::Savings;
use mega_core::{Machine, ProcessId};
use mega_linux::process::claim::{Claim, ClaimError, Claims};
use mega_linux::process::not_eligible::NotEligible;
use mega_linux::{Error, Host, process};

use super::own_share::{OwnShare, machine_options};
use super::refusals::Refusals;
use super::snapshot::GroupSnapshot;
use crate::config::Settings;
use crate::events::{Change, Followed, Who};
use crate::recording::{Folder, Tape};

/// A step is taken early, with another group's, by up to this part of the time between two.
const EARLY_PART: u32 = 10;

/// Processes with the same settings.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) settings: Arc<Settings>,
    pub(super) engine: Engine,
    pub(super) machine: OwnShare,
    /// Its processes, each claimed unless the manager only looks.
    pub(super) claims: BTreeMap<ProcessId, Option<Claim>>,
    /// When its next step is due.
    pub(super) due: Duration,
    /// The time between the end of its latest step and that.
    pause: Duration,
    /// Its latest step.
    latest: Option<Arc<StepReport>>,
    /// What huge pages saved its processes.
    savings: Savings,
    /// Whether the last processes stay in the report after they have ended. `mega run` reports on them.
    pub(super) keeps_ended: bool,
    /// Processes that the latest step could not observe.
    refusals: Refusals,
    /// What was told of its processes.
    pub(super) followed: Followed,
    /// The longest time that mega held a process's mmap lock in one go, since the start.
    longest_hold: Duration,
    /// Why the latest step failed, if it did.
    last_error: Option<String>,
    /// The contiguity that its step lacked, until compaction has answered and that is recorded.
    pub(super) unmet: Vec<Unmet>,
}

impl Group {
    pub(super) fn new(
        host: &Arc<Host>,
        name: String,
        settings: Settings,
        policy: Box<dyn Policy>,
    ) -> Self {
        Group {
            name,
            engine: Engine::new(policy, settings.budgets, settings.interval),
            machine: OwnShare::new(host, &settings),
            settings: Arc::new(settings),
            claims: BTreeMap::new(),
            due: Duration::ZERO,
            pause: Duration::ZERO,
            latest: None,
            savings: Savings::default(),
            keeps_ended: false,
            refusals: Refusals::default(),
            followed: Followed::default(),
            longest_hold: Duration::ZERO,
            last_error: None,
            unmet: Vec::new(),
        }
    }

    /// Takes other settings, and keeps what it knows as far as that stays true. `policy` is what the settings name.
    pub(super) fn change(&mut self, settings: Settings, policy: Box<dyn Policy>) {
        if !settings.decides_as(&self.settings) {
            self.engine.replace_policy(policy);
        }
        self.machine.inner.set_options(machine_options(&settings));
        self.machine.inner.set_chosen(settings.coverage_of.clone());
        self.machine.inner.forget_calibration();
        self.engine.set_budgets(settings.budgets);
        self.engine.set_interval(settings.interval);
        self.due = Duration::ZERO;
        self.settings = Arc::new(settings);
    }

    pub(super) fn claim(
        &mut self,
        claims: Option<&Claims>,
        process: ProcessId,
    ) -> Result<(), ClaimError> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.claims.entry(process) {
            place.insert(claims.map(|claims| claims.take(process)).transpose()?);
            if self.follows_programs() {
                self.due = Duration::ZERO;
            }
        }
        Ok(())
    }

    /// Whether the time between its steps is as its programs ask for.
    pub(super) fn follows_programs(&self) -> bool {
        self.settings.interval == Interval::Auto
    }

    /// The time until the next step where this one observed nothing.
    fn idle_interval(&self) -> Duration {
        match self.settings.interval {
            Interval::Auto => Interval::EQUAL,
            Interval::Fixed(interval) => interval,
        }
    }

    fn wait(&mut self, pause: Duration) {
        self.due = self.machine.inner.now() + pause;
        self.pause = pause;
    }

    /// Whether its next step is due, or so soon that it is taken with another group's, for which processes are listed anyway.
    pub(super) fn steps_with_others(&self, now: Duration) -> bool {
        self.due <= now + self.pause / EARLY_PART
    }

    pub(super) fn who(&self, process: ProcessId) -> Who {
        let name = process::name_of(self.machine.inner.host().kernel().as_ref(), process);
        Who::new(&self.name, process, name)
    }

    /// Takes note of its processes, as they are now. Returns who has come and who has left.
    pub(super) fn follow(&mut self, processes: &BTreeSet<ProcessId>) -> Vec<Change> {
        let host = self.machine.inner.host();
        self.followed.update(&self.name, processes, |process| {
            process::name_of(host.kernel().as_ref(), process)
        })
    }

    /// Begins to record it, if it is not recorded yet. Returns why that does not work, if it does not.
    pub(super) fn begin_recording(&mut self, host: &Arc<Host>, folder: &Folder) -> Option<Change> {
        if self.machine.tape.is_some() {
            return None;
        }
        match folder.begin(host, &self.name, &self.settings) {
            Ok(tape) => {
                self.machine.tape = Some(tape);
                None
            }
            Err(why) => Some(Change::error(Some(&self.name), &why)),
        }
    }

    /// Ends its recording, if there is one. Returns why that does not work, if it does not.
    pub(super) fn finish_recording(&mut self) -> Option<Change> {
        let tape = self.machine.tape.take()?;
        let path = tape.path().to_owned();
        let error = tape.finish().err()?;
        let why = format!("cannot end the recording in {}: {error}", path.display());
        Some(Change::error(Some(&self.name), &why))
    }

    /// Writes the step that was just taken to its recording, with what was `emptied` since for all groups that lacked something.
    /// Returns why that does not work, if it does not.
    pub(super) fn write_recording(&mut self, emptied: &[Emptied]) -> Option<Change> {
        let lacked = !std::mem::take(&mut self.unmet).is_empty();
        let emptied = if lacked { emptied } else { &[] };
        let why = self.machine.write_tape(emptied)?;
        Some(Change::error(Some(&self.name), &why))
    }

    /// Takes a step. Returns what changed and was not told before.
    pub(super) fn step(&mut self) -> Vec<Change> {
        self.wait(self.idle_interval());
        let error = self.take_step().err().map(|error| error.to_string());
        let unwritten = self.machine.complete_tape();
        let news = error.clone().filter(|_| error != self.last_error);
        self.last_error = error;
        self.longest_hold = self.longest_hold.max(self.machine.inner.longest_hold());
        let refused = self.machine.inner.take_refused().into_iter();
        let host = self.machine.inner.host();
        let refused = self.refusals.renew(
            refused.map(|(process, error)| (process, error.to_string())),
            |process| process::name_of(host.kernel().as_ref(), process),
            |process| self.claims.contains_key(process),
        );
        let mut changes: Vec<Change> = refused
            .into_iter()
            .map(|(process, report)| {
                let who = Who::new(&self.name, process, report.name);
                Change::refused(who, &report.why)
            })
            .collect();
        let errors = news.into_iter().chain(unwritten);
        changes.extend(errors.map(|why| Change::error(Some(&self.name), &why)));
        changes.extend(self.look_at_promise());
        changes
    }

    /// Whose coverage is as promised again, or no longer, as of the latest step.
    fn look_at_promise(&mut self) -> Vec<Change> {
        let Some(latest) = &self.latest else {
            return Vec::new();
        };
        let now = self.machine.inner.now();
        self.followed.look(
            &self.name,
            self.settings.coverage,
            &latest.processes,
            &latest.memory,
            now,
        )
    }

    fn take_step(&mut self) -> Result<(), Error> {
        if self.claims.is_empty() {
            self.forget_processes();
            return Ok(());
        }
        let report = self.engine.step(&mut self.machine)?;
        self.wait(report.next_interval);
        for departed in self.machine.inner.take_departed() {
            self.claims.remove(&departed);
        }
        self.unmet.clone_from(&report.unmet);
        let host = self.machine.inner.host();
        self.savings.step(&report.processes, |process| {
            process::stat_of(host.kernel().as_ref(), process).map(|stat| stat.cpu_time())
        });
        if !(report.processes.is_empty() && self.keeps_ended) {
            self.latest = Some(Arc::new(report));
        }
        Ok(())
    }

    /// Forgets the processes it saw: none is left.
    fn forget_processes(&mut self) {
        if let Some(latest) = self.latest.as_mut().filter(|_| !self.keeps_ended) {
            Arc::make_mut(latest).processes.clear();
        }
    }

    pub(super) fn snapshot(&self) -> GroupSnapshot {
        GroupSnapshot {
            name: self.name.clone(),
            settings: Arc::clone(&self.settings),
            totals: self.engine.totals().clone(),
            latest: self.latest.clone(),
            saved: self.savings.iter().collect(),
            saved_in_all: self.savings.total(),
            refused: self.refusals.report(),
            refused_count: self.refusals.count(),
            not_eligible: self
                .machine
                .inner
                .all_not_eligible()
                .map(|(process, parts)| (process, bytes_by_reason(parts)))
                .collect(),
            larger_folios: self.machine.inner.larger_folios().clone(),
            left_alone: self.left_alone(),
            longest_hold: self.longest_hold,
            recording: self.machine.tape.as_ref().map(Tape::report),
            last_error: self.last_error.clone(),
        }
    }

    /// What huge pages cannot map of the processes that somebody looks closely at.
    fn left_alone(&self) -> BTreeMap<ProcessId, Vec<NotEligible>> {
        let closeups = self.latest.iter().flat_map(|latest| &latest.closeups);
        closeups
            .map(|seen| {
                let parts = self.machine.inner.not_eligible(seen.process);
                (seen.process, parts.to_vec())
            })
            .collect()
    }
}

/// How many bytes are not eligible, by reason.
fn bytes_by_reason(left_alone: &[NotEligible]) -> BTreeMap<String, u64> {
    let mut bytes = BTreeMap::new();
    for part in left_alone {
        *bytes.entry(part.reason.name().to_owned()).or_default() +=
            part.range.end - part.range.start;
    }
    bytes
}
