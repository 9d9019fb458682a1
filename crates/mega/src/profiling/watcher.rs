//! Looks at the program's processes, each when it is due.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use mega_core::ProcessId;
use mega_core::profile::LEAST_TOUCHED;
use mega_linux::process::claim::Claims;
use mega_linux::profile::{self, Store};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::FaultMode;
use mega_linux::{Error, Host, LinuxMachine, MachineOptions, process};

use super::subject::Subject;

/// Processes that are looked at at a time.
const MOST_SUBJECTS: usize = 32;
/// Between two searches for descendants: a part of the time that was looked on so far, within bounds. One goes through all processes.
const DESCENDANTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);
/// The same for children that main threads started, which takes a tenth of a millisecond: a program may fill its memory within a tenth
/// of a second.
const CHILDREN: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_secs(5);
const PART: u32 = 10;

/// The thread's own.
pub(super) struct Watcher {
    pub(super) host: Arc<Host>,
    pub(super) machine: LinuxMachine,
    pub(super) store: Store,
    claims: Claims,
    own: ProcessId,
    pub(super) faults: FaultMode,
    began: Duration,
    descendants_due: Duration,
    children_due: Duration,
    /// The refreshes of the process table until the last search.
    refreshes: u64,
    pub(super) subjects: BTreeMap<ProcessId, Subject>,
    /// Of processes that ended or started another program.
    pub(super) ended: Vec<(ProcessId, Subject)>,
    pub(super) notes: Vec<String>,
}

impl Watcher {
    pub(super) fn new(
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
            began: now,
            descendants_due: now + *DESCENDANTS.start(),
            children_due: now,
            refreshes: 0,
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
    pub(super) fn turn(&mut self) -> Duration {
        let now = self.host.kernel().now();
        let pause = now.saturating_sub(self.began) / PART;
        if now >= self.descendants_due {
            self.find_descendants();
            self.descendants_due = now + pause.clamp(*DESCENDANTS.start(), *DESCENDANTS.end());
        }
        if now >= self.children_due {
            self.find_children();
            self.children_due = now + pause.clamp(*CHILDREN.start(), *CHILDREN.end());
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
        let searches = [self.descendants_due, self.children_due];
        let next = dues.chain(searches).min();
        let now = self.host.kernel().now();
        next.unwrap_or(now).saturating_sub(now)
    }

    fn find_descendants(&mut self) {
        let kernel = self.host.kernel().as_ref();
        let mut table = self.host.processes();
        // The manager refreshes it at each of its observations: once is enough for both.
        if table.refreshes() == self.refreshes {
            // The manager tells where this fails.
            let _ = table.refresh(kernel, false);
        }
        self.refreshes = table.refreshes();
        let descendants = table.descendants(self.own);
        drop(table);
        self.take_on(descendants);
    }

    fn find_children(&mut self) {
        let found = process::children::descendants(self.host.kernel().as_ref(), self.own);
        self.take_on(found);
    }

    fn take_on(&mut self, found: BTreeSet<ProcessId>) {
        for process in found {
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
        let is_ours = !self.claims.is_held_by_another(process).unwrap_or(true);
        let subject = Subject::new(key, profile, is_ours, now);
        self.subjects.insert(process, subject);
    }

    /// Looks at one process, learns, makes memory ready, and says when it is looked at next.
    fn see(&mut self, process: ProcessId) {
        let Some(mut subject) = self.subjects.remove(&process) else {
            return;
        };
        let kernel = Arc::clone(self.host.kernel());
        let now = kernel.now();
        let resident = profile::resident(&self.host, process);
        if subject.can_wait(now, resident) {
            subject.schedule(kernel.now(), false);
            self.subjects.insert(process, subject);
            return;
        }
        let look = match profile::look(&self.host, process) {
            Ok(look) => look,
            // Gone; or not to be seen for now, or ever.
            Err(_) => return self.end(process, subject),
        };
        subject.looked(kernel.now().saturating_sub(now), resident);
        if subject.layout.is_empty() {
            // Since it was found it may have started the program that was looked at.
            match profile::program(kernel.as_ref(), process.pid) {
                Ok(Some(key)) if key == subject.key => subject.layout.clone_from(&look.layout),
                _ => return self.begin(process),
            }
        } else if subject.layout != look.layout {
            // It started another program.
            self.end(process, subject);
            return self.begin(process);
        }
        let acted = self.go_ahead(process, &mut subject, &look);
        if now >= subject.learning_due {
            self.learn_from(process, &mut subject, &look);
            subject.schedule_learning(now);
        }
        subject.schedule(kernel.now(), acted);
        self.subjects.insert(process, subject);
    }

    /// Keeps what was seen of a process that ended or started another program, if there is something to learn from.
    fn end(&mut self, process: ProcessId, subject: Subject) {
        if subject.learner.summary().resident >= LEAST_TOUCHED {
            self.ended.push((process, subject));
        }
    }
}
