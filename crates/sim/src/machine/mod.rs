//! The simulated machine: the kernel and its programs in simulated time, behind the traits that the live machine has.
//!
//! Time is counted in cycles. Each program has a CPU of its own and goes on while the manager works, but for the time in which
//! what the manager does to it makes it stand still. The manager, too, has a CPU. The machine runs the programs up to its own
//! time whenever somebody looks or acts, the one that is behind most first.

mod meter;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use mega_core::compaction::{Compactor, Emptied, PhysicalObservation, ToEmpty};
use mega_core::gain::Gain;
use mega_core::worth::{Calibration, Effort, predict};
use mega_core::{
    Action, ActionKind, Cause, Glance, Machine, Observation, Outcome, ProcessId,
    ProcessObservation, RegionRef,
};

use crate::kernel::{Fault, Kernel, Khugepaged, MOST_SHARED, Pid};
use crate::program::{Child, Memory, Program, Work};
use crate::translation::{Counts, Mmu, Processor, Walk, calibrate};

/// Cores of a processor that programs run on; what is started beyond that shares one with an earlier program. Each keeps what a
/// core caches, some megabytes.
const CORES: usize = 64;
/// Bits of a program's addresses. Above them stands which of the programs of its core it is, as a PCID tells them apart.
const ADDRESS_BITS: u32 = 48;

/// Where a program runs.
#[derive(Clone, Copy)]
struct Place {
    core: usize,
    /// What its addresses get, so that those of two programs on a core differ.
    tag: u64,
}

/// A program at work, or done.
struct Running {
    pid: Pid,
    program: Box<dyn Program>,
    /// Up to when it has worked, in cycles.
    time: u64,
    /// The core that it runs on.
    core: Option<Place>,
    /// Cycles that it worked, faults included.
    used: u64,
    /// Cycles that it stood still for promotions.
    stood: u64,
    /// How many touches each of its touches stands for, while the touch meter does not look.
    stands_for: u64,
    ended: Option<Ended>,
}

/// How a program ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// By the machine's clock.
    pub at: Duration,
    /// Why the kernel ended it; `None` where it did all it had to.
    pub fault: Option<Fault>,
}

/// The machine.
pub struct SimulatedMachine {
    kernel: Kernel,
    programs: Vec<Running>,
    /// Where each process has its program.
    places: BTreeMap<Pid, usize>,
    /// The programs at work: up to when each has worked, and its place. The first is behind most.
    at_work: BTreeSet<(u64, usize)>,
    /// khugepaged, and when it runs next.
    khugepaged: Option<(Khugepaged, u64)>,
    cpus: u32,
    processor: Option<(Processor, Walk)>,
    cores: Vec<Mmu>,
    /// The first core of the present processor, and the programs that were started on its cores.
    first_core: usize,
    on_cores: usize,
    calibration: Option<Calibration>,
    now: u64,
    /// Cycles that the manager used.
    manager: u64,
    observed: Option<u64>,
    /// The processes that were observed then, and how long each had worked.
    looked_at: Vec<(ProcessId, Duration)>,
    /// Processes that were looked at before.
    known: BTreeSet<Pid>,
    unmanaged: BTreeSet<Pid>,
    /// The process that the touch meter looks at.
    watched: Option<Pid>,
}

impl SimulatedMachine {
    /// A machine with `cpus` CPUs and no program.
    #[must_use]
    pub fn new(kernel: Kernel, cpus: u32) -> Self {
        SimulatedMachine {
            kernel,
            programs: Vec::new(),
            places: BTreeMap::new(),
            at_work: BTreeSet::new(),
            khugepaged: None,
            cpus,
            processor: None,
            cores: Vec::new(),
            first_core: 0,
            on_cores: 0,
            calibration: None,
            now: 0,
            manager: 0,
            observed: None,
            looked_at: Vec::new(),
            known: BTreeSet::new(),
            unmanaged: BTreeSet::new(),
            watched: None,
        }
    }

    /// Has another number of CPUs from now on. Each program has one of its own in any case; beyond that they are idle.
    pub fn set_cpus(&mut self, cpus: u32) {
        self.cpus = cpus;
    }

    /// Lets khugepaged run from now on.
    pub fn start_khugepaged(&mut self, khugepaged: Khugepaged) {
        let first = self.now + self.cycles(khugepaged.settings().sleep);
        self.khugepaged = Some((khugepaged, first));
    }

    /// Gives the programs that are started from now on cores of a processor, so that their touches take time. The machine's clock
    /// counts that processor's cycles: the kernel's costs must be in them ([`crate::Costs::of`]).
    pub fn set_processor(&mut self, processor: Processor, walk: Walk) {
        debug_assert_eq!(processor.hertz, self.kernel.costs().hertz);
        self.processor = Some((processor, walk));
        self.first_core = self.cores.len();
        self.on_cores = 0;
    }

    /// A core for the next program.
    fn next_core(&mut self) -> Option<Place> {
        let (processor, walk) = self.processor?;
        let core = self.first_core + self.on_cores % CORES;
        if core == self.cores.len() {
            self.cores.push(Mmu::new(&processor, walk));
        }
        let tag = ((self.on_cores / CORES) as u64) << ADDRESS_BITS;
        self.on_cores += 1;
        Some(Place { core, tag })
    }

    /// Measures what a touch costs on the processor, as `mega doctor --calibrate` does on a live machine: from now on the machine
    /// can say what a process would gain from huge pages. Takes no simulated time. Nothing where there is no processor.
    pub fn calibrate(&mut self) {
        let memory = self.kernel.memory().frames() * mega_core::BASE_PAGE_SIZE;
        let costs = self.kernel.costs();
        self.calibration = self
            .processor
            .map(|(processor, walk)| calibrate(&processor, walk, costs, memory));
    }

    /// What a touch costs, as it was measured.
    #[must_use]
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// What the core of a program has counted, if it has one: of the first 64 programs, their own touches alone.
    #[must_use]
    pub fn counts(&self, pid: Pid) -> Option<Counts> {
        let place = self.running(pid)?.core?;
        Some(self.cores[place.core].counts())
    }

    /// What all cores have counted, of all programs together.
    #[must_use]
    pub fn all_counts(&self) -> Counts {
        let counts = self.cores.iter().map(Mmu::counts);
        counts.fold(Counts::default(), |sum, one| sum.plus(&one))
    }

    /// Starts a program on a node.
    pub fn start(&mut self, program: Box<dyn Program>, node: u32) -> Pid {
        let pid = self.kernel.spawn(node);
        self.set_to_work(pid, program, self.now);
        pid
    }

    /// Has a process run a program from a time on.
    fn set_to_work(&mut self, pid: Pid, program: Box<dyn Program>, time: u64) {
        let place = self.programs.len();
        let core = self.next_core();
        self.places.insert(pid, place);
        self.at_work.insert((time, place));
        self.programs.push(Running {
            pid,
            program,
            time,
            core,
            used: 0,
            stood: 0,
            stands_for: 1,
            ended: None,
        });
    }

    /// Leaves a process out of what the manager sees.
    pub fn leave_unmanaged(&mut self, pid: Pid) {
        self.unmanaged.insert(pid);
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The kernel, to change: as a program or an administrator that is not simulated would.
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// How the program of a process ended, if it did.
    #[must_use]
    pub fn ended(&self, pid: Pid) -> Option<Ended> {
        self.running(pid)?.ended
    }

    /// How long a program has worked, page faults included.
    #[must_use]
    pub fn worked(&self, pid: Pid) -> Duration {
        let used = self.running(pid).map_or(0, |running| running.used);
        self.kernel.costs().time(used)
    }

    /// How long a program has stood still for promotions.
    #[must_use]
    pub fn stood_still(&self, pid: Pid) -> Duration {
        let stood = self.running(pid).map_or(0, |running| running.stood);
        self.kernel.costs().time(stood)
    }

    fn running(&self, pid: Pid) -> Option<&Running> {
        self.programs.get(*self.places.get(&pid)?)
    }

    /// Whether a program is still at work.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.at_work.is_empty()
    }

    fn cycles(&self, time: Duration) -> u64 {
        self.kernel.costs().cycles(time)
    }

    /// Lets the manager work for `cycles`.
    fn spend(&mut self, cycles: u64) {
        self.now += cycles;
        self.manager += cycles;
    }

    /// Brings the programs and khugepaged up to the machine's time.
    fn catch_up(&mut self) {
        loop {
            let behind = self.at_work.first().copied();
            let behind = behind.filter(|(time, _)| *time < self.now);
            let daemon = self.khugepaged.as_ref().map(|(_, next)| *next);
            match (behind, daemon.filter(|next| *next < self.now)) {
                (Some((time, place)), daemon) if daemon.is_none_or(|next| time <= next) => {
                    self.run(place);
                }
                (_, Some(next)) => self.run_khugepaged(next),
                (_, None) => break,
            }
        }
        self.kernel.set_time(self.kernel.costs().time(self.now));
    }

    fn run(&mut self, place: usize) {
        let costs = *self.kernel.costs();
        let running = &mut self.programs[place];
        self.at_work.remove(&(running.time, place));
        self.kernel.set_time(costs.time(running.time));
        let mut memory = Memory {
            kernel: &mut self.kernel,
            pid: running.pid,
            core: running
                .core
                .map(|place| (&mut self.cores[place.core], place.tag)),
            began: running.time,
            spent: 0,
            repeatable: 0,
            stands_for: running.stands_for,
            is_watched: self.watched == Some(running.pid),
            children: Vec::new(),
        };
        let result = running.program.work(&mut memory);
        let children = std::mem::take(&mut memory.children);
        running.stands_for = memory.stands_for;
        // Whatever a program does takes a cycle at least, so that time goes on.
        running.time += memory.spent.max(1);
        running.used += memory.spent;
        if let Ok(Work::Rests(time)) = result {
            running.time += costs.cycles(time);
        }
        let (fault, exits) = match result {
            Ok(Work::GoesOn | Work::Rests(_)) => {
                self.at_work.insert((running.time, place));
                return self.start_children(children);
            }
            Ok(Work::Finished) => (None, false),
            Ok(Work::Exits) => (None, true),
            Err(fault) => (Some(fault), true),
        };
        if exits {
            let took = self.kernel.exit(running.pid);
            running.time += took;
            running.used += took;
        }
        let at = costs.time(running.time);
        running.ended = Some(Ended { at, fault });
        self.start_children(children);
    }

    fn start_children(&mut self, children: Vec<Child>) {
        for child in children {
            self.set_to_work(child.pid, child.program, child.born);
        }
    }

    fn run_khugepaged(&mut self, at: u64) {
        let Some((mut khugepaged, _)) = self.khugepaged.take() else {
            return;
        };
        let mut stalled = Vec::new();
        let took = khugepaged.round(&mut self.kernel, &mut |pid, cycles| {
            stalled.push((pid, cycles))
        });
        for (pid, cycles) in stalled {
            self.stand_still(pid, at, cycles);
        }
        let next = at + took + self.cycles(khugepaged.settings().sleep);
        self.khugepaged = Some((khugepaged, next));
    }

    /// A process stands still from a time on.
    fn stand_still(&mut self, pid: Pid, from: u64, cycles: u64) {
        let Some(&place) = self.places.get(&pid) else {
            return;
        };
        let running = &mut self.programs[place];
        if self.at_work.remove(&(running.time, place)) {
            running.time = running.time.max(from) + cycles;
            running.stood += cycles;
            self.at_work.insert((running.time, place));
        }
    }

    fn perform(&mut self, action: &Action) -> Outcome {
        self.catch_up();
        let Some(pid) = self.managed(action.target.process) else {
            return Outcome::Failed(Cause::Gone);
        };
        let region = action.target.region;
        let kernel = &mut self.kernel;
        let (outcome, cycles) = match action.kind {
            // What the live machine refuses, too: it would copy what a child that saves its parent's data maps anyway.
            ActionKind::Promote if kernel.shared_pages(pid, region) > MOST_SHARED => {
                (Outcome::Failed(Cause::Busy), 0)
            }
            ActionKind::Promote => kernel.promote(pid, region),
            ActionKind::Demote => kernel.demote(pid, region),
            ActionKind::PromoteGiant => kernel.promote_giant(pid, region),
            ActionKind::DemoteGiant => kernel.demote_giant(pid, region),
            ActionKind::FreeZero => kernel.free_zero(pid, region),
        };
        self.stand_still(pid, self.now, cycles);
        self.spend(cycles);
        outcome
    }

    fn managed(&self, process: ProcessId) -> Option<Pid> {
        let pid = self.kernel.find(process)?;
        (!self.unmanaged.contains(&pid)).then_some(pid)
    }

    /// What a process accessed since it was observed, when it had worked for so long. `None` where it is gone.
    fn glance_at(&mut self, process: ProcessId, worked: Duration) -> Option<Glance> {
        let pid = self.managed(process)?;
        let (regions, cycles) = self.kernel.peek(pid);
        self.spend(cycles);
        let since = self.observed.unwrap_or(self.now);
        Some(Glance {
            process,
            length: self.kernel.costs().time(self.now - since),
            worked: Some(self.worked(pid).saturating_sub(worked)),
            regions,
        })
    }

    fn observe_process(&mut self, pid: Pid) -> ProcessObservation {
        let (regions, cycles) = self.kernel.look(pid);
        self.spend(cycles);
        let process = self.kernel.process(pid);
        let worked = self.worked(pid);
        self.looked_at.push((process.id, worked));
        ProcessObservation {
            process: process.id,
            cpu_time: Some(worked),
            regions,
            accesses_known: !self.known.insert(pid),
            node: Some(process.node),
            cgroup: None,
        }
    }
}

impl Machine for SimulatedMachine {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.kernel.costs().time(self.now)
    }

    fn cpu_time(&self) -> Duration {
        self.kernel.costs().time(self.manager)
    }

    fn observe(&mut self) -> Result<Observation, Infallible> {
        self.catch_up();
        let before = self.observed.replace(self.now).unwrap_or(self.now);
        let interval = self.kernel.costs().time(self.now - before);
        let living = self
            .kernel
            .processes()
            .filter(|(_, process)| process.is_alive());
        let managed: Vec<Pid> = living
            .map(|(pid, _)| pid)
            .filter(|pid| !self.unmanaged.contains(pid))
            .collect();
        self.looked_at.clear();
        let processes = managed
            .into_iter()
            .map(|pid| self.observe_process(pid))
            .collect();
        let busy = u32::try_from(self.at_work.len()).unwrap_or(u32::MAX);
        let settings = self.kernel.settings();
        Ok(Observation {
            interval,
            processes,
            memory: self.kernel.look_at_memory(),
            idle_cpus: Some(self.cpus.saturating_sub(busy).into()),
            giant_pages: settings.giant_pages,
            free_zero: settings.giant_pages,
            counted: BTreeMap::new(),
            glances: Vec::new(),
        })
    }

    /// Not where one touch stands for others: in a moment they set so few of the bits that it says nothing.
    fn can_glance(&self) -> bool {
        let at_work = self.at_work.iter();
        at_work
            .map(|(_, place)| &self.programs[*place])
            .all(|running| running.stands_for == 1)
    }

    fn glance(&mut self) -> Vec<Glance> {
        self.catch_up();
        let looked_at = std::mem::take(&mut self.looked_at);
        let glances = looked_at.into_iter();
        glances
            .filter_map(|(process, worked)| self.glance_at(process, worked))
            .collect()
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        let pid = self.managed(target.process)?;
        let (count, cycles) = self.kernel.count_zero_filled(pid, target.region)?;
        self.spend(cycles);
        Some(count)
    }

    fn measures(&self) -> bool {
        self.calibration.is_some()
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        self.catch_up();
        let pid = self.managed(process)?;
        let touches = self.touches(pid, Effort::of_a_manager(process.start_time))?;
        Some(Gain::from(&predict(&touches, self.calibration.as_ref()?)))
    }

    fn promotion_seconds(&self) -> Option<f64> {
        Some(self.calibration.as_ref()?.copy.value)
    }

    fn rest(&mut self, time: Duration) {
        // Rounded up: a rest that is asked for takes place.
        let cycles = self.cycles(time);
        self.now += cycles + u64::from(!time.is_zero());
        self.catch_up();
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        actions.iter().map(|action| self.perform(action)).collect()
    }
}

impl Compactor for SimulatedMachine {
    type Error = Infallible;

    fn observe_physical(&mut self) -> Result<PhysicalObservation, Infallible> {
        self.catch_up();
        let (observation, cycles) = self.kernel.look_at_physical();
        self.spend(cycles);
        Ok(observation)
    }

    fn empty(&mut self, targets: &[ToEmpty]) -> Result<Vec<Emptied>, Infallible> {
        let mut reports = Vec::with_capacity(targets.len());
        for target in targets {
            self.catch_up();
            let (report, cycles) = self.kernel.empty(target);
            self.spend(cycles);
            let took = self.kernel.costs().time(cycles);
            reports.push(Emptied { took, ..report });
        }
        Ok(reports)
    }
}
