//! `machine`: one machine, not one program: six at once, on memory that is nearly full and fragmented.

mod batch;
mod crowded;
mod programs;

use crate::cpu_meter::CpuMeter;
use crate::error::Error;
use crate::live::cpus::Placement;
use crate::live::daemon::Daemon;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Against, Bound, Goal, MEGA};
use crate::live::memory_events::MemoryEvents;
use crate::live::metric::{Better, HUGE, MANAGER_CPU, Metric, RESIDENT, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::live::server::mariadb::{CLIENT, INSTALL, MARIADBD};
use crate::live::server::memcached::MEMCACHED;
use crate::live::server::redis::REDIS;
use crate::live::server::sysbench::SYSBENCH;

use super::java;
use super::lines::{GZIP, SORT};
use super::python::{self, GATHERED, SORTED};
use programs::Programs;

/// How many long-lived programs share the memory.
const SHARES: u64 = 5;

/// What a program may lose against the best mode that it could have had.
const RATE: Bound = Bound::AtLeast(0.97);
const LATENCY: Bound = Bound::AtMost(1.03);
/// What the programs' memory may be of that with base pages.
const MEMORY: Bound = Bound::AtMost(1.02);

const CACHE: Metric = rate("memcached_per_second", "requests to memcached per second");
const CACHE_P99: Metric =
    Metric::latency("memcached_p99_ns", "99 % of latencies of memcached below");
const FORKING: Metric = rate(
    "redis_per_second",
    "requests per second to Redis, which saves",
);
const FORKING_P99: Metric = Metric::latency("redis_p99_ns", "99 % of latencies of Redis below");
const SAVES: Metric = Metric::new(
    "redis_saves",
    "times that Redis saved",
    Unit::Count,
    Better::Higher,
);
const DATABASE: Metric = rate("mariadb_per_second", "transactions of MariaDB per second");
const DATABASE_P99: Metric =
    Metric::latency("mariadb_p99_ns", "99 % of latencies of MariaDB below");
const JVM: Metric = rate("jvm_per_second", "objects that a JVM visits per second");
const JVM_WORST: Metric = rate("jvm_worst_per_second", "the same in its slowest second");
const BATCH: Metric = rate("jobs_per_second", "short jobs (sort, gzip) per second");
const BATCH_LONGEST: Metric = Metric::new(
    "longest_job_seconds",
    "longest of the short jobs",
    Unit::Seconds,
    Better::Lower,
);
const SWAPPED: Metric = Metric::new(
    "swapped_pages",
    "base pages swapped out",
    Unit::Count,
    Better::Lower,
);
const KILLED: Metric = Metric::new(
    "killed",
    "programs that the OOM killer ended",
    Unit::Count,
    Better::Lower,
);

const fn rate(id: &'static str, title: &'static str) -> Metric {
    Metric::new(id, title, Unit::PerSecond, Better::Higher)
}

const fn at_most(metric: Metric, value: f64) -> Goal {
    Goal {
        metric: metric.id,
        of: MEGA,
        against: Against::Nothing,
        bound: Bound::AtMost(value),
    }
}

pub(super) const MACHINE: Experiment = Experiment {
    name: "machine",
    title: "six programs at once on a machine that is nearly full",
    about: "A fragmenter (MEGA's) leaves free, in pieces of 1 MiB, about a quarter more than the programs need, where --size is \
            two fifths of what is available or more; with less it takes four times the size. Then memcached and Redis (values of 4 KiB, read \
            and written 10 to 1 at random; Redis saves again and again by a fork), MariaDB (oltp_read_only), a JVM that follows a \
            ring of objects, and NumPy that sorts and gathers get a fifth of the size each, and short jobs (sort and gzip, one \
            after the other) run beside them. Everything runs on every CPU. In the mode of mega a daemon manages all of them by \
            defaults, and its state directory is empty but for the calibration. The time that is measured begins once all have \
            their data: promotions are in it.",
    paper: None,
    programs: &[
        MEMCACHED,
        REDIS,
        MARIADBD,
        INSTALL,
        CLIENT,
        SYSBENCH,
        java::PROGRAMS[0],
        java::PROGRAMS[1],
        python::PROGRAMS[0],
        python::PROGRAMS[1],
        SORT,
        GZIP,
    ],
    metrics: &[
        CACHE,
        CACHE_P99,
        FORKING,
        FORKING_P99,
        SAVES,
        DATABASE,
        DATABASE_P99,
        JVM,
        JVM_WORST,
        GATHERED,
        SORTED,
        BATCH,
        BATCH_LONGEST,
        RESIDENT,
        HUGE,
        SWAPPED,
        KILLED,
        MANAGER_CPU,
    ],
    goals: &[
        Goal::best_static(CACHE.id, RATE),
        Goal::best_static(CACHE_P99.id, LATENCY),
        Goal::best_static(FORKING.id, RATE),
        Goal::best_static(FORKING_P99.id, LATENCY),
        Goal::best_static(DATABASE.id, RATE),
        Goal::best_static(DATABASE_P99.id, LATENCY),
        Goal::best_static(JVM.id, RATE),
        Goal::best_static(JVM_WORST.id, RATE),
        Goal::best_static(GATHERED.id, RATE),
        Goal::best_static(SORTED.id, RATE),
        Goal::best_static(BATCH.id, RATE),
        Goal::best_static(BATCH_LONGEST.id, LATENCY),
        Goal::ratio(RESIDENT.id, &Mode::Base, MEMORY),
        at_most(SWAPPED, 0.0),
        at_most(KILLED, 0.0),
    ],
    modes,
    // Beside their data: what Redis copies while it saves, what NumPy needs to check, and the short jobs'.
    most_resident: 2,
    rounds: Rounds::WholeRuns(run),
    by_defaults: true,
};

fn modes() -> Vec<Mode> {
    Mode::STATIC.into_iter().chain([MEGA.clone()]).collect()
}

fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let fragmenter = crowded::fill(run)?;
    let members = Run {
        // A daemon sees to all of them: none has a manager of its own.
        mode: if run.mode.is_managed() {
            &Mode::Base
        } else {
            run.mode
        },
        placement: Placement::Everywhere,
        size: run.size / SHARES,
        ..*run
    };
    let daemon = Daemon::start(run, &programs::executables()?)?;
    let before = MemoryEvents::now()?;
    let programs = Programs::start(&members)?;
    let meter = daemon.as_ref().map(Daemon::meter).transpose()?;
    let sample = programs.work(&members)?;
    let events = MemoryEvents::now()?.since(before);
    let manager = meter.as_ref().map_or(Ok(0.0), CpuMeter::share)?;
    drop(daemon);
    fragmenter.finish()?;
    #[allow(clippy::cast_precision_loss)]
    Ok(sample
        .with(SWAPPED, events.swapped_out as f64)
        .with(KILLED, events.killed as f64)
        .with(MANAGER_CPU, manager))
}
