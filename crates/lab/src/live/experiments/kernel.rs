//! What the experiments with one random-access program share. Each measures the program in one thread and in one on
//! every CPU, in turn over the same memory. The modes take turns, because the speed of such a program drifts most.

use std::process::Command;

use crate::error::Error;
use crate::live::cpus;
use crate::live::experiment::{Experiment, InTurns, PaperFigure, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::in_turns::Worked;
use crate::live::metric::{Better, HUGE, MANAGER_CPU, Metric, OPERATIONS, RESIDENT, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;

/// Of all threads together. On a machine with one CPU there is no such value.
const OPERATIONS_ALL_THREADS: Metric = Metric::new(
    "operations_per_second_all_threads",
    "operations per second, a thread on every CPU",
    Unit::PerSecond,
    Better::Higher,
);
const METRICS: &[Metric] = &[
    OPERATIONS,
    OPERATIONS_ALL_THREADS,
    RESIDENT,
    HUGE,
    MANAGER_CPU,
];
/// As fast as the best static mode, but for 3 %: what the manager itself takes and what runs differ by.
const GOALS: &[Goal] = &[
    Goal::best_static(OPERATIONS.id, Bound::AtLeast(0.97)),
    Goal::best_static(OPERATIONS_ALL_THREADS.id, Bound::AtLeast(0.97)),
];
/// The most threads that the programs take.
const THREADS: usize = 256;

/// What tells one of these experiments from the others.
pub(super) struct Kernel {
    /// Of the experiment and of its program.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) paper: Option<PaperFigure>,
}

impl Kernel {
    pub(super) const fn experiment(self) -> Experiment {
        Experiment {
            name: self.name,
            title: self.title,
            about: self.about,
            paper: self.paper,
            programs: &[],
            metrics: METRICS,
            goals: GOALS,
            modes: Mode::usual,
            most_resident: 1,
            by_defaults: false,
            rounds: Rounds::InTurns(InTurns {
                program: self.name,
                command,
                sample,
            }),
        }
    }
}

fn command(run: &Run<'_>, program: &str) -> Result<Command, Error> {
    let mut command = run.workload_in_turns(program)?;
    command
        .arg(format!("--size={}", run.size))
        .arg(format!("--threads={}", cpus::count().min(THREADS)));
    Ok(command)
}

#[allow(clippy::cast_precision_loss)]
fn sample(run: &Run<'_>, worked: &Worked) -> Result<Sample, Error> {
    let done = &worked.done;
    let mut sample = Sample::default()
        .with(OPERATIONS, done.rate_since(worked.since))
        .with(RESIDENT, done.resident_bytes as f64)
        .with(HUGE, done.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share_of_work(worked.rested)?);
    if let Some(rate) = done.all_threads_rate_since(worked.since) {
        sample = sample.with(OPERATIONS_ALL_THREADS, rate);
    }
    Ok(sample)
}
