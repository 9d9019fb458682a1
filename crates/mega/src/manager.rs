//! Manages groups of processes: finds them, claims them, and takes a step of each group's engine when it is due.
//! `mega run` has one group; the daemon has one for each selection.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use mega_core::engine::{Engine, Interval, StepReport, Unmet};
use mega_core::promotion::{self, MachineSetting, Policy};
use mega_core::savings::Savings;
use mega_core::{Action, Gain, Machine, Observation, Outcome, ProcessId, RegionRef};
use mega_linux::process::claim::{Claim, ClaimError, Claims};
use mega_linux::process::not_eligible::NotEligible;
use mega_linux::settings::fault::{FaultControl, FaultMode};
use mega_linux::settings::ledger::Guard;
use mega_linux::settings::policies::PolicySettings;
use mega_linux::settings::run_dir::RunDir;
use mega_linux::settings::shared_memory::{self, SharedMemory};
use mega_linux::{Error, Host, LinuxMachine, MachineOptions, process};

use crate::config::{Config, Settings};
use crate::contiguity::Contiguity;
use crate::events::{Change, Followed, Who};
use crate::exit::Failure;
use crate::membership::{Membership, Scope};
use crate::recording::Tape;
use crate::refusals::Refusals;
use crate::report::Mode;
use crate::snapshot::{self, Fault, GroupSnapshot, Snapshot};
use crate::watch::Watch;
use crate::watchdog;

/// The time between two looks for processes, where an interval is `auto`.
const WATCH: RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_secs(5);
/// The share of a core that looking for processes may take, within these bounds.
const WATCHING_SHARE: f64 = 0.0005;

/// What came of a tick.
pub(crate) struct Tick {
    /// The time until the next one.
    pub(crate) pause: Duration,
    /// Whether a step was taken, so that a snapshot tells something new.
    pub(crate) has_news: bool,
    /// What changed in it, and before it since the last one.
    pub(crate) changes: Vec<Change>,
}

/// Manages groups of processes.
pub(crate) struct Manager {
    host: Arc<Host>,
    own: ProcessId,
    started: Duration,
    mode: Mode,
    membership: Membership,
    /// `None` where it only looks, and beside other megas too.
    claims: Option<Claims>,
    groups: Vec<Group>,
    /// When processes are looked for again though no step is due, where an interval is `auto`.
    watch_due: Duration,
    fault: Fault,
    /// Keeps the global THP mode changed where the configuration says `fault = "base"`.
    fault_control: FaultControl,
    /// Keeps `shmem_enabled` changed where the configuration says `shared_memory = "advise"`.
    shared_memory: Option<Guard>,
    /// `None` without the kernel module.
    contiguity: Option<Contiguity>,
    /// What the groups' policies want of the whole machine.
    policy_settings: PolicySettings,
    /// Processes that another mega manages. The user was told.
    held_elsewhere: BTreeSet<ProcessId>,
    /// Why processes could not be listed just now, if they could not.
    last_error: Option<String>,
    /// The processes that somebody looks closely at.
    watch: Watch,
    /// What changed since the last tick.
    changes: Vec<Change>,
}

impl Manager {
    /// Makes a manager that takes its first step at once. `started` is when this process started, by the kernel's clock:
    /// the CPU time it has used since counts. `fault` is what the caller did about page faults.
    ///
    /// # Errors
    /// Where this process cannot find itself in `/proc`, or the run directory cannot be used.
    pub(crate) fn new(
        host: Arc<Host>,
        mode: Mode,
        fault: Fault,
        started: Duration,
    ) -> Result<Self, Error> {
        let claims = Claims::open(&RunDir::open()?)?;
        Self::with_claims(host, mode, fault, started, Some(claims))
    }

    /// Makes a manager that only looks, at processes that another mega manages too. `host` refuses every write.
    ///
    /// # Errors
    /// As [`Manager::new`], but for the run directory, which it does not use.
    pub(crate) fn observer(
        host: Arc<Host>,
        mode: Mode,
        fault: Fault,
        started: Duration,
    ) -> Result<Self, Error> {
        Self::with_claims(host, mode, fault, started, None)
    }

    fn with_claims(
        host: Arc<Host>,
        mode: Mode,
        fault: Fault,
        started: Duration,
        claims: Option<Claims>,
    ) -> Result<Self, Error> {
        let own = process::stat(host.kernel().as_ref(), std::process::id())?.process();
        Ok(Manager {
            contiguity: Contiguity::open(&host),
            policy_settings: PolicySettings::default(),
            host,
            own,
            started,
            mode,
            membership: Membership::new(Scope::Descendants),
            claims,
            groups: Vec::new(),
            watch_due: Duration::ZERO,
            fault,
            fault_control: FaultControl::Nothing,
            shared_memory: None,
            held_elsewhere: BTreeSet::new(),
            last_error: None,
            watch: Watch::default(),
            changes: Vec::new(),
        })
    }

    /// Manages this process's descendants, as one group.
    ///
    /// # Errors
    /// Where there is no such policy, where it does not take the parameters, or where this machine lacks what it needs.
    pub(crate) fn manage_descendants(&mut self, settings: Settings) -> Result<(), Failure> {
        let policy = settings.build_policy()?;
        self.hold_policy_settings([&settings])?;
        let mut group = Group::new(&self.host, "run".to_owned(), settings, policy);
        group.keeps_ended = true;
        self.membership = Membership::new(Scope::Descendants);
        self.groups = vec![group];
        Ok(())
    }

    /// Records from now on what the first group sees and does.
    pub(crate) fn record(&mut self, tape: Tape) {
        if let Some(group) = self.groups.first_mut() {
            group.machine.tape = Some(tape);
        }
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// Where the rest of it cannot be written.
    pub(crate) fn finish_recording(&mut self) -> Result<(), Failure> {
        for group in &mut self.groups {
            let Some(tape) = group.machine.tape.take() else {
                continue;
            };
            let path = tape.path().to_owned();
            tape.finish().map_err(|error| {
                let path = path.display();
                Failure::Failed(format!("cannot end the recording in {path}: {error}"))
            })?;
        }
        Ok(())
    }

    /// Manages what this configuration selects. The tracker stays. A group whose name stays keeps what it knows, and its
    /// policy's memory unless policy or parameters change.
    ///
    /// # Errors
    /// As [`Manager::manage_descendants`], and where the THP mode cannot be changed. Nothing has changed then.
    pub(crate) fn manage_configured(&mut self, config: Config) -> Result<(), Failure> {
        let Config {
            fault,
            shared_memory,
            selects,
            ..
        } = config;
        let policies = selects
            .iter()
            .map(|select| select.settings.build_policy())
            .collect::<Result<Vec<_>, _>>()?;
        let fault_control = self.other_fault_control(fault)?;
        self.hold_policy_settings(selects.iter().map(|select| &select.settings))?;
        self.advise_shared_memory(shared_memory)?;
        // Nothing fails from here on.
        if let Some(control) = fault_control {
            self.fault_control = control;
        }
        self.fault = Fault {
            mode: fault,
            means: self.fault_control.means(),
        };
        let mut old: BTreeMap<String, Group> = std::mem::take(&mut self.groups)
            .into_iter()
            .map(|group| (group.name.clone(), group))
            .collect();
        let mut selections = Vec::new();
        for (select, policy) in selects.into_iter().zip(policies) {
            let group = match old.remove(&select.name) {
                Some(mut group) => {
                    group.change(select.settings, policy);
                    group
                }
                None => Group::new(&self.host, select.name, select.settings, policy),
            };
            self.groups.push(group);
            selections.push(select.selection);
        }
        for (name, mut group) in old {
            let nobody = BTreeSet::new();
            self.changes
                .extend(group.followed.update(&name, &nobody, |_| String::new()));
        }
        self.membership = Membership::new(Scope::Selections(selections));
        Ok(())
    }

    /// Prepares `mode`. `None` where it holds already.
    fn other_fault_control(&self, mode: FaultMode) -> Result<Option<FaultControl>, Error> {
        if mode == FaultMode::Base && matches!(self.fault_control, FaultControl::Global(_)) {
            return Ok(None);
        }
        if mode == FaultMode::Inherit || self.host.is_dry_run() {
            // Nothing is to be recorded, so no directory is needed for it.
            return Ok(Some(FaultControl::Nothing));
        }
        let run_dir = RunDir::open()?;
        FaultControl::prepare_for_all(self.host.kernel(), &run_dir, mode).map(Some)
    }

    /// Has the kernel place shared memory so that huge pages fit, or leaves that to what it was.
    fn advise_shared_memory(&mut self, wanted: SharedMemory) -> Result<(), Error> {
        if wanted == SharedMemory::Inherit || self.host.is_dry_run() {
            self.shared_memory = None;
        } else if self.shared_memory.is_none() {
            self.shared_memory = shared_memory::advise(self.host.kernel(), &RunDir::open()?)?;
        }
        Ok(())
    }

    /// Sets what these groups' policies want of the whole machine, and puts back what they no longer want.
    fn hold_policy_settings<'a>(
        &mut self,
        groups: impl IntoIterator<Item = &'a Settings>,
    ) -> Result<(), Error> {
        let wanted = match self.host.is_dry_run() {
            true => BTreeSet::new(),
            false => groups.into_iter().flat_map(machine_settings).collect(),
        };
        self.policy_settings.hold(self.host.kernel(), &wanted)
    }

    /// Looks for processes, and takes the steps that are due. What fails is told, and tried again at the next tick.
    pub(crate) fn tick(&mut self) -> Tick {
        let now = self.host.kernel().now();
        let is_due = |groups: &[Group]| groups.iter().any(|group| group.due <= now);
        if is_due(&self.groups) || self.watches_from().is_some_and(|due| due <= now) {
            let cpu_before = self.host.kernel().cpu_time();
            self.find_targets();
            let cost = self.host.kernel().cpu_time().saturating_sub(cpu_before);
            let pause = cost.div_f64(WATCHING_SHARE);
            self.watch_due = now + pause.clamp(*WATCH.start(), *WATCH.end());
        }
        let has_news = is_due(&self.groups);
        if has_news {
            let looked_at = self.watch.pids(now);
            for group in &mut self.groups {
                group.engine.look_closely_at(looked_at.clone());
            }
            self.step_groups(now);
            self.keep_ahead();
        }
        let now = self.host.kernel().now();
        let due = self.groups.iter().map(|group| group.due);
        let due = due.chain(self.watches_from()).min();
        Tick {
            pause: due.map_or(*WATCH.end(), |due| due.saturating_sub(now)),
            has_news,
            changes: std::mem::take(&mut self.changes),
        }
    }

    /// When processes are looked for though no step is due, if they are.
    fn watches_from(&self) -> Option<Duration> {
        let follows = self.groups.iter().any(Group::follows_programs);
        follows.then_some(self.watch_due)
    }

    fn step_groups(&mut self, now: Duration) {
        for index in 0..self.groups.len() {
            let cpu_before = self.host.kernel().cpu_time();
            let Some(group) = self.groups.get_mut(index).filter(|group| group.due <= now) else {
                continue;
            };
            self.changes.extend(group.step());
            // The other groups do not pay for this one.
            let used = self.host.kernel().cpu_time().saturating_sub(cpu_before);
            for (other, group) in self.groups.iter_mut().enumerate() {
                if other != index {
                    group.machine.elsewhere += used;
                }
            }
        }
    }

    /// Sees to the contiguity that the steps just taken lacked.
    fn keep_ahead(&mut self) {
        let mut unmet = Vec::new();
        for group in &mut self.groups {
            Unmet::merge(&mut unmet, std::mem::take(&mut group.unmet));
        }
        let Some(contiguity) = &mut self.contiguity else {
            return;
        };
        let now = self.host.kernel().now();
        if let Err(error) = contiguity.keep_ahead(&unmet, now) {
            let why = format!("{error}; going on without compaction");
            self.changes.push(Change::error(None, &why));
            self.contiguity = None;
        }
    }

    /// Gives every group the processes that are its own, as far as no other mega has them.
    fn find_targets(&mut self) {
        let wanted = self.update_members();
        let is_wanted = |process: &ProcessId| wanted.iter().any(|group| group.contains(process));
        self.held_elsewhere.retain(is_wanted);
        // First all that are given up: a process may move from one group to another.
        for (group, wanted) in self.groups.iter_mut().zip(&wanted) {
            group.claims.retain(|process, _| wanted.contains(process));
        }
        for (group, wanted) in self.groups.iter_mut().zip(&wanted) {
            for process in wanted {
                if let Err(error) = group.claim(self.claims.as_ref(), *process)
                    && self.held_elsewhere.insert(*process)
                {
                    let who = group.who(*process);
                    self.changes.push(Change::refused(who, &error.to_string()));
                }
            }
            let targets: BTreeSet<ProcessId> = group.claims.keys().copied().collect();
            self.changes.extend(group.follow(&targets));
            let targets = targets.into_iter().collect();
            group.machine.inner.set_targets(targets);
        }
    }

    /// The processes of each group, as they are now.
    fn update_members(&mut self) -> Vec<BTreeSet<ProcessId>> {
        let kernel = self.host.kernel().as_ref();
        let mut table = self.host.processes();
        let refreshed = table.refresh(kernel, self.membership.asks_for_resident());
        let members = self.membership.update(&table, self.own);
        drop(table);
        let error = refreshed
            .err()
            .map(|error| format!("{error}; going on with the processes known before"));
        if let Some(news) = error.as_ref().filter(|_| error != self.last_error) {
            self.changes.push(Change::error(None, news));
        }
        self.last_error = error;
        members
    }

    /// Where those who look closely at processes say so.
    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// What the manager has seen and done until now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            host: Arc::clone(&self.host),
            own: self.own,
            started: self.started,
            made: self.host.kernel().now(),
            mode: self.mode.clone(),
            fault: self.fault,
            groups: self.groups.iter().map(Group::snapshot).collect(),
            compaction: self.contiguity.as_ref().map(Contiguity::done),
            last_error: self.last_error.clone(),
        }
    }
}

/// What a group's policy wants of the whole machine.
fn machine_settings(settings: &Settings) -> impl Iterator<Item = MachineSetting> + use<> {
    let policy = promotion::registry()
        .iter()
        .find(|info| info.name == settings.policy);
    policy.into_iter().flat_map(|info| info.settings).copied()
}

/// Processes with the same settings.
struct Group {
    name: String,
    settings: Arc<Settings>,
    engine: Engine,
    machine: OwnShare,
    /// Its processes, each claimed unless the manager only looks.
    claims: BTreeMap<ProcessId, Option<Claim>>,
    /// When its next step is due.
    due: Duration,
    /// Its latest step.
    latest: Option<Arc<StepReport>>,
    /// What huge pages saved its processes.
    savings: Savings,
    /// Whether the last processes stay in the report after they have ended. `mega run` reports on them.
    keeps_ended: bool,
    /// Processes that the latest step could not observe.
    refusals: Refusals,
    /// What was told of its processes.
    followed: Followed,
    /// The longest time that mega held a process's mmap lock in one go, since the start.
    longest_hold: Duration,
    /// Why the latest step failed, if it did.
    last_error: Option<String>,
    /// The contiguity that its step lacked, until compaction has answered.
    unmet: Vec<Unmet>,
}

impl Group {
    fn new(host: &Arc<Host>, name: String, settings: Settings, policy: Box<dyn Policy>) -> Self {
        Group {
            name,
            engine: Engine::new(policy, settings.budgets, settings.interval),
            machine: OwnShare::new(host, &settings),
            settings: Arc::new(settings),
            claims: BTreeMap::new(),
            due: Duration::ZERO,
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
    fn change(&mut self, settings: Settings, policy: Box<dyn Policy>) {
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

    fn claim(&mut self, claims: Option<&Claims>, process: ProcessId) -> Result<(), ClaimError> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.claims.entry(process) {
            place.insert(claims.map(|claims| claims.take(process)).transpose()?);
            if self.follows_programs() {
                self.due = Duration::ZERO;
            }
        }
        Ok(())
    }

    /// Whether the time between its steps is as its programs ask for.
    fn follows_programs(&self) -> bool {
        self.settings.interval == Interval::Auto
    }

    /// The time until the next step where this one observed nothing.
    fn idle_interval(&self) -> Duration {
        match self.settings.interval {
            Interval::Auto => Interval::EQUAL,
            Interval::Fixed(interval) => interval,
        }
    }

    fn who(&self, process: ProcessId) -> Who {
        let name = snapshot::name(self.machine.inner.host(), process);
        Who::new(&self.name, process, name)
    }

    /// Takes note of its processes, as they are now. Returns who has come and who has left.
    fn follow(&mut self, processes: &BTreeSet<ProcessId>) -> Vec<Change> {
        let host = self.machine.inner.host();
        self.followed.update(&self.name, processes, |process| {
            snapshot::name(host, process)
        })
    }

    /// Takes a step. Returns what changed and was not told before.
    fn step(&mut self) -> Vec<Change> {
        self.due = self.machine.inner.now() + self.idle_interval();
        let error = self.take_step().err().map(|error| error.to_string());
        let unwritten = self.machine.write_tape();
        let news = error.clone().filter(|_| error != self.last_error);
        self.last_error = error;
        self.longest_hold = self.longest_hold.max(self.machine.inner.longest_hold());
        let refused = self.machine.inner.take_refused().into_iter();
        let host = self.machine.inner.host();
        let refused = self.refusals.renew(
            refused.map(|(process, error)| (process, error.to_string())),
            |process| snapshot::name(host, process),
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
        self.due = self.machine.inner.now() + report.next_interval;
        for departed in self.machine.inner.take_departed() {
            self.claims.remove(&departed);
        }
        self.unmet.clone_from(&report.unmet);
        let host = self.machine.inner.host();
        self.savings.step(&report.processes, |process| {
            snapshot::stat(host, process).map(|stat| stat.cpu_time())
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

    fn snapshot(&self) -> GroupSnapshot {
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
            left_alone: self.left_alone(),
            longest_hold: self.longest_hold,
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

fn machine_options(settings: &Settings) -> MachineOptions {
    MachineOptions {
        lock_bound: settings.lock_bound,
        ..MachineOptions::default()
    }
}

/// A machine that charges a group for its own CPU time only, and not for what other groups use.
struct OwnShare {
    inner: LinuxMachine,
    /// What it sees and does is written there.
    tape: Option<Tape>,
    /// CPU time of this process that other groups used.
    elsewhere: Duration,
}

impl OwnShare {
    fn new(host: &Arc<Host>, settings: &Settings) -> Self {
        let mut inner = LinuxMachine::new(Arc::clone(host), machine_options(settings));
        inner.set_chosen(settings.coverage_of.clone());
        OwnShare {
            inner,
            tape: None,
            elsewhere: Duration::ZERO,
        }
    }
}

impl OwnShare {
    /// Writes the step that was just taken. Returns why it could not, and writes no more then.
    fn write_tape(&mut self) -> Option<String> {
        let error = self.tape.as_mut()?.write(&self.inner).err()?;
        let tape = self.tape.take()?;
        let path = tape.path().display();
        Some(format!(
            "cannot write the recording to {path}: {error}; going on without it, what it holds can be used"
        ))
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
        let before = self.inner.cpu_time();
        let seen = self.inner.observe()?;
        if let Some(tape) = &mut self.tape {
            tape.saw(&seen, self.inner.cpu_time().saturating_sub(before));
        }
        Ok(seen)
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        let counted = self.inner.count_zero_filled(target);
        if let (Some(tape), Some(counted)) = (&mut self.tape, counted) {
            tape.counted(target, counted);
        }
        counted
    }

    fn measures(&self) -> bool {
        self.inner.measures()
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        self.inner.gain(process)
    }

    fn promotion_seconds(&self) -> Option<f64> {
        self.inner.promotion_seconds()
    }

    fn prepare(&mut self, promotions: usize) {
        self.inner.prepare(promotions);
    }

    fn rest(&mut self, time: Duration) {
        self.inner.rest(time);
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        watchdog::beat();
        let outcomes = self.inner.act(actions);
        if let Some(tape) = &mut self.tape {
            tape.did(actions, &outcomes);
        }
        outcomes
    }
}
