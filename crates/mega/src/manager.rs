//! Manages groups of processes: finds them, claims them, and takes a step of each group's engine when it
//! is due. `mega run` has one group, the daemon one for each selection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::ahead::Demand;
use mega_core::engine::{Engine, StepReport};
use mega_core::policy::{self, BuildError};
use mega_core::{Action, HUGE_PAGE_SIZE, Machine, Observation, Outcome, ProcessId, RegionRef};
use mega_linux::process::claim::{Claim, ClaimError};
use mega_linux::process::not_eligible::NotEligible;
use mega_linux::settings::changed_settings::ChangedSettings;
use mega_linux::settings::chunk_order;
use mega_linux::settings::run_dir::RunDir;
use mega_linux::{Error, Host, LinuxMachine, MachineOptions, process};

use crate::config::{Select, Settings};
use crate::contiguity::Contiguity;
use crate::exit::Failure;
use crate::report::{
    Actions, GroupStatus, ManagerStatus, Memory, Mode, Observed, OwnCost, ProcessReport,
};
use crate::selection::Selection;

/// Which processes belong to which group.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All that descend from this process, to one group.
    Descendants,
    /// Each to the first selection that takes it; one selection for each group.
    Selections(Vec<Selection>),
}

/// Somebody who is told what a user should know, in one line.
pub(crate) type Teller = Box<dyn FnMut(&str) + Send>;

/// Manages groups of processes.
pub(crate) struct Manager {
    host: Arc<Host>,
    own: ProcessId,
    started: Duration,
    mode: Mode,
    scope: Scope,
    groups: Vec<Group>,
    /// Where the kernel module is there.
    contiguity: Option<Contiguity>,
    /// Held while a group's policy wants chunks emptied one after the other.
    sequential: Option<ChangedSettings>,
    /// Processes of which was told that another mega has them.
    held_elsewhere: BTreeSet<ProcessId>,
    tell: Teller,
}

impl Manager {
    /// A manager that starts its first step at once, in a process that itself `started` then, by the
    /// kernel's clock: what it used until now counts.
    ///
    /// # Errors
    /// Where this process cannot find itself in `/proc`.
    pub(crate) fn new(
        host: Arc<Host>,
        mode: Mode,
        started: Duration,
        tell: Teller,
    ) -> Result<Self, Error> {
        let own = process::stat(host.kernel().as_ref(), std::process::id())?.process();
        Ok(Manager {
            contiguity: Contiguity::open(&host),
            sequential: None,
            host,
            own,
            started,
            mode,
            scope: Scope::Descendants,
            groups: Vec::new(),
            held_elsewhere: BTreeSet::new(),
            tell,
        })
    }

    /// Manages this process's descendants, as one group.
    ///
    /// # Errors
    /// Where there is no such policy, it does not take the parameters, or this machine cannot give it what it wants.
    pub(crate) fn manage_descendants(&mut self, settings: Settings) -> Result<(), Failure> {
        let group = Group::new(&self.host, "run".to_owned(), settings)?;
        self.order_chunks([&group.settings])?;
        self.scope = Scope::Descendants;
        self.groups = vec![group];
        Ok(())
    }

    /// Manages what these select. Groups of the same name go on with what they know, as far as their
    /// settings did not change.
    ///
    /// # Errors
    /// As [`Manager::manage_descendants`]; nothing has changed then.
    pub(crate) fn manage_selections(&mut self, selects: Vec<Select>) -> Result<(), Failure> {
        for select in &selects {
            policy::build(&select.settings.policy, &select.settings.parameters)?;
        }
        self.order_chunks(selects.iter().map(|select| &select.settings))?;
        let mut old: BTreeMap<String, Group> = self
            .groups
            .drain(..)
            .map(|group| (group.name.clone(), group))
            .collect();
        let mut selections = Vec::new();
        for select in selects {
            let group = match old.remove(&select.name) {
                Some(mut group) => {
                    group.change(&self.host, select.settings)?;
                    group
                }
                None => Group::new(&self.host, select.name, select.settings)?,
            };
            self.groups.push(group);
            selections.push(select.selection);
        }
        self.scope = Scope::Selections(selections);
        Ok(())
    }

    /// Has the kernel empty chunks in the order that these groups' policies want: one after the other where one does.
    fn order_chunks<'a>(
        &mut self,
        groups: impl IntoIterator<Item = &'a Settings>,
    ) -> Result<(), Error> {
        let wanted = groups.into_iter().any(wants_sequential_chunks);
        if !wanted || self.host.is_dry_run() {
            self.sequential = None;
        } else if self.sequential.is_none() {
            let kernel = Arc::clone(self.host.kernel());
            self.sequential = Some(chunk_order::make_sequential(kernel, &RunDir::open()?)?);
        }
        Ok(())
    }

    /// Takes the steps that are due, and says how long nothing is to be done then.
    ///
    /// # Errors
    /// Where the processes cannot be listed.
    pub(crate) fn tick(&mut self) -> Result<Duration, Error> {
        let now = self.host.kernel().now();
        if self.groups.iter().any(|group| group.due <= now) {
            self.find_targets()?;
            self.step_groups(now);
            self.keep_ahead();
        }
        let now = self.host.kernel().now();
        let due = self.groups.iter().map(|group| group.due).min();
        Ok(due.map_or(Duration::from_secs(5), |due| due.saturating_sub(now)))
    }

    fn step_groups(&mut self, now: Duration) {
        for index in 0..self.groups.len() {
            let cpu_before = self.host.kernel().cpu_time();
            let Some(group) = self.groups.get_mut(index).filter(|group| group.due <= now) else {
                continue;
            };
            if let Err(error) = group.step() {
                let line = format!("{}: {error}", group.name);
                if group.last_error.as_ref() != Some(&line) {
                    (self.tell)(&line);
                    group.last_error = Some(line);
                }
            }
            // What this group used is not the others' to pay.
            let used = self.host.kernel().cpu_time().saturating_sub(cpu_before);
            for (other, group) in self.groups.iter_mut().enumerate() {
                if other != index {
                    group.machine.elsewhere += used;
                }
            }
        }
    }

    /// Sees to free blocks for what the next steps will promote.
    fn keep_ahead(&mut self) {
        let Some(contiguity) = &mut self.contiguity else {
            return;
        };
        let alive = || self.groups.iter().filter(|group| !group.claims.is_empty());
        let latest = || alive().filter_map(|group| group.latest.as_ref());
        let Some(memory) = latest().next_back().map(|report| &report.memory) else {
            return;
        };
        let demand: Demand = latest().map(|report| Demand::after(&report.actions)).sum();
        // Memory was observed before the step's promotions took their blocks.
        let taken: u64 = latest().map(|report| report.actions.promoted).sum();
        let free_blocks = (memory.contiguity / HUGE_PAGE_SIZE).saturating_sub(taken);
        let now = self.host.kernel().now();
        if let Err(error) = contiguity.keep_ahead(demand, free_blocks, now) {
            (self.tell)(&format!("{error}; going on without compaction"));
            self.contiguity = None;
        }
    }

    /// Gives every group the processes that are its own, as far as no other mega has them.
    fn find_targets(&mut self) -> Result<(), Error> {
        let wanted = self.wanted()?;
        let everyone: BTreeSet<ProcessId> = wanted.iter().flatten().copied().collect();
        self.held_elsewhere
            .retain(|process| everyone.contains(process));
        for (group, wanted) in self.groups.iter_mut().zip(&wanted) {
            group.claims.retain(|process, _| wanted.contains(process));
        }
        for (group, wanted) in self.groups.iter_mut().zip(&wanted) {
            for process in wanted {
                if let Err(error) = group.claim(*process)
                    && self.held_elsewhere.insert(*process)
                {
                    (self.tell)(&error.to_string());
                }
            }
            group
                .machine
                .inner
                .set_targets(group.claims.keys().copied().collect());
        }
        Ok(())
    }

    /// The processes of each group.
    fn wanted(&self) -> Result<Vec<BTreeSet<ProcessId>>, Error> {
        let kernel = self.host.kernel().as_ref();
        match &self.scope {
            Scope::Descendants => {
                let mut found: BTreeSet<ProcessId> = process::descendants(kernel, self.own)?
                    .into_iter()
                    .collect();
                found.remove(&self.own);
                Ok(vec![found])
            }
            Scope::Selections(selections) => {
                let mut wanted = vec![BTreeSet::new(); selections.len()];
                for process in process::list(kernel)? {
                    // One that ends meanwhile is no longer of interest.
                    let Ok(facts) = process::facts(kernel, process.pid) else {
                        continue;
                    };
                    let taken = selections
                        .iter()
                        .position(|selection| selection.takes(&facts));
                    if let Some(group) = taken.and_then(|group| wanted.get_mut(group))
                        && facts.process != self.own
                    {
                        group.insert(facts.process);
                    }
                }
                Ok(wanted)
            }
        }
    }

    /// What is seen and done.
    pub(crate) fn status(&self) -> ManagerStatus {
        let kernel = self.host.kernel().as_ref();
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
            groups: self
                .groups
                .iter()
                .map(|group| group.status(&self.host))
                .collect(),
            compaction: self.contiguity.as_ref().map(Contiguity::done),
        }
    }
}

fn wants_sequential_chunks(settings: &Settings) -> bool {
    policy::registry()
        .iter()
        .any(|info| info.name == settings.policy && info.sequential_chunks)
}

/// Processes that are managed alike.
struct Group {
    name: String,
    settings: Settings,
    engine: Engine,
    machine: OwnShare,
    claims: BTreeMap<ProcessId, Claim>,
    /// When its next step is due.
    due: Duration,
    /// Its latest step that saw a process.
    latest: Option<StepReport>,
    last_error: Option<String>,
}

impl Group {
    fn new(host: &Arc<Host>, name: String, settings: Settings) -> Result<Self, BuildError> {
        let policy = policy::build(&settings.policy, &settings.parameters)?;
        Ok(Group {
            name,
            engine: Engine::new(policy, settings.budgets, settings.interval),
            machine: OwnShare::new(host, &settings),
            settings,
            claims: BTreeMap::new(),
            due: Duration::ZERO,
            latest: None,
            last_error: None,
        })
    }

    /// Goes on with other settings, and with what it knows as far as that stays true.
    fn change(&mut self, host: &Arc<Host>, settings: Settings) -> Result<(), BuildError> {
        let old = &self.settings;
        if (&settings.policy, &settings.parameters) != (&old.policy, &old.parameters) {
            self.engine
                .replace_policy(policy::build(&settings.policy, &settings.parameters)?);
        }
        if settings.lock_bound != old.lock_bound {
            let elsewhere = self.machine.elsewhere;
            self.machine = OwnShare {
                elsewhere,
                ..OwnShare::new(host, &settings)
            };
        }
        self.engine.set_budgets(settings.budgets);
        self.engine.set_interval(settings.interval);
        self.due = Duration::ZERO;
        self.settings = settings;
        Ok(())
    }

    fn claim(&mut self, process: ProcessId) -> Result<(), ClaimError> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.claims.entry(process) {
            place.insert(Claim::take(&process)?);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        self.due = self.machine.inner.now() + self.settings.interval;
        if self.claims.is_empty() {
            return Ok(());
        }
        let report = self.engine.step(&mut self.machine)?;
        self.due = self.machine.inner.now() + report.next_interval;
        for departed in self.machine.inner.take_departed() {
            self.claims.remove(&departed);
        }
        if !report.processes.is_empty() {
            self.latest = Some(report);
        }
        self.last_error = None;
        Ok(())
    }

    fn status(&self, host: &Host) -> GroupStatus {
        let kernel = host.kernel().as_ref();
        let name = |process: ProcessId| match process::stat(kernel, process.pid) {
            Ok(stat) if stat.process() == process => stat.name,
            _ => String::new(),
        };
        let summaries = self.latest.iter().flat_map(|report| &report.processes);
        let processes: Vec<ProcessReport> = summaries
            .map(|summary| ProcessReport {
                pid: summary.process.pid,
                name: name(summary.process),
                observed: Observed::from(summary),
                not_eligible: bytes_by_reason(self.machine.inner.not_eligible(summary.process)),
            })
            .collect();
        GroupStatus {
            name: self.name.clone(),
            policy: self.settings.policy.clone(),
            parameters: self.settings.parameters.clone(),
            interval_seconds: self.settings.interval.as_secs_f64(),
            cpu_budget: self.settings.budgets.cpu_share,
            copy_budget: self.settings.budgets.copy_bytes_per_second,
            lock_bound_seconds: self.settings.lock_bound.as_secs_f64(),
            totals: processes.iter().map(|process| process.observed).sum(),
            processes,
            actions: Actions::from(self.engine.totals()),
        }
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

/// A machine of which one group pays for its own CPU time only, not for what other groups use.
struct OwnShare {
    inner: LinuxMachine,
    /// CPU time of this process that other groups used.
    elsewhere: Duration,
}

impl OwnShare {
    fn new(host: &Arc<Host>, settings: &Settings) -> Self {
        let options = MachineOptions {
            lock_bound: settings.lock_bound,
            ..MachineOptions::default()
        };
        OwnShare {
            inner: LinuxMachine::new(Arc::clone(host), options),
            elsewhere: Duration::ZERO,
        }
    }
}

impl Machine for OwnShare {
    type Error = Error;

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn cpu_time(&self) -> Duration {
        self.inner.cpu_time().saturating_sub(self.elsewhere)
    }

    fn observe(&mut self) -> Result<Observation, Error> {
        self.inner.observe()
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        self.inner.count_zero_filled(target)
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.inner.act(actions)
    }
}
