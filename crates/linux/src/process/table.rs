//! The table of processes: who runs, what selects them, and who ran since last time.
//!
//! It is kept up to date by one pass over the kernel's tasks (`tasks/`). `/proc` is read only for a process that
//! is new, started another program, or changed its user or cgroup. So a refresh costs about a microsecond for each
//! process there is, and some sixty for each that changed. Where BPF cannot be used, each process costs one read of
//! `/proc/PID/stat`, and a change of user or cgroup is seen up to twelve refreshes late.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use mega_core::ProcessId;

use super::facts::{Facts, facts};
use super::stat::{Stat, stat};
use super::statm;
use super::tasks::{Task, Tasks};
use crate::Error;
use crate::kernel::Kernel;

/// Without BPF, refreshes until what selects a process is read anew.
const REREAD: u64 = 12;

/// One process of the table.
#[derive(Clone, Debug)]
pub struct Process {
    /// What selects it.
    pub facts: Facts,
    /// The refresh in which `facts` were last found to differ ([`Table::refreshes`]).
    pub changed_in: u64,
    parent: u32,
    seen: Seen,
}

impl Process {
    fn id(&self) -> ProcessId {
        self.facts.process
    }
}

/// How a process was seen last, to tell whether it changed.
#[derive(Clone, Debug)]
enum Seen {
    ByBpf(Task),
    ByProc {
        /// [`Stat::layout`]
        layout: Vec<u64>,
        /// The refresh in which the facts were read.
        read_in: u64,
    },
}

/// What tells whether a process may have touched its memory. Two that are equal but for `refresh` say that it did not
/// run in between, and so touched nothing and mapped nothing: at least as far as the scheduler has accounted it, which
/// is up to the last tick of a thread that runs just now. Others can still change a process's memory: reclaim,
/// khugepaged, a debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    memory: u64,
    runtime: u64,
    exec_id: u64,
    layout: u32,
    refresh: u64,
}

impl Activity {
    /// Whether the process did not run since `before`.
    #[must_use]
    pub fn is_idle_since(&self, before: &Activity) -> bool {
        // Within one refresh nothing was looked at twice.
        self.refresh > before.refresh
            && (self.memory, self.runtime, self.exec_id)
                == (before.memory, before.runtime, before.exec_id)
    }

    /// CPU time that all its threads have had since it started, as far as the scheduler has accounted it.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.runtime)
    }

    /// CPU time that it had since `before`, as far as the scheduler has accounted it. `None` where the table was not refreshed since, or
    /// another program runs.
    #[must_use]
    pub fn ran_since(&self, before: &Activity) -> Option<Duration> {
        let same = self.refresh > before.refresh && self.exec_id == before.exec_id;
        same.then(|| Duration::from_nanos(self.runtime.saturating_sub(before.runtime)))
    }

    /// Whether every mapping is as it was at `before`. False where the kernel cannot tell (before 6.4).
    #[must_use]
    pub fn has_layout_of(&self, before: &Activity) -> bool {
        self.layout != 0
            && (self.memory, self.exec_id, self.layout)
                == (before.memory, before.exec_id, before.layout)
    }
}

/// Every process that runs.
#[derive(Default)]
pub struct Table {
    source: Source,
    /// By pid.
    processes: Vec<Process>,
    refreshes: u64,
}

#[derive(Default)]
enum Source {
    #[default]
    Unknown,
    Bpf(Tasks),
    Proc,
}

impl Table {
    /// A table kept up to date from `/proc` alone.
    #[must_use]
    pub fn by_proc() -> Self {
        Table {
            source: Source::Proc,
            ..Table::default()
        }
    }

    /// Whether it is kept up to date by BPF. Known after the first refresh.
    #[must_use]
    pub fn is_by_bpf(&self) -> bool {
        matches!(self.source, Source::Bpf(_))
    }

    /// How often it was refreshed.
    #[must_use]
    pub fn refreshes(&self) -> u64 {
        self.refreshes
    }

    /// All processes, by pid. Kernel threads and those that have exited are not among them.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// What selects a process. `None` where it is not in the table.
    #[must_use]
    pub fn facts(&self, process: ProcessId) -> Option<&Facts> {
        let known = self.find(process.pid)?;
        (known.id() == process).then_some(&known.facts)
    }

    /// What tells whether a process ran. `None` where it is not known: no such process, or no BPF.
    #[must_use]
    pub fn activity(&self, process: ProcessId) -> Option<Activity> {
        match self.find(process.pid)? {
            Process {
                seen: Seen::ByBpf(task),
                ..
            } if task.process == process => Some(Activity {
                memory: task.memory,
                runtime: task.runtime,
                exec_id: task.exec_id,
                layout: task.layout,
                refresh: self.refreshes,
            }),
            _ => None,
        }
    }

    /// `root` and all that descend from it, by pid. A descendant whose parent has exited is found only where it was
    /// re-parented to one that is found: to `root`'s own manager if that is a subreaper and `root` here.
    #[must_use]
    pub fn descendants(&self, root: ProcessId) -> BTreeSet<ProcessId> {
        let mut found = BTreeSet::new();
        let Some(root) = self.find(root.pid).filter(|known| known.id() == root) else {
            return found;
        };
        let mut children: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
        for process in &self.processes {
            children.entry(process.parent).or_default().push(process);
        }
        let mut waiting = vec![root];
        while let Some(process) = waiting.pop() {
            // The list is not made at one moment, so a cycle through a pid used again is conceivable.
            if found.insert(process.id()) {
                let pid = process.facts.process.pid;
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        found
    }

    /// Brings the table up to date. With `watch_resident`, also what is resident of those that ran.
    ///
    /// # Errors
    /// [`Error::Io`] where processes cannot be listed, and where some could not be read though they run (no file can be
    /// opened, no memory). The table then holds what was known before and what could be read.
    pub fn refresh(&mut self, kernel: &dyn Kernel, watch_resident: bool) -> Result<(), Error> {
        if matches!(self.source, Source::Unknown) {
            self.source = Tasks::open(kernel).map_or(Source::Proc, Source::Bpf);
        }
        let listed = match &mut self.source {
            Source::Bpf(tasks) => Listed::by_bpf(tasks)?,
            Source::Unknown | Source::Proc => Listed::by_proc(kernel)?,
        };
        self.refreshes += 1;
        let mut update = Update {
            kernel,
            watch_resident,
            refresh: self.refreshes,
            failure: None,
        };
        let before = std::mem::take(&mut self.processes);
        self.processes = update.merge(before, listed);
        update.failure.map_or(Ok(()), Err)
    }

    fn find(&self, pid: u32) -> Option<&Process> {
        let at = self
            .processes
            .binary_search_by_key(&pid, |process| process.id().pid)
            .ok()?;
        self.processes.get(at)
    }
}

/// The processes that one pass found, by pid.
enum Listed {
    Tasks(Vec<Task>),
    Stats(Vec<Stat>),
}

impl Listed {
    fn by_bpf(tasks: &mut Tasks) -> Result<Self, Error> {
        let mut list = tasks.list().map_err(|source| Error::Io {
            attempt: "list processes by the BPF task iterator".to_owned(),
            source,
        })?;
        list.sort_by_key(|task| task.process);
        list.dedup_by_key(|task| task.process.pid);
        Ok(Listed::Tasks(list))
    }

    fn by_proc(kernel: &dyn Kernel) -> Result<Self, Error> {
        let proc = Path::new("/proc");
        let names = kernel.list(proc).map_err(Error::io("list", proc))?;
        let mut pids: Vec<u32> = names
            .iter()
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        pids.sort_unstable();
        let mut stats = Vec::with_capacity(pids.len());
        for pid in pids {
            match stat(kernel, pid) {
                Ok(stat) if stat.is_kernel_thread() || stat.has_exited() => {}
                Ok(stat) => stats.push(stat),
                // Out of files or memory: the next would fail as well.
                Err(error @ Error::Io { .. }) => return Err(error),
                // One that exits meanwhile is simply not in it.
                Err(_) => {}
            }
        }
        Ok(Listed::Stats(stats))
    }
}

/// One refresh under way.
struct Update<'a> {
    kernel: &'a dyn Kernel,
    watch_resident: bool,
    refresh: u64,
    /// The first process that could not be read though it runs.
    failure: Option<Error>,
}

impl Update<'_> {
    fn merge(&mut self, before: Vec<Process>, listed: Listed) -> Vec<Process> {
        let mut before = before.into_iter().peekable();
        let mut known = |id: ProcessId| {
            while before.next_if(|old| old.id().pid < id.pid).is_some() {}
            before.next_if(|old| old.id() == id)
        };
        match listed {
            Listed::Tasks(tasks) => tasks
                .into_iter()
                .filter_map(|task| self.by_task(known(task.process), task))
                .collect(),
            Listed::Stats(stats) => stats
                .into_iter()
                .filter_map(|stat| self.by_stat(known(stat.process()), &stat))
                .collect(),
        }
    }

    fn by_task(&mut self, known: Option<Process>, task: Task) -> Option<Process> {
        let seen = Seen::ByBpf(task);
        let old = match known.as_ref().map(|known| &known.seen) {
            Some(Seen::ByBpf(old)) => *old,
            _ => return self.read(known, task.process, task.parent, seen),
        };
        if (old.exec_id, old.cgroup, old.uid) != (task.exec_id, task.cgroup, task.uid) {
            return self.read(known, task.process, task.parent, seen);
        }
        let mut process = known?;
        if self.watch_resident && (old.memory, old.runtime) != (task.memory, task.runtime) {
            self.update_resident(&mut process);
        }
        process.parent = task.parent;
        process.seen = seen;
        Some(process)
    }

    fn by_stat(&mut self, known: Option<Process>, stat: &Stat) -> Option<Process> {
        let seen = |read_in| Seen::ByProc {
            layout: stat.layout.clone(),
            read_in,
        };
        match known {
            Some(Process {
                seen: Seen::ByProc { layout, read_in },
                mut facts,
                changed_in,
                ..
            }) if layout == stat.layout && self.refresh < read_in + REREAD => {
                let grew = std::mem::replace(&mut facts.resident, stat.resident) != stat.resident;
                Some(Process {
                    facts,
                    changed_in: if grew { self.refresh } else { changed_in },
                    parent: stat.parent,
                    seen: seen(read_in),
                })
            }
            known => self.read(known, stat.process(), stat.parent, seen(self.refresh)),
        }
    }

    /// Reads the facts of a process, `known` before or not. Where they cannot be read it stays as it was known, and is
    /// read again next time.
    fn read(
        &mut self,
        known: Option<Process>,
        process: ProcessId,
        parent: u32,
        seen: Seen,
    ) -> Option<Process> {
        match facts(self.kernel, process.pid) {
            Ok(facts) if facts.process == process => {
                let same = known.filter(|known| known.facts == facts);
                Some(Process {
                    changed_in: same.map_or(self.refresh, |known| known.changed_in),
                    facts,
                    parent,
                    seen,
                })
            }
            Err(error @ Error::Io { .. }) => {
                self.failure.get_or_insert(error);
                known
            }
            // Its pid is another's by now, or it may not be looked at.
            Ok(_) | Err(_) => None,
        }
    }

    fn update_resident(&mut self, process: &mut Process) {
        match statm::resident(self.kernel, process.id().pid).map(|resident| resident.all) {
            Some(resident) if resident != process.facts.resident => {
                process.facts.resident = resident;
                process.changed_in = self.refresh;
            }
            // Gone, or not readable now: it stays as it was.
            _ => {}
        }
    }
}
