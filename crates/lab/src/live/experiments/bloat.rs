//! `bloat`: a real Redis that removes most of its objects, in memory that huge pages would keep.

use std::time::Instant;

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{HUGE, MANAGER_CPU, OPERATIONS, RESIDENT, Sample};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::live::server::redis::{BYTES_OF_4_KIB, REDIS, start};
use crate::live::server::redis_hashes::Hashes;
use crate::live::server::settling::settle_under_load;
use crate::random::{Random, below};
use crate::resident;

/// Of a hundred objects, those that are removed.
const REMOVED_PERCENT: usize = 40;

pub(super) const BLOAT: Experiment = Experiment {
    name: "bloat",
    title: "memory that Redis keeps after a removal",
    about: "A redis-server gets objects of 4 KiB, as fields of hashes, until it has the size; 40 % of them, drawn at \
            random, are removed; then all of the others are retrieved again and again, a hash at a time, and counted. \
            Before and after the removal its memory has time to settle. Redis gives freed memory back to the kernel \
            ten seconds later; it is told to do so at once. It advises nothing, so the khugepaged mode shows base pages \
            with khugepaged beside them.",
    paper: Some(PaperFigure {
        source: "MEGA, section 2.4 (6 GB of 8 removed)",
        systems: &["Linux base", "Linux huge"],
        rows: &[("Memory after the removal", &["7.6GB", "11.1GB"])],
    }),
    programs: &[REDIS],
    metrics: &[RESIDENT, OPERATIONS, HUGE, MANAGER_CPU],
    goals: &[
        Goal::ratio(RESIDENT.id, &Mode::Base, Bound::AtMost(1.05)),
        Goal::ratio(OPERATIONS.id, &Mode::Thp, Bound::AtLeast(0.95)),
    ],
    modes: super::server_modes,
    most_resident: 2,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let server = start(run)?;
    let objects = usize::try_from(run.size / BYTES_OF_4_KIB).unwrap_or(usize::MAX);
    let mut hashes = Hashes::store(server.port(), objects)?;
    let mut random = Random::new(run.seed);
    settle_under_load(run, &server, |go_on| {
        retrieve(&mut hashes, &mut random, go_on).map(|_| ())
    })?;
    hashes.remove(&drawn(objects, REMOVED_PERCENT, &mut random))?;
    hashes.purge()?;
    settle_under_load(run, &server, |go_on| {
        retrieve(&mut hashes, &mut random, go_on).map(|_| ())
    })?;
    let started = Instant::now();
    let go_on = || started.elapsed() < run.measured && !run.interrupt.came();
    let retrieved = retrieve(&mut hashes, &mut random, &go_on)?;
    let elapsed = started.elapsed();
    run.interrupt.check()?;
    // What the replies took is not to blur what the objects take.
    hashes.purge()?;
    let resident = resident::of(server.pid())?;
    server.stop()?;
    Ok(Sample::default()
        .with(RESIDENT, resident.resident_bytes as f64)
        .with(OPERATIONS, retrieved as f64 / elapsed.as_secs_f64())
        .with(HUGE, resident.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?))
}

/// The objects to remove, so many of a hundred: each with the same probability.
pub(super) fn drawn(objects: usize, percent: usize, random: &mut Random) -> Vec<usize> {
    (0..objects)
        .filter(|_| below(random.word(), 100) < percent)
        .collect()
}

/// Retrieves the objects of hashes at random for as long as it is told to go on; returns how many those were.
pub(super) fn retrieve(
    hashes: &mut Hashes,
    random: &mut Random,
    go_on: &dyn Fn() -> bool,
) -> Result<u64, Error> {
    let mut retrieved = 0;
    while go_on() {
        let hash = below(random.word(), hashes.count());
        retrieved += hashes.retrieve(hash)?;
    }
    Ok(retrieved)
}
