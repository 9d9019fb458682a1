//! Redis that saves again and again by a fork, while clients ask it and tell it.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::live::cpus::Placement;
use crate::live::experiments::saving::save_again_and_again;
use crate::live::run::Run;
use crate::live::server::load::{Load, Loaded};
use crate::live::server::redis::{BYTES_OF_4_KIB, HugePages, REDIS, start_by};
use crate::live::server::requests::{Request, gets_and_sets};
use crate::live::server::resp::Resp;
use crate::meminfo;

/// As many as ask a server of `machine`.
const CLIENTS: usize = 4;
/// Between two looks at how much memory is held.
const LOOK: Duration = Duration::from_millis(100);

/// What came of it.
pub(super) struct Saved {
    /// The most bytes that the machine held more.
    pub(super) taken: f64,
    pub(super) load: Loaded,
}

/// Starts Redis, gives it the run's memory in values of 4 KiB, and has it save under a load for the time that is measured.
///
/// # Errors
/// When it cannot be started, fails, gives an answer that is wrong, cannot save, or when interrupted.
#[allow(clippy::cast_precision_loss)]
pub(super) fn save_under_load(run: &Run<'_>, huge_pages: HugePages) -> Result<Saved, Error> {
    let before = meminfo::anonymous()?;
    let server = start_by(run, run.unpinned_command(REDIS.find()?)?, huge_pages)?;
    let load = Load {
        port: server.port(),
        connections: CLIENTS,
        value_bytes: 4 << 10,
        placement: Placement::Everywhere,
    };
    let keys = run.size / BYTES_OF_4_KIB;
    load.send_all::<Resp>(run, (0..keys).map(Request::Set))?;
    let (most, load) = thread::scope(|scope| {
        let saving = scope.spawn(|| save_again_and_again(run, server.port()));
        let most = scope.spawn(|| most_anonymous(run));
        let started = Instant::now();
        let requests =
            gets_and_sets(keys, run.seed).take_while(|_| started.elapsed() < run.measured);
        let load = load.send_all::<Resp>(run, requests)?;
        saving.join().map_err(|_| ended("that saves"))??;
        let most = most.join().map_err(|_| ended("that looks at memory"))??;
        Ok((most, load))
    })?;
    server.stop()?;
    Ok(Saved {
        taken: most.saturating_sub(before) as f64,
        load,
    })
}

/// The most that anonymous memory holds within the time that is measured.
fn most_anonymous(run: &Run<'_>) -> Result<u64, Error> {
    let started = Instant::now();
    let mut most = 0;
    while started.elapsed() < run.measured {
        most = most.max(meminfo::anonymous()?);
        run.sleep(LOOK)?;
    }
    Ok(most)
}

fn ended(which: &str) -> Error {
    Error::Failed(format!("the thread {which} ended"))
}
