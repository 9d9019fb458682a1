//! Manages groups of processes: finds them, claims them, and takes a step of each group's engine when it is due.
//! `mega run` has one group; the daemon has one for each selection.

mod group;
mod own_share;

pub(crate) mod closeup;
pub(crate) mod contiguity;
pub(crate) mod membership;
pub(crate) mod refusals;
pub(crate) mod snapshot;
pub(crate) mod watch;
pub(crate) mod watchdog;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use mega_core::ProcessId;
use mega_core::compaction::Emptied;
use mega_core::engine::Unmet;
use mega_core::promotion::{self, MachineSetting};
use mega_linux::process::claim::Claims;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::{FaultControl, FaultMode};
use mega_linux::settings::ledger::Guard;
use mega_linux::settings::policies::PolicySettings;
use mega_linux::settings::shared_memory::{self, SharedMemory};
use mega_linux::{Error, Host, process};

use crate::config::{Config, Record, Settings};
use crate::events::Change;
use crate::exit::Failure;
use crate::recording::{Folder, Tape};
use crate::report::Mode;
use contiguity::Contiguity;
use group::Group;
use membership::{Membership, Scope};
use snapshot::{Fault, Snapshot};
use watch::Watch;

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
    /// Where a daemon records them, if it does.
    recordings: Option<Folder>,
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
            recordings: None,
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

    /// Records each group from now on where the configuration says so, and nowhere else. What does not work is told.
    fn record_into(&mut self, record: Option<Record>) {
        let goes_on = match (&self.recordings, &record) {
            (Some(folder), Some(record)) => folder.is(record),
            _ => false,
        };
        if !goes_on {
            for group in &mut self.groups {
                self.changes.extend(group.finish_recording());
            }
            self.recordings = record.map(|record| Folder::new(record, &self.host));
        }
        let Some(folder) = &self.recordings else {
            return;
        };
        for group in &mut self.groups {
            self.changes
                .extend(group.begin_recording(&self.host, folder));
        }
    }

    /// Ends the recordings, if there are any. Returns what did not work.
    pub(crate) fn finish_recordings(&mut self) -> Vec<Change> {
        let groups = self.groups.iter_mut();
        groups.filter_map(Group::finish_recording).collect()
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
            record,
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
                    // A recording is of one policy.
                    if !select.settings.decides_as(&group.settings) {
                        self.changes.extend(group.finish_recording());
                    }
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
            self.changes.extend(group.finish_recording());
        }
        self.record_into(record);
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
            let emptied = self.keep_ahead();
            self.write_recordings(&emptied);
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
            self.at_cost_of(index, |group| match group.steps_with_others(now) {
                true => group.step(),
                false => Vec::new(),
            });
        }
    }

    /// Has one group do something, which the others do not pay for. What changed by it is told.
    fn at_cost_of<T: IntoIterator<Item = Change>>(
        &mut self,
        index: usize,
        what: impl FnOnce(&mut Group) -> T,
    ) {
        let cpu_before = self.host.kernel().cpu_time();
        self.changes
            .extend(self.groups.get_mut(index).map(what).into_iter().flatten());
        let used = self.host.kernel().cpu_time().saturating_sub(cpu_before);
        for (other, group) in self.groups.iter_mut().enumerate() {
            if other != index {
                group.machine.elsewhere += used;
            }
        }
    }

    /// Sees to the contiguity that the steps just taken lacked. Returns what was emptied.
    fn keep_ahead(&mut self) -> Vec<Emptied> {
        let mut unmet = Vec::new();
        for group in &self.groups {
            Unmet::merge(&mut unmet, group.unmet.clone());
        }
        let Some(contiguity) = &mut self.contiguity else {
            return Vec::new();
        };
        let now = self.host.kernel().now();
        contiguity.keep_ahead(&unmet, now).unwrap_or_else(|error| {
            let why = format!("{error}; going on without compaction");
            self.changes.push(Change::error(None, &why));
            self.contiguity = None;
            Vec::new()
        })
    }

    /// Writes the steps just taken to the recordings of their groups, with what was emptied for them.
    fn write_recordings(&mut self, emptied: &[Emptied]) {
        for index in 0..self.groups.len() {
            self.at_cost_of(index, |group| group.write_recording(emptied));
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
            process_lists: self.host.processes().refreshes(),
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
