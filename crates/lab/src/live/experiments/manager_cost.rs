//! `manager-cost`: what the manager takes of a core, and of its programs' locks.

use crate::cpu_meter::CpuMeter;
use crate::error::Error;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::metric::{Better, Metric, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::process::Process;
use crate::live::run::Run;
use crate::workload::report::Done;

/// Parts of the memory that are managed in turn: a sixteenth, a quarter, all of it.
const PARTS: [(u64, Metric); 3] = [
    (
        16,
        cpu("cpu_sixteenth", "CPU over a sixteenth of the memory"),
    ),
    (4, cpu("cpu_quarter", "CPU over a quarter of the memory")),
    (1, cpu("cpu_whole", "CPU over all of the memory")),
];
/// Processes among which the memory is shared out in turn.
const PROCESSES: [(u64, Metric); 3] = [
    (1, cpu("cpu_1_process", "CPU over 1 idle process")),
    (14, cpu("cpu_14_processes", "CPU over 14 idle processes")),
    (200, cpu("cpu_200_processes", "CPU over 200 idle processes")),
];
const MAP_P99_9: Metric = Metric::latency(
    "map_p99_9_ns",
    "mapping and unmapping memory, 99.9th percentile",
);
const MAP_LONGEST: Metric = Metric::latency(
    "map_longest_ns",
    "mapping and unmapping memory, the longest",
);

const fn cpu(id: &'static str, title: &'static str) -> Metric {
    Metric::new(id, title, Unit::Share, Better::Lower)
}

pub(super) const MANAGER_COST: Experiment = Experiment {
    name: "manager-cost",
    title: "what the manager costs as memory and processes grow",
    about: "The manager's CPU time once promotion has settled, as a share of one core: over one program that updates a \
            sixteenth, a quarter and all of the memory at random, and over the memory shared out to 1, 14 and 200 \
            processes that are idle. mega:base never promotes and so shows what observing base pages costs. While all \
            of the memory is in use another thread of the program maps and unmaps memory every millisecond and times \
            it: that waits for whoever holds the program's mmap lock.",
    paper: None,
    programs: &[],
    metrics: &[
        PARTS[2].1,
        PARTS[1].1,
        PARTS[0].1,
        PROCESSES[0].1,
        PROCESSES[1].1,
        PROCESSES[2].1,
        MAP_P99_9,
        MAP_LONGEST,
    ],
    goals: &[],
    modes: || vec![Mode::Base, Mode::Mega("base"), Mode::Mega("adaptive")],
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let mut sample = Sample::default();
    for (divisor, metric) in PARTS {
        let (share, done) = over_busy(run, run.size / divisor)?;
        sample = sample.with(metric, share);
        if let (1, Some(times)) = (divisor, done.map_time) {
            sample = sample
                .with(MAP_P99_9, times.p99_9_ns as f64)
                .with(MAP_LONGEST, times.max_ns as f64);
        }
    }
    for (processes, metric) in PROCESSES {
        sample = sample.with(metric, over_idle(run, processes)?);
    }
    Ok(sample)
}

/// The manager's CPU over one program that uses all of its memory, once promotion has settled.
fn over_busy(run: &Run<'_>, bytes: u64) -> Result<(f64, Done), Error> {
    let mut command = run.workload("probe")?;
    command.arg(format!("--size={bytes}"));
    let (process, _) = run.ready_workload(command)?;
    if run.mode.promotes_later() {
        // Not by looking at how much is huge: that would take the lock that is timed.
        run.sleep(run.longest_settle(bytes))?;
    }
    let share = manager_cpu(run, &process)?;
    Ok((share, process.finish()?))
}

/// The manager's CPU over processes that share the memory and are idle.
fn over_idle(run: &Run<'_>, processes: u64) -> Result<f64, Error> {
    let mut command = run.workload("fork")?;
    command
        .arg(format!("--size={}", run.size))
        .arg(format!("--children={processes}"))
        .arg("--idle");
    let (mut process, _) = run.ready_workload(command)?;
    for _ in 0..processes {
        run.await_ready(&mut process)?;
    }
    // Until all of them have been found and looked at.
    run.sleep(run.interval * 3)?;
    let share = manager_cpu(run, &process)?;
    process.finish()?;
    Ok(share)
}

/// CPU that the manager uses over the time measured, as a share of one core; 0 in the modes without a manager.
fn manager_cpu(run: &Run<'_>, process: &Process) -> Result<f64, Error> {
    if !run.mode.is_managed() {
        run.sleep(run.measured)?;
        return Ok(0.0);
    }
    let meter = CpuMeter::begin(process.id())?;
    run.sleep(run.measured)?;
    meter.share()
}
