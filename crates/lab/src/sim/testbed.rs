//! A simulated machine under a system: lets time pass, with the manager and compaction at work in it.

use std::convert::Infallible;
use std::time::Duration;

use mega_core::action::{ActionKind, Cause};
use mega_core::compaction::ahead::{MigrationPace, keep_ahead};
use mega_core::compaction::{CompactionPolicy, Compactor, Goal, Mechanism, Unit};
use mega_core::engine::{Engine, Unmet};
use mega_core::{BASE_PAGE_SIZE, Machine, PageSize};
use mega_sim::address_space::MappedBytes;
use mega_sim::kernel::{Khugepaged, Pid};
use mega_sim::physical::{Layout, Pages};
use mega_sim::{Kernel, Program, SimulatedMachine};

use super::findings::Happened;
use super::hardware::Hardware;
use super::numbers::number;
use super::scale::Scale;
use super::system::{PERIOD, System, When};
use crate::error::Error;

/// CPUs of the simulated machine. Each program has one of its own in any case; how many there are beyond that says only how
/// many are idle.
const CPUS: u32 = 8;

/// What compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compacted {
    /// Base pages looked at for pages to move.
    pub(super) scanned: u64,
    /// Base pages looked at for free ones; chosen blocks are not looked for.
    pub(super) free_scanned: u64,
    pub(super) isolated: u64,
    pub(super) migrated: u64,
    pub(super) failed: u64,
}

/// Compaction at work.
struct Compaction {
    policy: Box<dyn CompactionPolicy>,
    when: When,
    pace: MigrationPace,
    /// When the next period begins.
    next: Duration,
    scanned: u64,
    failed: u64,
}

/// A machine under a system.
pub(super) struct Testbed {
    pub(super) machine: SimulatedMachine,
    system: System,
    engine: Option<Engine>,
    compaction: Option<Compaction>,
    programs: Vec<Pid>,
}

/// What cannot fail has not failed.
pub(super) fn always<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

/// Gives a kernel so much memory of its own, which nobody can move.
pub(super) fn boot(kernel: &mut Kernel, bytes: u64) {
    for _ in 0..bytes / BASE_PAGE_SIZE {
        kernel.allocate_own(Pages::Unmovable(0), 0);
    }
}

impl Testbed {
    /// A machine just booted, with so much memory on each node.
    pub(super) fn new(
        system: System,
        nodes: &[u64],
        scale: Scale,
        hardware: Hardware,
    ) -> Result<Self, Error> {
        let layout = Layout::new(nodes).map_err(|error| {
            Error::Failed(format!(
                "simulating a machine of that size: {error}; choose another --scale"
            ))
        })?;
        let kernel = Kernel::new(&layout, system.settings(), hardware.costs);
        Testbed::on(kernel, system, scale, hardware)
    }

    /// A machine whose memory is already as somebody left it.
    pub(super) fn on(
        mut kernel: Kernel,
        system: System,
        scale: Scale,
        hardware: Hardware,
    ) -> Result<Self, Error> {
        kernel.set(system.settings());
        let mut machine = SimulatedMachine::new(kernel, CPUS);
        machine.set_processor(hardware.processor, hardware.walk);
        if system.asks_what_is_gained() {
            machine.calibrate();
        }
        if let Some(settings) = system.khugepaged() {
            machine.start_khugepaged(Khugepaged::new(settings));
        }
        let compaction = system.compaction(scale.parts())?;
        let compaction = compaction.map(|(policy, when)| Compaction {
            pace: MigrationPace::of(policy.as_ref()),
            policy,
            when,
            next: Duration::ZERO,
            scanned: 0,
            failed: 0,
        });
        Ok(Testbed {
            engine: system.engine()?,
            machine,
            system,
            compaction,
            programs: Vec::new(),
        })
    }

    /// Gives the kernel so much memory of its own, which nobody can move.
    pub(super) fn boot(&mut self, bytes: u64) {
        boot(self.machine.kernel_mut(), bytes);
    }

    /// Starts a program that the manager sees.
    pub(super) fn start(&mut self, program: impl Program + 'static) -> Pid {
        let pid = self.machine.start(Box::new(program), 0);
        self.programs.push(pid);
        pid
    }

    /// A process that the experiment itself moves.
    pub(super) fn spawn(&mut self) -> Pid {
        let pid = self.machine.kernel_mut().spawn(0);
        self.programs.push(pid);
        pid
    }

    /// Lets so much time pass.
    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.machine.now() + time;
        while self.machine.now() < end {
            self.step(end);
        }
    }

    /// Lets time pass until the programs have ended, but no longer than `limit`. Whether they have.
    pub(super) fn run_to_the_end(&mut self, limit: Duration) -> bool {
        let end = self.machine.now() + limit;
        while self.machine.is_busy() && self.machine.now() < end {
            self.step(end);
        }
        !self.machine.is_busy()
    }

    /// Lets time pass until something holds, which is looked at so often, but no longer than `limit`. Whether it came to hold. Unlike
    /// by [`Testbed::run_for`] again and again, the manager looks as often as it does by itself.
    pub(super) fn run_until(
        &mut self,
        limit: Duration,
        often: Duration,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> bool {
        let end = self.machine.now() + limit;
        let mut next = self.machine.now();
        while self.machine.now() < end {
            if self.machine.now() >= next {
                let wait = self.manage();
                next = self.machine.now() + wait;
            }
            let left = next.min(end).saturating_sub(self.machine.now());
            self.machine.rest(left.min(often));
            if holds(self) {
                return true;
            }
        }
        false
    }

    /// One step of the manager, and the time to the next; up to `end`.
    fn step(&mut self, end: Duration) {
        let wait = self.manage();
        let left = end.saturating_sub(self.machine.now());
        self.machine.rest(wait.min(left));
    }

    /// One step of the manager. How long it waits for the next.
    fn manage(&mut self) -> Duration {
        let (unmet, wait) = match &mut self.engine {
            Some(engine) => {
                let report = always(engine.step(&mut self.machine));
                (report.unmet, report.next_interval)
            }
            None => (Vec::new(), PERIOD),
        };
        self.compact(&unmet);
        wait
    }

    fn compact(&mut self, unmet: &[Unmet]) {
        let now = self.machine.now();
        let Some(compaction) = &mut self.compaction else {
            return;
        };
        match compaction.when {
            When::OnDemand => {
                let policy = compaction.policy.as_mut();
                let machine = &mut self.machine;
                let emptied = always(keep_ahead(
                    machine,
                    policy,
                    &mut compaction.pace,
                    unmet,
                    now,
                ));
                for emptied in emptied {
                    compaction.scanned += emptied.counts.scanned;
                    compaction.failed += emptied.counts.failed;
                }
            }
            When::Periodically if now >= compaction.next => {
                compaction.next = now + compaction.policy.period();
                self.compact_once();
            }
            When::Periodically => {}
        }
    }

    /// One period of compaction, by as much as the policy's budget allows.
    pub(super) fn compact_once(&mut self) {
        let Some(compaction) = &mut self.compaction else {
            return;
        };
        if compaction.policy.mechanism() == Mechanism::Kernel {
            self.machine.kernel_mut().compact_memory();
            return;
        }
        let observation = always(self.machine.observe_physical());
        let goal = Goal {
            unit: Unit::Block,
            count: u64::MAX,
            pages: compaction.policy.budget_pages(),
        };
        let targets = compaction.policy.select(&observation, &goal);
        for emptied in always(self.machine.empty(&targets)) {
            compaction.scanned += emptied.counts.scanned;
            compaction.failed += emptied.counts.failed;
        }
    }

    /// What compaction did since the start: the kernel's own, and that of chosen blocks.
    pub(super) fn compacted(&self) -> Compacted {
        let counters = self.machine.kernel().counters();
        let (scanned, failed) = self
            .compaction
            .as_ref()
            .map_or((0, 0), |compaction| (compaction.scanned, compaction.failed));
        Compacted {
            scanned: counters.migrate_scanned + scanned,
            free_scanned: counters.free_scanned,
            isolated: counters.isolated,
            migrated: counters.migrated,
            failed,
        }
    }

    /// Free blocks.
    pub(super) fn free_blocks(&self) -> u64 {
        self.machine.kernel().memory().free_blocks()
    }

    /// What a process has mapped.
    pub(super) fn mapped(&self, pid: Pid) -> MappedBytes {
        self.machine.kernel().process(pid).space.mapped_bytes()
    }

    /// Whether a program, which `what` names, goes on or has ended well.
    ///
    /// # Errors
    /// Where it ended by a fault.
    pub(super) fn without_fault(&self, pid: Pid, what: &str) -> Result<(), Error> {
        match self.machine.ended(pid).and_then(|ended| ended.fault) {
            None => Ok(()),
            Some(fault) => Err(Error::Failed(format!(
                "simulating {what} under {}: {fault}; choose another --scale",
                self.system.name
            ))),
        }
    }

    /// What happened since the start, in numbers.
    pub(super) fn happened(&self) -> Happened {
        let kernel = self.machine.kernel();
        let events = kernel.memory().events();
        let compacted = self.compacted();
        let mut counts = Vec::new();
        if let Some(engine) = &self.engine {
            let totals = engine.totals();
            let lacked: u64 = totals
                .failures
                .values()
                .filter_map(|causes| causes.get(&Cause::NoMemory))
                .sum();
            let done = |kind| number(totals.done[kind]);
            counts.extend([
                ("regions promoted", done(ActionKind::Promote)),
                ("regions demoted", done(ActionKind::Demote)),
                ("spans promoted", done(ActionKind::PromoteGiant)),
                ("promotions that lacked memory", number(lacked)),
                ("MiB copied by promotion", mebibytes(totals.bytes_copied)),
                (
                    "MiB added by promotion",
                    mebibytes(totals.bloat_bytes_added),
                ),
            ]);
        }
        let faults = |size: PageSize| {
            let of = |pid: &Pid| kernel.process(*pid).faults[size as usize].count();
            number(self.programs.iter().map(of).sum())
        };
        let stood = self.programs.iter();
        let stood: Duration = stood.map(|&pid| self.machine.stood_still(pid)).sum();
        counts.extend([
            ("faults of base pages", faults(PageSize::Base)),
            ("faults of huge pages", faults(PageSize::Huge)),
            ("faults of giant pages", faults(PageSize::Giant)),
            ("ms that programs stood still", stood.as_secs_f64() * 1e3),
            (
                "ms of the manager's CPU time",
                self.machine.cpu_time().as_secs_f64() * 1e3,
            ),
            ("pages migrated", number(compacted.migrated)),
            (
                "compactions in faults and promotions",
                number(kernel.counters().compact_stalls),
            ),
            (
                "blocks that changed their kind",
                number(events.blocks_claimed),
            ),
        ]);
        Happened {
            system: self.system.name.to_owned(),
            counts: counts
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    number(bytes) / number(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::hardware;
    use crate::sim::programs::Resident;
    use crate::sim::system::INGENS;

    #[test]
    fn who_looks_on_does_not_make_the_manager_look_more_often() {
        let time = Duration::from_secs(20);
        let cpu_time = |run: &dyn Fn(&mut Testbed)| {
            let hardware = hardware::trident_server();
            let mut bed = Testbed::new(INGENS, &[64 << 20], Scale::new(1), hardware).unwrap();
            bed.start(Resident::new(4 << 20, 4 << 20, time * 2));
            run(&mut bed);
            (bed.machine.now(), bed.machine.cpu_time())
        };
        let alone = cpu_time(&|bed| bed.run_for(time));
        let looked_at = cpu_time(&|bed| {
            assert!(!bed.run_until(time, Duration::from_millis(500), |_| false));
        });
        assert_eq!(looked_at.1, alone.1);
        let until = cpu_time(&|bed| {
            let second = Duration::from_secs(1);
            assert!(bed.run_until(time, second, |bed| bed.machine.now() > second * 2));
        });
        assert!(until.0 < time, "{until:?}");
    }
}
