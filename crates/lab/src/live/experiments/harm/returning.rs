//! Redis that gives most of its memory back, page by page.

use std::time::Instant;

use super::Worked;
use crate::error::Error;
use crate::live::experiments::bloat::{drawn, retrieve};
use crate::live::run::Run;
use crate::live::server::redis::{BYTES_OF_4_KIB, HugePages, REDIS, start_by};
use crate::live::server::redis_hashes::Hashes;
use crate::meminfo;
use crate::random::Random;

/// Of a hundred objects, those that are removed: as many as in MEGA, section 2.4 (6 GB of 8).
const REMOVED_PERCENT: usize = 75;

/// Gives Redis the run's memory in objects, removes most of them at random, has it give their pages back, and retrieves the others
/// for the time that is measured.
///
/// # Errors
/// When it cannot be started, fails, gives an answer that is wrong, or when interrupted.
#[allow(clippy::cast_precision_loss)]
pub(super) fn give_most_back(run: &Run<'_>) -> Result<Worked, Error> {
    let before = meminfo::anonymous()?;
    let server = start_by(run, run.unpinned_command(REDIS.find()?)?, HugePages::Left)?;
    let objects = usize::try_from(run.size / BYTES_OF_4_KIB).unwrap_or(usize::MAX);
    let mut hashes = Hashes::store(server.port(), objects)?;
    let mut random = Random::new(run.seed);
    hashes.remove(&drawn(objects, REMOVED_PERCENT, &mut random))?;
    hashes.purge()?;
    let started = Instant::now();
    let go_on = || started.elapsed() < run.measured && !run.interrupt.came();
    let retrieved = retrieve(&mut hashes, &mut random, &go_on)?;
    let elapsed = started.elapsed();
    run.interrupt.check()?;
    // What the replies took is not to blur what the objects take.
    hashes.purge()?;
    let taken = meminfo::anonymous()?.saturating_sub(before);
    server.stop()?;
    Ok(Worked {
        taken: taken as f64,
        rate: retrieved as f64 / elapsed.as_secs_f64(),
    })
}
