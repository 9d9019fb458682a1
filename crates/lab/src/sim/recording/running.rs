//! One run of recordings and what is beside them, under one system.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mega_core::Machine as _;
use mega_record::programs::{BlindMemory, RecordedProgram, Start, Told, share};
use mega_sim::Kernel;
use mega_sim::kernel::Pid;

use super::MORE_MEMORY;
use super::beside::Beside;
use super::file::Recorded;
use crate::error::Error;
use crate::sim::findings::Happened;
use crate::sim::hardware::Hardware;
use crate::sim::numbers::number;
use crate::sim::programs::Done;
use crate::sim::scale::Scale;
use crate::sim::system::System;
use crate::sim::testbed::Testbed;

/// How often it is looked at what programs have mapped.
const OFTEN: Duration = Duration::from_secs(1);
/// A run may take so many times as long as the longest recording, and so long for filling memory.
const TIMES: u32 = 10;
const FILLED_BY: Duration = Duration::from_secs(3600);

/// The machine before anything of the recordings is there.
pub(super) struct Machine {
    pub(super) kernel: Kernel,
    /// The process of everybody else.
    pub(super) others: Pid,
    pub(super) cpus: u32,
    pub(super) hardware: Hardware,
}

/// What became of all under a system.
pub(super) struct Run {
    /// By recording.
    pub(super) recorded: Vec<Seen>,
    /// By program beside them.
    pub(super) beside: Vec<SeenBeside>,
    /// The manager's CPU time over the time from the beginning of the recordings on.
    pub(super) manager: f64,
    /// Free memory in blocks at the end, in bytes.
    pub(super) free_in_blocks: u64,
    pub(super) happened: Happened,
}

/// What became of a recording's processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// CPU time in seconds, without that for the memory of the first look.
    pub(super) cpu: f64,
    /// How late the latest was in the end, in seconds. `None` where one ended before, since no memory was left.
    pub(super) late: Option<f64>,
    /// How long they stood still for promotions, in seconds.
    pub(super) stood: f64,
    /// Seconds of translation, as far as their touches were measured.
    pub(super) translation: f64,
    pub(super) mapped: Mapped,
}

/// What became of a program beside them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenBeside {
    /// Operations a second, where it does any.
    pub(super) speed: Option<f64>,
    pub(super) mapped: Mapped,
}

/// Memory, added up over the times at which it was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mapped {
    pub(super) resident: u64,
    /// In huge and giant pages.
    pub(super) large: u64,
    /// How often it was looked at.
    looks: u64,
}

impl Mapped {
    fn add(&mut self, bed: &Testbed, pids: impl Iterator<Item = Pid>) {
        self.looks += 1;
        for pid in pids {
            let mapped = bed.mapped(pid);
            self.resident += mapped.resident();
            self.large += mapped.huge + mapped.giant;
        }
    }

    /// Resident bytes, as a mean. `None` where it was never looked at.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.looks > 0).then(|| number(self.resident) / number(self.looks))
    }
}

/// A recorded process at work.
struct Process {
    pid: Pid,
    told: Rc<RefCell<Told>>,
}

/// Runs all until the recordings are through.
pub(super) fn run(
    system: System,
    machine: &Machine,
    recorded: &[Recorded],
    beside: &[Beside],
    seed: u64,
) -> Result<Run, Error> {
    let mut bed = Testbed::on(
        machine.kernel.clone(),
        system,
        Scale::new(1),
        machine.hardware,
    )?;
    bed.machine.leave_unmanaged(machine.others);
    let start = Start::default();
    let mut blind = Vec::new();
    let mut tenants = Vec::new();
    for one in recorded {
        tenants.push(begin(&mut bed, one, &start, machine, seed, &mut blind)?);
    }
    // Blind memory uses none of the machine's CPUs.
    let blind_ones = u32::try_from(blind.len()).unwrap_or(u32::MAX);
    bed.machine
        .set_cpus(machine.cpus.saturating_add(blind_ones));
    let others: Vec<_> = beside.iter().map(|one| one.start(&mut bed, seed)).collect();
    let mut seen = vec![Seen::default(); tenants.len()];
    let mut seen_beside = vec![SeenBeside::default(); others.len()];
    let mut before = None;
    let longest = recorded.iter().map(|one| one.survey.length).max();
    let limit = longest.unwrap_or_default() * TIMES + FILLED_BY;
    let is_through = bed.run_until(limit, OFTEN, |bed| {
        if start.began().is_none() {
            return blind
                .iter()
                .chain(tenants.iter().flatten().map(|one| &one.pid))
                .any(|pid| is_out_of_memory(bed, *pid));
        }
        before.get_or_insert_with(|| at(bed, &others));
        for (seen, tenant) in seen.iter_mut().zip(&tenants) {
            seen.mapped.add(bed, tenant.iter().map(|one| one.pid));
        }
        for (seen, (pid, _)) in seen_beside.iter_mut().zip(&others) {
            seen.mapped.add(bed, std::iter::once(*pid));
        }
        tenants
            .iter()
            .flatten()
            .all(|one| bed.machine.ended(one.pid).is_some())
    });
    let Some(before) = before.filter(|_| is_through) else {
        return Err(Error::Failed(format!(
            "simulating recordings under {}: {}",
            system.name,
            if is_through {
                format!("no memory is left for what they had at their first looks; {MORE_MEMORY}")
            } else {
                "they do not come to an end".to_owned()
            }
        )));
    };
    let now = at(&bed, &others);
    let seconds = (now.time - before.time).as_secs_f64();
    for (seen, (old, new)) in seen_beside
        .iter_mut()
        .zip(before.done.iter().zip(&now.done))
    {
        seen.speed = old.zip(*new).map(|(old, new)| number(new - old) / seconds);
    }
    for ((seen, tenant), one) in seen.iter_mut().zip(&tenants).zip(recorded) {
        add_up(&bed, tenant, seen);
        if seen.late.is_none() {
            eprintln!(
                "mega lab: {}, {}: it ended early, since no memory was left",
                system.name, one.name
            );
        }
    }
    if blind.iter().any(|pid| is_out_of_memory(&bed, *pid)) {
        eprintln!(
            "mega lab: {}: no memory was left for what is blind",
            system.name
        );
    }
    Ok(Run {
        recorded: seen,
        beside: seen_beside,
        manager: (now.manager - before.manager).as_secs_f64() / seconds,
        free_in_blocks: bed.free_blocks() * mega_core::HUGE_PAGE_SIZE,
        happened: bed.happened(),
    })
}

/// Starts the processes of a recording, and what has their blind memory.
fn begin(
    bed: &mut Testbed,
    recorded: &Recorded,
    start: &Start,
    machine: &Machine,
    seed: u64,
    blind: &mut Vec<Pid>,
) -> Result<Vec<Process>, Error> {
    let Hardware {
        processor, walk, ..
    } = machine.hardware;
    let tape = share(&recorded.survey, recorded.looks()?);
    let mut processes = Vec::new();
    for (number, (process, known)) in (0..).zip(&recorded.survey.processes) {
        let (program, told) =
            RecordedProgram::new(&tape, *process, start, (&processor, walk), seed + number);
        let pid = bed.start(program);
        processes.push(Process { pid, told });
        if known.is_partly_blind {
            let memory = BlindMemory::new(&tape, *process, start, processor.hertz);
            let pid = bed.machine.start(Box::new(memory), 0);
            bed.machine.leave_unmanaged(pid);
            blind.push(pid);
        }
    }
    Ok(processes)
}

fn is_out_of_memory(bed: &Testbed, pid: Pid) -> bool {
    bed.machine
        .ended(pid)
        .is_some_and(|ended| ended.fault.is_some())
}

/// How it is at a time.
struct At {
    time: Duration,
    manager: Duration,
    /// Operations of those beside.
    done: Vec<Option<u64>>,
}

fn at(bed: &Testbed, others: &[(Pid, Option<Rc<RefCell<Done>>>)]) -> At {
    At {
        time: bed.machine.now(),
        manager: bed.machine.cpu_time(),
        done: others
            .iter()
            .map(|(_, done)| Some(done.as_ref()?.borrow().operations))
            .collect(),
    }
}

/// What became of the processes of a recording.
fn add_up(bed: &Testbed, processes: &[Process], seen: &mut Seen) {
    let costs = *bed.machine.kernel().costs();
    let seconds = |cycles| costs.time(cycles).as_secs_f64();
    seen.late = Some(0.0);
    for process in processes {
        let told = *process.told.borrow();
        let worked = bed.machine.worked(process.pid).as_secs_f64();
        seen.cpu += (worked - seconds(told.filling)).max(0.0);
        seen.stood += bed.machine.stood_still(process.pid).as_secs_f64();
        seen.translation += seconds(told.translation);
        seen.late = seen
            .late
            .zip(told.late)
            .map(|(one, other)| one.max(seconds(other)));
    }
}
