//! `converge`: how soon hot memory becomes huge.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, MANAGER_CPU, Metric, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::resident;

/// The part of memory that is to be huge.
const WANTED: f64 = 0.95;
/// How long it is waited for, as a multiple of the time measured: khugepaged at its defaults takes 10 s for 16 MiB.
const PATIENCE: u32 = 20;
/// The time between two looks: each takes the program's mmap lock for a walk.
const LOOK: Duration = Duration::from_millis(100);

const SECONDS: Metric = Metric::new(
    "seconds_until_huge",
    "seconds until 95 % of the memory is huge",
    Unit::Seconds,
    Better::Lower,
);
const SECONDS_PER_GIB: Metric = Metric::new(
    "seconds_per_gib",
    "seconds per GiB made huge",
    Unit::Seconds,
    Better::Lower,
);
const SHARE: Metric = Metric::new(
    "huge_share",
    "of the memory huge when the wait ended",
    Unit::Share,
    Better::Higher,
);

pub(super) const CONVERGE: Experiment = Experiment {
    name: "converge",
    title: "how soon hot memory is huge",
    about: "A program touches an array in base pages and then updates it at random. Timed from there until 95 % of it \
            is in huge pages, or for twenty times the measured time; where that is not enough, only the seconds per \
            GiB made huge until then are told. khugepaged is told of the memory by MADV_HUGEPAGE when the time begins.",
    paper: None,
    programs: &[],
    metrics: &[SECONDS_PER_GIB, SECONDS, SHARE, MANAGER_CPU],
    goals: &[Goal::ratio(
        SECONDS_PER_GIB.id,
        &Mode::KhugepagedDefaults,
        Bound::AtMost(0.01),
    )],
    modes: || {
        vec![
            Mode::KhugepagedDefaults,
            Mode::Khugepaged,
            Mode::Mega("adaptive"),
            Mode::Mega("mega"),
            Mode::Mega("ingens"),
            Mode::Mega("hawkeye"),
        ]
    },
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let mut command = run.workload("random")?;
    command.arg(format!("--size={}", run.size));
    let (process, ready) = run.ready_workload(command)?;
    let started = Instant::now();
    let longest = run.measured * PATIENCE;
    let (huge, seconds) = loop {
        let huge = resident::of(ready.pid)?.huge_bytes as f64;
        let elapsed = started.elapsed();
        if huge >= WANTED * run.size as f64 || elapsed >= longest {
            break (huge, elapsed.as_secs_f64());
        }
        run.sleep(LOOK)?;
    };
    process.finish()?;
    let share = huge / run.size as f64;
    let mut sample = Sample::default()
        .with(SHARE, share)
        .with(MANAGER_CPU, run.manager_cpu_share()?);
    if share >= WANTED {
        sample = sample.with(SECONDS, seconds);
    }
    // Where nothing became huge the rate is not known.
    if huge > 0.0 {
        sample = sample.with(SECONDS_PER_GIB, seconds / (huge / f64::from(1 << 30)));
    }
    Ok(sample)
}
