//! `python`: NumPy sorting and gathering.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::error::Error;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, HUGE, MANAGER_CPU, Metric, RESIDENT, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::package::{Package, Program};
use crate::live::run::Run;

/// Debian's own: another on the `PATH` would not have Debian's NumPy.
pub(crate) const PYTHON: Program = Program {
    name: "/usr/bin/python3",
    package: Package::Debian("python3"),
};
/// By the file that tells whether it is there.
const NUMPY: Program = Program {
    name: "/usr/lib/python3/dist-packages/numpy/__init__.py",
    package: Package::Debian("python3-numpy"),
};

/// What must be installed.
pub(crate) const PROGRAMS: [Program; 2] = [PYTHON, NUMPY];

/// The program.
const SOURCE: &str = concat!(
    include_str!("../../programs/speaking.py"),
    include_str!("../../programs/sort_and_gather.py")
);

pub(super) const GATHERED: Metric = Metric::new(
    "gathered_per_second",
    "elements gathered per second",
    Unit::PerSecond,
    Better::Higher,
);
pub(super) const SORTED: Metric = Metric::new(
    "sorted_per_second",
    "elements sorted per second",
    Unit::PerSecond,
    Better::Higher,
);

pub(super) const PYTHON_ARRAYS: Experiment = Experiment {
    name: "python",
    title: "NumPy sorting and gathering",
    about: "Python gathers elements of an array of half the size from random places, by numpy.take, and sorts an array \
            of an eighth of it, in turn. NumPy itself asks for huge pages (MADV_HUGEPAGE) for arrays of 4 MiB or more, \
            so that in the khugepaged modes they come at fault.",
    paper: None,
    programs: &PROGRAMS,
    metrics: &[GATHERED, SORTED, RESIDENT, HUGE, MANAGER_CPU],
    goals: &[
        Goal::best_static(GATHERED.id, Bound::AtLeast(0.95)),
        Goal::best_static(SORTED.id, Bound::AtLeast(0.95)),
    ],
    modes: Mode::usual,
    // The check at the end makes arrays as large as those it checks.
    most_resident: 2,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

/// What the program finds over its last seconds, in elements per second.
#[derive(Deserialize)]
pub(super) struct Rates {
    pub(super) sorted: f64,
    pub(super) gathered: f64,
}

/// What runs the program.
///
/// # Errors
/// When Python is not installed, and as [`Run::command`].
pub(crate) fn command(run: &Run<'_>) -> Result<Command, Error> {
    let mut command = run.command(PYTHON.find()?)?;
    command
        .args(["-c", SOURCE])
        .arg(run.size.to_string())
        .arg(run.seed.to_string())
        .arg(run.measured.as_secs_f64().to_string())
        .arg(file(run));
    Ok(command)
}

/// The file that the program writes its rates to.
fn file(run: &Run<'_>) -> PathBuf {
    run.scratch.join("rates.json")
}

/// What the program found, once it has ended.
///
/// # Errors
/// When its file cannot be read.
pub(super) fn rates(run: &Run<'_>) -> Result<Rates, Error> {
    let file = file(run);
    let attempted = format!("reading the program's rates in {}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|e| Error::io(&*attempted, e))?;
    serde_json::from_str(&text).map_err(|e| Error::Failed(format!("{attempted}: {e}")))
}

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let done = run.settled_workload(command(run)?)?;
    let rates = rates(run)?;
    Ok(Sample::default()
        .with(GATHERED, rates.gathered)
        .with(SORTED, rates.sorted)
        .with(RESIDENT, done.resident_bytes as f64)
        .with(HUGE, done.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?))
}
