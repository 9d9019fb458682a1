//! The programs that share the machine.

use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::live::experiments::lines::{GZIP, SORT, text};
use crate::live::experiments::python::{GATHERED, SORTED};
use crate::live::experiments::saving::save_again_and_again;
use crate::live::metric::{HUGE, RESIDENT, Sample};
use crate::live::process::Process;
use crate::live::run::Run;
use crate::live::server::Server;
use crate::live::server::load::{Load, Loaded};
use crate::live::server::mariadb::{MARIADBD, MariaDb, Table, ThpDisable};
use crate::live::server::memcached::{self, MEMCACHED};
use crate::live::server::memcached_text::MemcachedText;
use crate::live::server::protocol::Protocol;
use crate::live::server::redis::{self, BYTES_OF_4_KIB, REDIS};
use crate::live::server::requests::{Request, gets_and_sets};
use crate::live::server::resp::Resp;
use crate::live::server::sysbench::{Report, read_at_once};
use crate::resident;
use crate::workload::report::{Done, Ready};

use super::batch::{self, run_jobs};
use super::{
    BATCH, BATCH_LONGEST, CACHE, CACHE_P99, DATABASE, DATABASE_P99, FORKING, FORKING_P99, JVM,
    JVM_WORST, SAVES, java, python,
};

/// Clients of each key-value server: they are closed loops, so more would only wait for one another.
const CLIENTS: usize = 4;

/// The files of the programs that a manager is to manage.
///
/// # Errors
/// When one is not installed.
pub(super) fn executables() -> Result<Vec<PathBuf>, Error> {
    let programs = [
        MEMCACHED,
        REDIS,
        MARIADBD,
        java::PROGRAMS[0],
        python::PROGRAMS[0],
        SORT,
        GZIP,
    ];
    let file = |path: PathBuf| {
        std::fs::canonicalize(&path)
            .map_err(|e| Error::io(format!("finding the file of {}", path.display()), e))
    };
    programs
        .into_iter()
        .map(|program| file(program.find()?))
        .collect()
}

/// All programs, with their data.
pub(super) struct Programs {
    cache: Server,
    forking: Server,
    database: MariaDb,
    jvm: (Process, Ready),
    numpy: (Process, Ready),
    /// What the short jobs read.
    text: PathBuf,
    keys: u64,
    table: Table,
}

/// What those came to that have a load.
struct Loads {
    cache: Loaded,
    forking: Loaded,
    saves: u32,
    database: Report,
    jobs: batch::Jobs,
}

impl Programs {
    /// Starts them one after the other, each with memory of the run's size.
    ///
    /// # Errors
    /// When one is not installed, cannot be started or fails, or when interrupted.
    pub(super) fn start(run: &Run<'_>) -> Result<Self, Error> {
        let keys = run.size / BYTES_OF_4_KIB;
        java::compile(run)?;
        let text = text(run, batch::bytes(run.size))?;
        let cache = memcached::start(run, run.size)?;
        load(run, &cache).send_all::<MemcachedText>(run, (0..keys).map(Request::Set))?;
        let forking = redis::start(run)?;
        load(run, &forking).send_all::<Resp>(run, (0..keys).map(Request::Set))?;
        let (database, table) = MariaDb::start_filled(run, run.size, ThpDisable::Works)?;
        Ok(Programs {
            cache,
            forking,
            database,
            jvm: run.ready_workload(java::command(run)?)?,
            numpy: run.ready_workload(python::command(run)?)?,
            text,
            keys,
            table,
        })
    }

    /// Lets all of them work for the time that is measured, ends them, and tells what they came to.
    ///
    /// # Errors
    /// When one fails, or finds its data wrong, or when interrupted.
    pub(super) fn work(self, run: &Run<'_>) -> Result<Sample, Error> {
        let loads = self.under_load(run)?;
        let sample = self.resident(Sample::default())?;
        let jvm = self.jvm.0.finish()?;
        self.numpy.0.finish()?;
        let numpy = python::rates(run)?;
        self.database.check(run, &self.table)?;
        self.cache.stop()?;
        self.forking.stop()?;
        self.database.server.stop()?;
        let sample = loads.add_to(sample);
        Ok(sample
            .with(JVM, jvm.rate_over_last(run.measured))
            .with(JVM_WORST, slowest_second(&jvm, run.measured))
            .with(GATHERED, numpy.gathered)
            .with(SORTED, numpy.sorted))
    }

    /// All loads at once, each from a thread.
    fn under_load(&self, run: &Run<'_>) -> Result<Loads, Error> {
        let Programs {
            cache,
            forking,
            database,
            text,
            keys,
            table,
            ..
        } = self;
        thread::scope(|scope| {
            let cache = scope.spawn(|| ask::<MemcachedText>(run, cache, *keys));
            let saves =
                scope.spawn(|| as_a_client(run, || save_again_and_again(run, forking.port())));
            let forking = scope.spawn(|| ask::<Resp>(run, forking, *keys));
            let database =
                scope.spawn(|| as_a_client(run, || read_at_once(run, database, table.rows, 99)));
            let jobs = scope.spawn(|| run_jobs(run, text));
            Ok(Loads {
                cache: joined(cache)?,
                forking: joined(forking)?,
                saves: joined(saves)?,
                database: joined(database)?,
                jobs: joined(jobs)?,
            })
        })
    }

    /// The memory of all together.
    #[allow(clippy::cast_precision_loss)]
    fn resident(&self, sample: Sample) -> Result<Sample, Error> {
        let (mut resident, mut huge) = (0, 0);
        for pid in [
            self.cache.pid(),
            self.forking.pid(),
            self.database.server.pid(),
            self.jvm.1.pid,
            self.numpy.1.pid,
        ] {
            let of_one = resident::of(pid)?;
            resident += of_one.resident_bytes;
            huge += of_one.huge_bytes;
        }
        Ok(sample
            .with(RESIDENT, resident as f64)
            .with(HUGE, huge as f64))
    }
}

impl Loads {
    fn add_to(self, sample: Sample) -> Sample {
        let jobs = f64::from(self.jobs.done) / self.jobs.elapsed.as_secs_f64();
        sample
            .with(CACHE, self.cache.rate())
            .with(CACHE_P99, self.cache.latency_at(99.0))
            .with(FORKING, self.forking.rate())
            .with(FORKING_P99, self.forking.latency_at(99.0))
            .with(SAVES, f64::from(self.saves))
            .with(DATABASE, self.database.transactions_per_second)
            .with(DATABASE_P99, self.database.percentile)
            .with(BATCH, jobs)
            .with(BATCH_LONGEST, self.jobs.longest.as_secs_f64())
    }
}

fn load(run: &Run<'_>, server: &Server) -> Load {
    Load {
        port: server.port(),
        connections: CLIENTS,
        value_bytes: 4 << 10,
        placement: run.placement,
    }
}

fn ask<P: Protocol>(run: &Run<'_>, server: &Server, keys: u64) -> Result<Loaded, Error> {
    let started = Instant::now();
    let requests = gets_and_sets(keys, run.seed).take_while(|_| started.elapsed() < run.measured);
    load(run, server).send_all::<P>(run, requests)
}

/// Does something where clients run; what it starts runs there too.
fn as_a_client<T>(run: &Run<'_>, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let _moved = run.placement.move_client()?;
    work()
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread
        .join()
        .map_err(|_| Error::Failed("the thread of a load ended".into()))?
}

/// The rate in the slowest whole second of the last `measured`; the rate over all of it where that is less than a second.
fn slowest_second(done: &Done, measured: Duration) -> f64 {
    let rates = &done.operations_per_second_over_time;
    let first = done.seconds - measured.as_secs_f64();
    let slowest = rates.slowest_second(first, done.seconds);
    let overall = done.rate_over_last(measured);
    slowest.map_or(overall, |slowest| slowest.min(overall))
}
