//! Looks on while `mega run` runs a program, for its profile; and where the profile of last time says so, makes huge pages
//! ready ahead of the program.
//!
//! A thread of its own does so: a step of the manager may take long, and a program fills its memory within milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mega_core::profile::{
    Ahead, Key, LEAST_TOUCHED, Learner, MappingKind, MappingLook, Plan, Profile, RunSummary,
    Verdict,
};
use mega_core::{Action, ActionKind, Machine, Outcome, ProcessId, Region, RegionRef};
use mega_linux::kernel::Kernel;
use mega_linux::process::claim::Claims;
use mega_linux::profile::{self, Look, Store};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::FaultMode;
use mega_linux::settings::thp_mode::{self, ThpMode};
use mega_linux::{Error, Host, LinuxMachine, MachineOptions, process};

use crate::exit::Failure;
use crate::report::ProfileUse;

/// Between two looks at a program whose memory is to be made ready.
const SOON: Duration = Duration::from_millis(2);
/// Between two looks at another one at first. Later it is looked at after an eighth of its age.
const AT_FIRST: Duration = Duration::from_millis(50);
/// The longest time between two looks.
const AT_LAST: Duration = Duration::from_secs(5);
/// How long a program may take until it fills its memory, and is still awaited every [`SOON`].
const YOUNG: Duration = Duration::from_secs(5);
/// A look is followed by a pause of at least this many times its own length; while memory is made ready, [`WHILE_READYING`].
const SHARE: u32 = 50;
const WHILE_READYING: u32 = 10;
/// Processes that are looked at at a time.
const MOST_SUBJECTS: usize = 32;
/// The age at which memory is first looked into for zeros. Each later one is four times the one before.
const LOOK_INTO: Duration = Duration::from_secs(2);
/// Between two refreshes of the process table, for descendants.
const DESCENDANTS: Duration = Duration::from_millis(100);
/// How long making ready may take in one turn: the program must not get far ahead meanwhile.
const A_TURN: Duration = Duration::from_millis(15);
/// Regions made ready in one turn at most, and in the first; and promoted in one turn.
const AT_ONCE: u32 = 64;
const AT_ONCE_FIRST: u32 = 8;
const PROMOTED_AT_ONCE: usize = 16;
/// Memory that stays available on the machine, in parts of all of it, and in a cgroup with a limit.
const KEPT_AVAILABLE: u64 = 16;

/// What page faults of `command` should take by the profile of last time: what the machine's THP mode says, where that is
/// huge pages and they were right; base pages otherwise.
pub(crate) fn fault_mode(kernel: &dyn Kernel, store: &Store, command: &[OsString]) -> FaultMode {
    let wholly_right = || {
        let key = profile::program_of_command(kernel, command)?;
        let stored = store.read(&key.name).ok()??;
        Some(stored.profile.verdict_as_a_whole() == Verdict::Huge)
    };
    match thp_mode::read(kernel) {
        Ok(ThpMode::Always) if wholly_right() == Some(true) => FaultMode::Inherit,
        _ => FaultMode::Base,
    }
}

/// A thread that looks on.
pub(crate) struct Profiling {
    stop: Sender<()>,
    thread: JoinHandle<Watcher>,
}

impl Profiling {
    /// Begins to look at `program` and the other descendants of this process. Nothing is made ready where `faults` take
    /// huge pages anyway.
    pub(crate) fn start(
        host: Arc<Host>,
        store: Store,
        run_dir: &RunDir,
        program: u32,
        faults: FaultMode,
    ) -> Result<Self, Failure> {
        let watcher = Watcher::new(host, store, run_dir, program, faults)?;
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let mut watcher = watcher;
                loop {
                    let pause = watcher.turn();
                    match stopped.recv_timeout(pause) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => return watcher,
                    }
                }
            })
            .map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Profiling { stop, thread })
    }

    /// Ends it, learns, and keeps what was learnt. Returns what came of each program with a profile, and what went wrong.
    pub(crate) fn finish(self) -> (Vec<ProfileUse>, Vec<String>) {
        // A thread that has ended needs no word.
        let _ = self.stop.send(());
        match self.thread.join() {
            Ok(watcher) => watcher.learn(),
            Err(_) => {
                let line = "looking on stopped by an internal error, which is a bug";
                (Vec::new(), vec![line.to_owned()])
            }
        }
    }
}

struct Watcher {
    host: Arc<Host>,
    machine: LinuxMachine,
    store: Store,
    claims: Claims,
    own: ProcessId,
    faults: FaultMode,
    descendants_due: Duration,
    subjects: BTreeMap<ProcessId, Subject>,
    /// Of processes that ended or started another program.
    ended: Vec<Subject>,
    notes: Vec<String>,
}

/// One process that is looked at.
struct Subject {
    key: Key,
    /// What its program did last time.
    profile: Option<Profile>,
    learner: Learner,
    layout: Vec<u64>,
    began: Duration,
    due: Duration,
    learning_due: Duration,
    zeros_due: Duration,
    /// By the start of the mapping.
    followed: BTreeMap<u64, Followed>,
    is_ours: bool,
    /// What its memory was like when huge pages turned out wrong. Then they were given back, and it is base pages' again.
    found_wrong: Option<RunSummary>,
    done: Done,
}

/// A mapping that the program is followed through.
struct Followed {
    ahead: Ahead,
    /// What was made huge.
    made: BTreeSet<Region>,
    /// How many to make ready in the next turn.
    at_once: u32,
    /// Whether it may be made ready, once that was found out.
    may: Option<bool>,
}

#[derive(Clone, Copy, Default)]
struct Done {
    ready: u64,
    promoted: u64,
    given_back: u64,
}

impl Watcher {
    fn new(
        host: Arc<Host>,
        store: Store,
        run_dir: &RunDir,
        program: u32,
        faults: FaultMode,
    ) -> Result<Self, Error> {
        let kernel = host.kernel().as_ref();
        let own = process::stat(kernel, std::process::id())?.process();
        let now = kernel.now();
        let mut watcher = Watcher {
            machine: LinuxMachine::new(Arc::clone(&host), MachineOptions::default()),
            claims: Claims::open(run_dir)?,
            store,
            own,
            faults,
            descendants_due: now + DESCENDANTS,
            subjects: BTreeMap::new(),
            ended: Vec::new(),
            notes: Vec::new(),
            host,
        };
        // It may have ended already.
        if let Ok(stat) = process::stat(watcher.host.kernel().as_ref(), program) {
            watcher.begin(stat.process());
        }
        Ok(watcher)
    }

    /// Looks at every process that is due. Returns the time until the next one is.
    fn turn(&mut self) -> Duration {
        let now = self.host.kernel().now();
        if now >= self.descendants_due {
            self.find_descendants();
            self.descendants_due = now + DESCENDANTS;
        }
        let due: Vec<ProcessId> = self
            .subjects
            .iter()
            .filter(|(_, subject)| subject.due <= now)
            .map(|(process, _)| *process)
            .collect();
        for process in due {
            self.see(process);
        }
        let dues = self.subjects.values().map(|subject| subject.due);
        let next = dues.chain([self.descendants_due]).min();
        let now = self.host.kernel().now();
        next.unwrap_or(now).saturating_sub(now)
    }

    fn find_descendants(&mut self) {
        let kernel = self.host.kernel().as_ref();
        let mut table = self.host.processes();
        // The manager tells where this fails.
        let _ = table.refresh(kernel, false);
        let descendants = table.descendants(self.own);
        drop(table);
        for process in descendants {
            if self.subjects.len() == MOST_SUBJECTS {
                return;
            }
            if process != self.own && !self.subjects.contains_key(&process) {
                self.begin(process);
            }
        }
    }

    fn begin(&mut self, process: ProcessId) {
        let kernel = self.host.kernel().as_ref();
        let Ok(Some(key)) = profile::program(kernel, process.pid) else {
            return;
        };
        let profile = match self.store.read(&key.name) {
            Ok(stored) => stored.map(|stored| stored.profile),
            Err(error) => {
                self.notes.push(error.to_string());
                None
            }
        };
        let now = kernel.now();
        let subject = Subject {
            key,
            profile,
            learner: Learner::default(),
            layout: Vec::new(),
            began: now,
            due: now,
            learning_due: now,
            zeros_due: now + LOOK_INTO,
            followed: BTreeMap::new(),
            is_ours: !self.claims.is_held_by_another(process).unwrap_or(true),
            found_wrong: None,
            done: Done::default(),
        };
        self.subjects.insert(process, subject);
    }

    /// Looks at one process, learns, makes memory ready, and says when it is looked at next.
    fn see(&mut self, process: ProcessId) {
        let Some(mut subject) = self.subjects.remove(&process) else {
            return;
        };
        let kernel = Arc::clone(self.host.kernel());
        let now = kernel.now();
        let look = match profile::look(&self.host, process) {
            Ok(look) => look,
            // Gone; or not to be seen for now, or ever.
            Err(_) => return self.end(subject),
        };
        let took = kernel.now().saturating_sub(now);
        if subject.layout.is_empty() {
            // Since it was found it may have started the program that was looked at.
            match profile::program(kernel.as_ref(), process.pid) {
                Ok(Some(key)) if key == subject.key => subject.layout.clone_from(&look.layout),
                _ => return self.begin(process),
            }
        } else if subject.layout != look.layout {
            // It started another program.
            self.end(subject);
            return self.begin(process);
        }
        let acted = self.go_ahead(process, &mut subject, &look);
        if now >= subject.learning_due {
            self.learn_from(process, &mut subject, &look);
        }
        subject.schedule(now, kernel.now(), took, acted);
        self.subjects.insert(process, subject);
    }

    /// Keeps what was seen of a process that ended or started another program, if there is something to learn from.
    fn end(&mut self, subject: Subject) {
        if subject.learner.summary().resident >= LEAST_TOUCHED {
            self.ended.push(subject);
        }
    }

    fn learn_from(&mut self, process: ProcessId, subject: &mut Subject, look: &Look) {
        let now = self.host.kernel().now();
        let regions: Vec<Vec<_>> = look
            .mappings
            .iter()
            .map(|part| {
                let ahead = subject.followed.get(&part.range.start);
                // What it has not come to is not its memory yet.
                let its = part.regions.iter().filter(|seen| {
                    ahead.is_none_or(|followed| !followed.ahead.is_ready(seen.region))
                });
                its.copied().collect()
            })
            .collect();
        let looks = look.mappings.iter().zip(&regions);
        let looks: Vec<MappingLook<'_>> = looks
            .map(|(part, regions)| MappingLook {
                class: part.class,
                range: part.range.clone(),
                regions,
            })
            .collect();
        subject.learner.look(now, &looks);
        let age = now.saturating_sub(subject.began);
        subject.learning_due = now + (age / 8).clamp(AT_FIRST, AT_LAST);
        if now >= subject.zeros_due {
            subject.zeros_due = subject.began + age * 4;
            subject.learner.forget_zeros();
            for region in subject.learner.to_look_into() {
                let target = RegionRef { process, region };
                if let Some(zeros) = self.machine.count_zero_filled(target) {
                    subject.learner.looked_into(region, zeros);
                }
            }
            self.give_up_where_wrong(process, subject);
        }
    }

    /// Gives back what was made huge where the program turns out not to use it, and goes ahead no more.
    fn give_up_where_wrong(&mut self, process: ProcessId, subject: &mut Subject) {
        let summary = subject.learner.summary();
        let Some(mut profile) = subject.profile.clone() else {
            return;
        };
        if subject.followed.is_empty() || profile.learn(&summary).is_empty() {
            return;
        }
        let followed = std::mem::take(&mut subject.followed);
        let made = followed.into_values().flat_map(|one| one.made);
        let made: Vec<Region> = made.collect();
        let outcomes = self.act(process, ActionKind::Demote, &made);
        subject.done.given_back += count_done(&outcomes);
        subject.found_wrong = Some(summary);
    }

    fn act(&mut self, process: ProcessId, kind: ActionKind, regions: &[Region]) -> Vec<Outcome> {
        let actions: Vec<Action> = regions
            .iter()
            .map(|&region| Action {
                kind,
                target: RegionRef { process, region },
            })
            .collect();
        // Its mappings are read anew: they change all the time while it is young.
        self.machine.set_targets(Vec::new());
        self.machine.act(&actions)
    }

    /// Makes huge pages ready where the profile says so. Returns whether there was anything to do.
    fn go_ahead(&mut self, process: ProcessId, subject: &mut Subject, look: &Look) -> bool {
        let leave_alone = self.faults == FaultMode::Inherit || !subject.is_ours;
        if leave_alone || subject.found_wrong.is_some() {
            return false;
        }
        let Some(profile) = &subject.profile else {
            return false;
        };
        let there = |start: &u64| look.mappings.iter().any(|part| part.range.start == *start);
        subject.followed.retain(|start, _| there(start));
        let with_accesses = self.host.tracker_kind().knows_accesses();
        let now = self.host.kernel().now();
        let mut acted = false;
        for part in &look.mappings {
            if profile.verdict(part.class) != Verdict::Huge {
                continue;
            }
            let followed = subject.followed.entry(part.range.start);
            let followed = followed.or_insert_with(|| Followed {
                ahead: Ahead::new(profile.touched(part.class)),
                made: BTreeSet::new(),
                at_once: AT_ONCE_FIRST,
                may: None,
            });
            let private = part.class.kind != MappingKind::Shared;
            let may = private && with_accesses && followed.may != Some(false);
            let plan = followed.ahead.plan(now, &part.range, &part.regions, may);
            acted |= self.carry_out(process, followed, plan, &mut subject.done);
        }
        acted
    }

    fn carry_out(
        &mut self,
        process: ProcessId,
        followed: &mut Followed,
        mut plan: Plan,
        done: &mut Done,
    ) -> bool {
        if plan == Plan::default() {
            return false;
        }
        if !plan.ready.is_empty() && !self.has_memory(process) {
            plan.ready.clear();
        }
        plan.ready
            .truncate(usize::try_from(followed.at_once).unwrap_or(1));
        if let Some(first) = plan.ready.first()
            && *followed.may.get_or_insert_with(|| {
                profile::may_be_made_ready(&self.host, process, first.start())
            })
        {
            let began = self.host.kernel().now();
            let ready = profile::make_ready(&self.host, process, &plan.ready).unwrap_or_default();
            let took = self.host.kernel().now().saturating_sub(began);
            followed.at_once = fitting(A_TURN, plan.ready.len(), took);
            done.ready += ready.len() as u64;
            // What comes after the first one that was refused may not have been tried.
            let refused = plan.ready.iter().find(|region| !ready.contains(region));
            followed.ahead.refused(refused.copied());
            followed.made.extend(&ready);
            followed.ahead.made_ready(ready);
        }
        // What it has begun can wait, what it comes to next cannot.
        let most = if plan.ready.is_empty() {
            PROMOTED_AT_ONCE
        } else {
            0
        };
        plan.promote.truncate(most);
        let promoted = self.act(process, ActionKind::Promote, &plan.promote);
        for (region, outcome) in plan.promote.iter().zip(promoted) {
            match outcome {
                Outcome::Failed(_) => followed.ahead.refused([*region]),
                _ => {
                    followed.made.insert(*region);
                    done.promoted += 1;
                }
            }
        }
        let given_back = self.act(process, ActionKind::Demote, &plan.give_back);
        done.given_back += count_done(&given_back);
        true
    }

    /// Whether there is memory to make ready.
    fn has_memory(&self, process: ProcessId) -> bool {
        let available = profile::available(self.host.kernel().as_ref(), process);
        available.is_ok_and(|left| {
            left.iter()
                .all(|&(available, of)| available >= of / KEPT_AVAILABLE)
        })
    }

    /// Changes and keeps the profiles: of each program by the process that had the most memory.
    fn learn(self) -> (Vec<ProfileUse>, Vec<String>) {
        let Watcher {
            store,
            subjects,
            ended,
            mut notes,
            ..
        } = self;
        let mut largest: BTreeMap<String, (RunSummary, Subject)> = BTreeMap::new();
        for subject in subjects.into_values().chain(ended) {
            let latest = subject.learner.summary();
            let mut summary = subject.found_wrong.clone().unwrap_or(latest);
            summary.started_huge |= subject.done.ready + subject.done.promoted > 0;
            let name = &subject.key.name;
            let known = largest.get(name).map_or(0, |(known, _)| known.resident);
            if summary.resident > known && summary.resident >= LEAST_TOUCHED {
                largest.insert(name.clone(), (summary, subject));
            }
        }
        let mut reports = Vec::new();
        for (name, (summary, subject)) in largest {
            let Subject { key, done, .. } = subject;
            // Another run may have ended meanwhile.
            let stored = store.read(&name).ok().flatten();
            let mut profile = stored.map_or_else(|| Profile::new(key), |stored| stored.profile);
            let wrong = profile.learn(&summary);
            if let Err(error) = store.write(&profile) {
                notes.push(error.to_string());
                continue;
            }
            reports.push(ProfileUse {
                name,
                runs: profile.runs,
                made_ready: done.ready,
                promoted: done.promoted,
                given_back: done.given_back,
                wrong: wrong.iter().map(ToString::to_string).collect(),
                next_time_huge: profile
                    .huge_classes()
                    .map(|class| class.to_string())
                    .collect(),
            });
        }
        (reports, notes)
    }
}

/// How many regions fit into `turn` when `regions` took `took`: at most twice as many as were tried.
fn fitting(turn: Duration, regions: usize, took: Duration) -> u32 {
    let regions = u32::try_from(regions).unwrap_or(AT_ONCE).max(1);
    let each = (took / regions).max(Duration::from_micros(1));
    let fit = turn.as_micros() / each.as_micros();
    let most = (regions * 2).min(AT_ONCE);
    u32::try_from(fit).unwrap_or(most).clamp(1, most)
}

fn count_done(outcomes: &[Outcome]) -> u64 {
    let is_done = |outcome: &&Outcome| matches!(outcome, Outcome::Done { .. });
    outcomes.iter().filter(is_done).count() as u64
}

impl Subject {
    /// Sets when it is looked at next. This look took `took`.
    fn schedule(&mut self, looked: Duration, now: Duration, took: Duration, acted: bool) {
        let age = now.saturating_sub(self.began);
        let profile = self.profile.as_ref();
        let may_go_ahead = profile.is_some_and(|profile| profile.huge_classes().next().is_some());
        let moves = self.followed.values().any(|one| one.ahead.moves(now));
        self.due = if acted {
            now
        } else if may_go_ahead && (age < YOUNG || moves) {
            now + SOON.max(took * WHILE_READYING)
        } else if may_go_ahead {
            now + (age / 32).clamp(SOON, AT_LAST).max(took * SHARE)
        } else {
            looked + (age / 8).clamp(AT_FIRST, AT_LAST).max(took * SHARE)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_stays_short() {
        let ms = Duration::from_millis;
        assert_eq!(fitting(ms(15), 8, ms(8)), 15);
        assert_eq!(fitting(ms(15), 8, ms(1)), 16);
        assert_eq!(fitting(ms(15), 64, ms(2200)), 1);
        assert_eq!(fitting(ms(15), 64, Duration::ZERO), AT_ONCE);
        assert_eq!(fitting(ms(15), 0, ms(20)), 1);
    }
}
