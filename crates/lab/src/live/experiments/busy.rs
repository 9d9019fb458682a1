//! `busy`: whole runs of programs that use every CPU, the manager among them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::java;
use super::lines::{GZIP, SORT, text};
use crate::error::Error;
use crate::live::cpus;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Bound, Goal, MEGA};
use crate::live::metric::{Better, MANAGER_CPU, Metric, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::output::output_of;
use crate::live::package::{Package, Program};
use crate::live::run::Run;
use crate::programs;
use crate::warm_up::warm_up;

/// What must be installed.
pub(crate) const SQLITE: Program = Program {
    name: "sqlite3",
    package: Package::Debian("sqlite3"),
};

/// How much longer than in the better of `base` and `thp` a program may take.
const BOUND: Bound = Bound::AtMost(1.02);

const RANDOM: Times = times(
    "random_seconds",
    "time of random updates",
    "random_again_seconds",
    "time of random updates, run again",
);
const LOOK_UPS: Times = times(
    "look_ups_seconds",
    "time of cross-section look-ups",
    "look_ups_again_seconds",
    "time of cross-section look-ups, run again",
);
const JAVA: Times = times(
    "java_seconds",
    "time of a JVM",
    "java_again_seconds",
    "time of a JVM, run again",
);
const SORTING: Times = times(
    "sort_seconds",
    "time of sort",
    "sort_again_seconds",
    "time of sort, run again",
);
const SQL: Times = times(
    "sqlite_seconds",
    "time of SQLite",
    "sqlite_again_seconds",
    "time of SQLite, run again",
);
const ZIPPING: Times = times(
    "gzip_seconds",
    "time of gzip",
    "gzip_again_seconds",
    "time of gzip, run again",
);

/// How long a program took when it ran for the first time, and right after that once more.
#[derive(Clone, Copy)]
struct Times {
    first: Metric,
    again: Metric,
}

const fn times(
    first: &'static str,
    first_title: &'static str,
    again: &'static str,
    again_title: &'static str,
) -> Times {
    Times {
        first: Metric::new(first, first_title, Unit::Seconds, Better::Lower),
        again: Metric::new(again, again_title, Unit::Seconds, Better::Lower),
    }
}

pub(super) const BUSY: Experiment = Experiment {
    name: "busy",
    title: "whole runs of programs that use every CPU, beside the manager",
    about: "Runs programs from start to end, one after the other, each on all CPUs and with as much work in every mode: updates \
            at random and cross-section look-ups (a process on every CPU), a JVM with a thread on every CPU, sort \
            --parallel, SQLite in memory and gzip (a process on every CPU). The manager has no CPU to itself, every option of \
            `mega run` is the default, and its state directory is empty but for the calibration: it sees each program for the \
            first time. Then each runs once more, in every mode, and the manager knows it by its profile. SQLite and gzip are to \
            show what a manager costs where it gains little or nothing.",
    paper: None,
    programs: &[java::PROGRAMS[0], java::PROGRAMS[1], SORT, SQLITE, GZIP],
    metrics: &[
        RANDOM.first,
        LOOK_UPS.first,
        JAVA.first,
        SORTING.first,
        SQL.first,
        ZIPPING.first,
        RANDOM.again,
        LOOK_UPS.again,
        JAVA.again,
        SORTING.again,
        SQL.again,
        ZIPPING.again,
        MANAGER_CPU,
    ],
    goals: &[
        Goal::best_static(RANDOM.first.id, BOUND),
        Goal::best_static(LOOK_UPS.first.id, BOUND),
        Goal::best_static(JAVA.first.id, BOUND),
        Goal::best_static(SORTING.first.id, BOUND),
        Goal::best_static(SQL.first.id, BOUND),
        Goal::best_static(ZIPPING.first.id, BOUND),
        Goal::best_static(RANDOM.again.id, BOUND),
        Goal::best_static(LOOK_UPS.again.id, BOUND),
        Goal::best_static(JAVA.again.id, BOUND),
        Goal::best_static(SORTING.again.id, BOUND),
        Goal::best_static(SQL.again.id, BOUND),
        Goal::best_static(ZIPPING.again.id, BOUND),
    ],
    modes,
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: true,
};

fn modes() -> Vec<Mode> {
    vec![Mode::Base, Mode::Thp, MEGA.clone()]
}

fn run(run: &Run<'_>) -> Result<Sample, Error> {
    java::compile_source(run, "Visits.java", VISITS)?;
    let text = text(run, run.size / 16)?;
    let members: [(Times, Command); 6] = [
        (RANDOM, workloads(run, "random", run.size / 4)?),
        (LOOK_UPS, workloads(run, "xs-lookup", run.size / 256)?),
        (JAVA, visits(run)?),
        (SORTING, sort(run, &text)?),
        (SQL, sqlite(run)?),
        (ZIPPING, gzip(run, &text)?),
    ];
    let mut sample = Sample::default();
    let (mut whole, mut managing) = (Duration::ZERO, Duration::ZERO);
    for (times, mut command) in members {
        for metric in [times.first, times.again] {
            // What the program before left is other memory in each mode.
            warm_up(run.size)?;
            let started = Instant::now();
            output_of(&mut command)?;
            let took = started.elapsed();
            run.interrupt.check()?;
            sample = sample.with(metric, took.as_secs_f64());
            whole += took;
            managing += took.mul_f64(run.manager_cpu_share()?);
        }
    }
    Ok(sample.with(MANAGER_CPU, managing.div_duration_f64(whole)))
}

const VISITS: &str = include_str!("../../programs/Visits.java");

/// Starts a command several times at once and waits for all; fails with the last that fails. They end when it is told to.
const AT_ONCE: &str = r#"copies=$1; shift; pids=
trap 'kill $pids 2>/dev/null; exit 143' TERM INT HUP
while [ "$copies" -gt 0 ]; do "$@" & pids="$pids $!"; copies=$((copies - 1)); done
status=0; for pid in $pids; do wait "$pid" || status=$?; done; exit "$status""#;

/// A program as often at once as there are CPUs.
fn on_every_cpu(run: &Run<'_>, program: impl AsRef<OsStr>) -> Result<Command, Error> {
    let mut command = run.unpinned_command("sh")?;
    command.args(["-c", AT_ONCE, "sh", &cpus::count().to_string()]);
    command.arg(program);
    Ok(command)
}

/// One of the lab's own programs on every CPU. Together they have the run's memory and do the given number of operations.
fn workloads(run: &Run<'_>, name: &str, operations: u64) -> Result<Command, Error> {
    let copies = cpus::count() as u64;
    let mut command = on_every_cpu(run, programs::own()?)?;
    command
        .args(["workload", name])
        .arg(format!("--size={}", run.size / copies))
        .arg(format!("--operations={}", operations / copies))
        .arg(format!("--seed={}", run.seed));
    Ok(command)
}

/// A JVM that fills a part of the memory and visits each object eight times in the mean.
fn visits(run: &Run<'_>) -> Result<Command, Error> {
    /// Bytes of an object, as the program has it.
    const OBJECT: u64 = 52;
    let (bytes, threads) = (run.size / 8, cpus::count() as u64);
    let mut command = run.unpinned_command(java::PROGRAMS[0].find()?)?;
    command.arg("-cp").arg(run.scratch);
    command.arg(format!("-Xmx{}", run.size)).arg("Visits");
    let numbers = [bytes, run.seed, threads, 8 * bytes / OBJECT / threads];
    command.args(numbers.map(|number| number.to_string()));
    Ok(command)
}

fn sort(run: &Run<'_>, text: &Path) -> Result<Command, Error> {
    let mut command = run.unpinned_command(SORT.find()?)?;
    command
        .env("LC_ALL", "C")
        .arg(format!("--parallel={}", cpus::count()))
        .arg(format!("--buffer-size={}b", run.size))
        .arg("--output=/dev/null")
        .arg(text);
    Ok(command)
}

/// A table in memory, an index over it in random order, and look-ups by that.
fn sqlite(run: &Run<'_>) -> Result<Command, Error> {
    /// Bytes of memory for each row, the index included.
    const ROW: u64 = 1024;
    let rows = run.size / ROW / cpus::count() as u64;
    let mut command = on_every_cpu(run, SQLITE.find()?)?;
    command.arg(":memory:").arg(format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, key INTEGER, pad TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO t SELECT i, (i * 2654435761) % 4294967296, printf('%0100d', i) FROM n;
         CREATE INDEX by_key ON t(key);
         SELECT sum(length(other.pad)) FROM t JOIN t AS other ON other.key = (t.id * 2654435761) % 4294967296;"
    ));
    Ok(command)
}

fn gzip(run: &Run<'_>, text: &Path) -> Result<Command, Error> {
    let mut command = on_every_cpu(run, "sh")?;
    command.args(["-c", r#"exec "$0" --stdout "$1" > /dev/null"#]);
    command.arg(GZIP.find()?).arg(text);
    Ok(command)
}
