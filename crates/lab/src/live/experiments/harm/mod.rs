//! `harm`: programs that huge pages from faults harm, or that are said to be harmed by them.

mod forking;
mod programs;
mod returning;

use super::java;
use super::python;
use crate::error::Error;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Bound, Goal, MEGA};
use crate::live::metric::{Better, MANAGER_CPU, Metric, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::live::server::redis::{HugePages, REDIS};

/// What a program may lose against base pages: it is here because base pages are right for it.
const RATE: Bound = Bound::AtLeast(0.97);
/// What a program and its manager may take, of what the program takes with base pages. The manager's own is in it.
const MEMORY: Bound = Bound::AtMost(1.05);

/// What is measured of each program.
#[derive(Clone, Copy)]
struct Metrics {
    /// What the machine holds in anonymous memory while it runs, its manager's among it: what a program gave back, and the kernel
    /// did not get, is resident nowhere.
    taken: Metric,
    rate: Metric,
}

const fn metrics(
    taken: &'static str,
    taken_title: &'static str,
    rate: &'static str,
    rate_title: &'static str,
) -> Metrics {
    Metrics {
        taken: Metric::new(taken, taken_title, Unit::Bytes, Better::Lower),
        rate: Metric::new(rate, rate_title, Unit::PerSecond, Better::Higher),
    }
}

const RETURNING: Metrics = metrics(
    "returning_bytes",
    "memory of Redis which gave three objects in four back",
    "returning_per_second",
    "objects retrieved per second from Redis which gave memory back",
);
const SPARSE: Metrics = metrics(
    "sparse_bytes",
    "memory of a sparse table",
    "sparse_per_second",
    "events that a sparse table counts per second",
);
const STACKS: Metrics = metrics(
    "stacks_bytes",
    "memory of a JVM's stacks",
    "stacks_per_second",
    "threads that a JVM starts per second",
);
const FORKING: Metrics = metrics(
    "forking_bytes",
    "most memory of Redis while it saves",
    "forking_per_second",
    "requests per second to Redis while it saves",
);
const FORKING_LONGEST: Metric = Metric::latency(
    "forking_longest_ns",
    "longest latency of Redis while it saves",
);
const SWITCHED_OFF: Metrics = metrics(
    "switched_off_bytes",
    "most memory of Redis, as it comes, while it saves",
    "switched_off_per_second",
    "requests per second to Redis, as it comes, while it saves",
);
const SWITCHED_OFF_LONGEST: Metric = Metric::latency(
    "switched_off_longest_ns",
    "longest latency of Redis, as it comes, while it saves",
);

pub(super) const HARM: Experiment = Experiment {
    name: "harm",
    title: "programs that huge pages from faults harm",
    about: "Programs that take memory by pages, one after the other, by defaults and on every CPU: Redis that gets objects \
            of 4 KiB, removes three in four at random, has its allocator (jemalloc) give their pages back and is asked for the others; NumPy that \
            counts events in a table of which one page in 16 is used (with NUMPY_MADVISE_HUGEPAGE=0, as it would ask for huge \
            pages otherwise); a JVM with a thread for each MiB of the size, each with a stack of 4 MiB of which it uses some 64 KiB; \
            and Redis that saves again and again by a fork while it is asked and told values of 4 KiB, 10 to 1, once with huge \
            pages left as they are (--disable-thp no) and once as it comes, when it switches them off for itself. What \
            a program takes is what the machine holds more in anonymous memory, the manager's own among it. The manager's CPU share is that \
            of the program that has it work most.",
    paper: None,
    programs: &[
        python::PROGRAMS[0],
        python::PROGRAMS[1],
        java::PROGRAMS[0],
        java::PROGRAMS[1],
        REDIS,
    ],
    metrics: &[
        RETURNING.taken,
        RETURNING.rate,
        SPARSE.taken,
        SPARSE.rate,
        STACKS.taken,
        STACKS.rate,
        FORKING.taken,
        FORKING.rate,
        FORKING_LONGEST,
        SWITCHED_OFF.taken,
        SWITCHED_OFF.rate,
        SWITCHED_OFF_LONGEST,
        MANAGER_CPU,
    ],
    goals: &[
        Goal::ratio(RETURNING.taken.id, &Mode::Base, MEMORY),
        Goal::ratio(RETURNING.rate.id, &Mode::Base, RATE),
        Goal::ratio(SPARSE.taken.id, &Mode::Base, MEMORY),
        Goal::ratio(SPARSE.rate.id, &Mode::Base, RATE),
        Goal::ratio(STACKS.taken.id, &Mode::Base, MEMORY),
        Goal::ratio(FORKING.taken.id, &Mode::Base, MEMORY),
        Goal::ratio(FORKING.rate.id, &Mode::Base, RATE),
        Goal::ratio(SWITCHED_OFF.taken.id, &Mode::Base, MEMORY),
        Goal::ratio(SWITCHED_OFF.rate.id, &Mode::Base, RATE),
    ],
    modes,
    // What Redis copies while it saves.
    most_resident: 2,
    rounds: Rounds::WholeRuns(run),
    by_defaults: true,
};

/// What a program came to.
struct Worked {
    /// Bytes that the machine held more when the program had worked for the time that is measured.
    taken: f64,
    /// Operations per second.
    rate: f64,
}

/// Runs a program for the time that is measured.
type Work = fn(&Run<'_>) -> Result<Worked, Error>;

/// Those that nothing disturbs.
const MEMBERS: [(Metrics, Work); 3] = [
    (RETURNING, returning::give_most_back),
    (SPARSE, programs::sparse_table),
    (STACKS, programs::stacks),
];

fn modes() -> Vec<Mode> {
    vec![Mode::Base, Mode::Thp, MEGA.clone()]
}

fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let mut sample = Sample::default();
    let mut managers = Vec::new();
    for (metrics, work) in MEMBERS {
        let worked = work(run)?;
        managers.push(run.manager_cpu_share()?);
        sample = sample
            .with(metrics.taken, worked.taken)
            .with(metrics.rate, worked.rate);
    }
    for (metrics, longest, huge_pages) in [
        (FORKING, FORKING_LONGEST, HugePages::Left),
        (SWITCHED_OFF, SWITCHED_OFF_LONGEST, HugePages::SwitchedOff),
    ] {
        let saved = forking::save_under_load(run, huge_pages)?;
        managers.push(run.manager_cpu_share()?);
        sample = sample
            .with(metrics.taken, saved.taken)
            .with(metrics.rate, saved.load.rate())
            .with(longest, saved.load.latency_at(100.0));
    }
    let most = managers.into_iter().fold(0.0, f64::max);
    Ok(sample.with(MANAGER_CPU, most))
}
