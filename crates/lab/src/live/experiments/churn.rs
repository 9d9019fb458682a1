//! `churn`: memory that the program frees before a promotion pays.

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, MANAGER_CPU, Metric, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;

const SECONDS_PER_ROUND: Metric = Metric::new(
    "seconds_per_round",
    "time of a round",
    Unit::Seconds,
    Better::Lower,
);

pub(super) const CHURN: Experiment = Experiment {
    name: "churn",
    title: "memory that does not last",
    about: "Maps all of its memory, writes to every page, reads it once and frees it, again and again. Whatever is promoted \
            is freed soon after, so that a manager can only lose; the best it can do is to leave the program alone.",
    paper: Some(PaperFigure {
        source: "MEGA, section 4.2, table 5",
        systems: &["Ingens", "MEGA"],
        rows: &[("execution time of 50 rounds", &["47.6 s", "30 s"])],
    }),
    programs: &[],
    metrics: &[SECONDS_PER_ROUND, MANAGER_CPU],
    goals: &[Goal::ratio(
        SECONDS_PER_ROUND.id,
        &Mode::Base,
        Bound::AtMost(1.05),
    )],
    modes: Mode::usual,
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let mut command = run.workload("cycle")?;
    command.arg(format!("--size={}", run.size));
    let (process, _) = run.ready_workload(command)?;
    run.sleep(run.measured)?;
    let done = process.finish()?;
    Ok(Sample::default()
        .with(SECONDS_PER_ROUND, done.seconds / done.operations as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?))
}
