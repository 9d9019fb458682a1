//! `java`: a Java heap of small objects, used at random and then mostly dropped.

use std::process::Command;

use crate::error::Error;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, HUGE, MANAGER_CPU, Metric, OPERATIONS, RESIDENT, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::output::output_of;
use crate::live::package::{Package, Program};
use crate::live::run::Run;
use crate::resident;

const JAVA: Program = Program {
    name: "java",
    package: Package::Debian("openjdk-17-jdk-headless"),
};
const JAVAC: Program = Program {
    name: "javac",
    package: Package::Debian("openjdk-17-jdk-headless"),
};

/// What must be installed.
pub(crate) const PROGRAMS: [Program; 2] = [JAVA, JAVAC];

/// The program.
const SOURCE: &str = include_str!("../../programs/Heap.java");

const KEPT: Metric = Metric::new(
    "kept_bytes",
    "resident memory once nine objects in ten were dropped",
    Unit::Bytes,
    Better::Lower,
);

pub(super) const JAVA_HEAP: Experiment = Experiment {
    name: "java",
    title: "a Java heap of small objects",
    about: "A JVM with a heap limit of the size fills half of it with objects of 48 bytes in one ring of random order, \
            follows that, counting in each object, and at the end drops nine in ten and lets the collector (G1, with \
            a collection every 200 ms of quiet) give memory back. Every access misses the TLB with base pages. In the \
            khugepaged modes the JVM is told -XX:+UseTransparentHugePages, by which it advises its heap when it \
            reserves it: then faults take huge pages, and khugepaged is left what they do not. In the other modes it \
            advises nothing.",
    paper: None,
    programs: &PROGRAMS,
    metrics: &[OPERATIONS, RESIDENT, HUGE, KEPT, MANAGER_CPU],
    goals: &[Goal::best_static(OPERATIONS.id, Bound::AtLeast(0.95))],
    modes: Mode::usual,
    // The heap and what the JVM has beside it.
    most_resident: 2,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    compile(run)?;
    let (process, ready) = run.ready_workload(command(run)?)?;
    run.settle(ready.pid, run.size)?;
    run.sleep(run.measured)?;
    let working = resident::of(ready.pid)?;
    let done = process.finish()?;
    Ok(Sample::default()
        .with(OPERATIONS, done.rate_over_last(run.measured))
        .with(RESIDENT, working.resident_bytes as f64)
        .with(HUGE, working.huge_bytes as f64)
        .with(KEPT, done.resident_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?))
}

/// What runs the compiled program ([`compile`]).
///
/// # Errors
/// When Java is not installed, and as [`Run::command`].
pub(crate) fn command(run: &Run<'_>) -> Result<Command, Error> {
    let mut command = run.command(JAVA.find()?)?;
    command
        .arg("-cp")
        .arg(run.scratch)
        .arg("-Xms8m")
        .arg(format!("-Xmx{}", run.size))
        .args(["-XX:+UseG1GC", "-XX:G1PeriodicGCInterval=200"])
        .args(["-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30"]);
    if run.mode.advises() {
        command.arg("-XX:+UseTransparentHugePages");
    }
    command
        .arg("Heap")
        .arg((run.size / 2).to_string())
        .arg(run.seed.to_string());
    Ok(command)
}

/// Compiles the program into the run's folder.
///
/// # Errors
/// When the compiler is not installed, or fails.
pub(crate) fn compile(run: &Run<'_>) -> Result<(), Error> {
    compile_source(run, "Heap.java", SOURCE)
}

/// Compiles a program, given as its file's name and what is in it, into the run's folder.
///
/// # Errors
/// As [`compile`].
pub(super) fn compile_source(run: &Run<'_>, name: &str, text: &str) -> Result<(), Error> {
    let source = run.scratch.join(name);
    std::fs::write(&source, text)
        .map_err(|e| Error::io(format!("writing {}", source.display()), e))?;
    let mut compiler = run.beside(JAVAC.find()?);
    compiler.arg("-d").arg(run.scratch).arg(&source);
    output_of(&mut compiler).map(|_| ())
}
