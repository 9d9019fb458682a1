//! `stride`: visits in steps of 32 KiB, the worst case for MEGA's policy.

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{HUGE, MANAGER_CPU, OPERATIONS, RESIDENT, Sample};
use crate::live::mode::Mode;
use crate::live::run::Run;

pub(super) const STRIDE: Experiment = Experiment {
    name: "stride",
    title: "visits in steps of 32 KiB",
    about: "Visits the first word of every 32 KiB of its memory, then the second word of every 32 KiB, and so on. Only one \
            page in eight is used between two observations, which MEGA's policy takes for little, yet every visit misses the \
            TLB. An operation is a visit.",
    paper: Some(PaperFigure {
        source: "MEGA, section 4.2, table 6",
        systems: &["Ingens", "MEGA"],
        rows: &[("execution time", &["158.8 s", "324.1 s"])],
    }),
    programs: &[],
    metrics: &[OPERATIONS, RESIDENT, HUGE, MANAGER_CPU],
    // As fast as Ingens, which the paper's MEGA is not; 3 % is what runs of the same kind differ by.
    goals: &[Goal::ratio(
        OPERATIONS.id,
        &Mode::Mega("ingens"),
        Bound::AtLeast(0.97),
    )],
    modes: Mode::usual,
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let mut command = run.workload("stride")?;
    command.arg(format!("--size={}", run.size));
    let done = run.settled_workload(command)?;
    Ok(Sample::default()
        .with(OPERATIONS, done.rate_over_last(run.measured))
        .with(RESIDENT, done.resident_bytes as f64)
        .with(HUGE, done.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?))
}
