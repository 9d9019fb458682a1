//! A program while it runs, and how much it did meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::asked::Asked;
use super::program::{Kind, Program};
use super::truth::Measured;
use super::turns::Window;
use super::{duckdb, mariadb, sqlite};
use crate::error::Error;
use crate::live::experiments::{java, python};
use crate::live::process::Process;
use crate::live::run::Run;
use crate::live::server::Server;
use crate::live::server::load::Load;
use crate::live::server::memcached_text::MemcachedText;
use crate::live::server::protocol::Protocol;
use crate::live::server::requests::{Request, gets_and_sets};
use crate::live::server::resp::Resp;
use crate::live::server::{memcached, redis};

/// Bytes of a server's values, and what each takes of its memory with key and heads.
const VALUE: usize = 1 << 10;
const BYTES_PER_VALUE: u64 = 1400;
/// Requests under way at a time.
const CLIENTS: usize = 8;
/// How far from a window's ends a program's own slices must stay, in seconds: its clock began when it was ready, and that
/// was heard a moment later.
const MARGIN: f64 = 0.05;

/// A program that is at work.
pub(super) struct Running {
    pid: u32,
    /// When it was ready.
    since: Instant,
    what: What,
}

enum What {
    Workload(Process),
    Server(Server, Clients),
    Asked(Asked),
    MariaDb(mariadb::Asking),
}

/// What keeps a server at work.
struct Clients {
    thread: JoinHandle<Result<(), Error>>,
    stop: Arc<AtomicBool>,
    /// Requests begun.
    requests: Arc<AtomicU64>,
}

impl Running {
    /// Starts it and waits until its memory is there.
    pub(super) fn start(program: &Program, run: &Run<'_>) -> Result<Self, Error> {
        match program.kind {
            Kind::Workload(name) => {
                let mut command = run.workload(name)?;
                command.arg(format!("--size={}", run.size));
                Self::workload(run, command)
            }
            Kind::SmallWorkload(name) => Self::workload(run, run.workload(name)?),
            Kind::Java => {
                java::compile(run)?;
                Self::workload(run, java::command(run)?)
            }
            Kind::Python => Self::workload(run, python::command(run)?),
            Kind::Sqlite => {
                let asked = sqlite::start(run)?;
                Ok(Running::from_now(asked.pid(), What::Asked(asked)))
            }
            Kind::DuckDb => {
                let asked = duckdb::start(run)?;
                Ok(Running::from_now(asked.pid(), What::Asked(asked)))
            }
            Kind::MariaDb => {
                let asking = mariadb::Asking::start(run)?;
                Ok(Running::from_now(asking.pid(), What::MariaDb(asking)))
            }
            Kind::Redis => Self::server::<Resp>(run, redis::start(run)?),
            Kind::Memcached => {
                Self::server::<MemcachedText>(run, memcached::start(run, run.size / 4 * 5)?)
            }
        }
    }

    fn workload(run: &Run<'_>, command: std::process::Command) -> Result<Self, Error> {
        let (process, ready) = run.ready_workload(command)?;
        Ok(Running::from_now(ready.pid, What::Workload(process)))
    }

    fn server<P: Protocol>(run: &Run<'_>, server: Server) -> Result<Self, Error> {
        let load = Load {
            port: server.port(),
            connections: CLIENTS,
            value_bytes: VALUE,
            placement: run.placement,
        };
        let keys = (run.size / BYTES_PER_VALUE).max(1);
        load.send_all::<P>(run, (0..keys).map(Request::Set))?;
        let clients = Clients::start::<P>(load, keys, run.seed);
        Ok(Running::from_now(
            server.pid(),
            What::Server(server, clients),
        ))
    }

    /// A program that is ready now.
    fn from_now(pid: u32, what: What) -> Self {
        Running {
            pid,
            since: Instant::now(),
            what,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Seconds since it was ready.
    pub(super) fn seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Operations that others asked of it so far; 0 where it counts them itself.
    pub(super) fn requests(&self) -> u64 {
        match &self.what {
            What::Workload(_) => 0,
            What::Server(_, clients) => clients.requests.load(Ordering::Relaxed),
            What::Asked(asked) => asked.answers(),
            What::MariaDb(asking) => asking.answers(),
        }
    }

    /// Ends it, and says what it did in each window.
    ///
    /// # Errors
    /// When it failed, or found its data wrong.
    pub(super) fn finish(self, run: &Run<'_>, windows: &[Window]) -> Result<Vec<Measured>, Error> {
        match self.what {
            What::Workload(process) => {
                let done = process.finish()?;
                let rates = &done.operations_per_second_over_time;
                return Ok(windows
                    .iter()
                    .filter_map(|window| {
                        let rate = rates.between(window.from + MARGIN, window.to - MARGIN)?;
                        Some(window.measured(rate))
                    })
                    .collect());
            }
            What::Server(server, clients) => {
                clients.finish()?;
                server.stop()?;
            }
            What::Asked(asked) => asked.finish()?,
            What::MariaDb(asking) => asking.finish(run)?,
        }
        Ok(windows
            .iter()
            .map(|window| window.measured(window.request_rate()))
            .collect())
    }
}

impl Clients {
    fn start<P: Protocol>(load: Load, keys: u64, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&requests));
        let thread = std::thread::spawn(move || {
            let asked = gets_and_sets(keys, seed)
                .take_while(|_| !stopped.load(Ordering::Relaxed))
                .inspect(|_| {
                    counted.fetch_add(1, Ordering::Relaxed);
                });
            load.send::<P>(asked).map(drop)
        });
        Clients {
            thread,
            stop,
            requests,
        }
    }

    fn finish(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| Error::Failed("a server's clients panicked".to_owned()))?
    }
}
