//! A closed-loop load on a key-value server: each connection has one request under way and sends the next after the
//! answer, as `redis-benchmark` and `memtier_benchmark` do. One thread serves all connections.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Server;
use super::lane::{Lane, wait};
use super::protocol::Protocol;
use super::requests::{Request, gets_and_sets};
use super::settling::settle_under_load;
use crate::error::Error;
use crate::live::cpus::Placement;
use crate::live::run::Run;

/// Decimal digits to which latencies are told apart.
const DIGITS: u8 = 3;

/// A load on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Where it listens on loopback.
    pub(crate) port: u16,
    /// Requests under way at a time.
    pub(crate) connections: usize,
    /// Bytes of each value, a multiple of 8.
    pub(crate) value_bytes: usize,
    /// Where the thread runs that serves them.
    pub(crate) placement: Placement,
}

impl Load {
    /// Sends requests until there are no more, and checks every answer: each key that is asked for was set before.
    ///
    /// # Errors
    /// When a connection fails, the server complains or does not answer for a minute, or a value is not what was
    /// stored.
    pub(crate) fn send<P: Protocol>(
        &self,
        mut requests: impl Iterator<Item = Request>,
    ) -> Result<Loaded, Error> {
        let _moved = self.placement.move_client()?;
        let mut loaded = Loaded::new()?;
        let mut lanes = (0..self.connections)
            .map(|_| Lane::open(self.port))
            .collect::<Result<Vec<_>, _>>()?;
        let started = Instant::now();
        for (lane, request) in lanes.iter_mut().zip(&mut requests) {
            lane.request::<P>(request, self.value_bytes)?;
        }
        while lanes.iter().any(Lane::is_busy) {
            for ready in wait(&lanes)? {
                let lane = &mut lanes[ready];
                let Some(latency) = lane.go_on::<P>(self.value_bytes)? else {
                    continue;
                };
                loaded.count(latency)?;
                if let Some(request) = requests.next() {
                    lane.request::<P>(request, self.value_bytes)?;
                }
            }
        }
        loaded.elapsed = started.elapsed();
        Ok(loaded)
    }

    /// Sends requests until there are no more or the lab is interrupted.
    ///
    /// # Errors
    /// As [`Load::send`], and when interrupted.
    pub(crate) fn send_all<P: Protocol>(
        &self,
        run: &Run<'_>,
        requests: impl Iterator<Item = Request>,
    ) -> Result<Loaded, Error> {
        let loaded = self.send::<P>(requests.take_while(|_| !run.interrupt.came()))?;
        run.interrupt.check()?;
        Ok(loaded)
    }

    /// Asks for numbers below `keys` at random, and stores one for every ten ([`gets_and_sets`]): until a server's
    /// huge memory has settled, and then for the time that is measured, which alone is told.
    ///
    /// # Errors
    /// As [`Load::send`], and when interrupted.
    pub(crate) fn get_and_set<P: Protocol>(
        &self,
        run: &Run<'_>,
        server: &Server,
        keys: u64,
    ) -> Result<Loaded, Error> {
        settle_under_load(run, server, |go_on| {
            let requests = gets_and_sets(keys, run.seed).take_while(|_| go_on());
            self.send::<P>(requests).map(|_| ())
        })?;
        let started = Instant::now();
        let requests = gets_and_sets(keys, run.seed.wrapping_add(1))
            .take_while(|_| started.elapsed() < run.measured);
        self.send_all::<P>(run, requests)
    }
}

/// What a load came to.
pub(crate) struct Loaded {
    operations: u64,
    elapsed: Duration,
    /// Time from when a request begins to be sent to when its answer is there, in nanoseconds.
    latency: Histogram<u64>,
}

impl Loaded {
    fn new() -> Result<Self, Error> {
        let latency = Histogram::new(DIGITS)
            .map_err(|e| Error::Failed(format!("making a histogram of latencies: {e}")))?;
        Ok(Loaded {
            operations: 0,
            elapsed: Duration::ZERO,
            latency,
        })
    }

    fn count(&mut self, latency: Duration) -> Result<(), Error> {
        self.operations += 1;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency
            .record(nanoseconds)
            .map_err(|e| Error::Failed(format!("recording a latency of {latency:?}: {e}")))
    }

    /// Operations per second; 0 for no time at all.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.operations as f64 / seconds
        } else {
            0.0
        }
    }

    /// A percentile of the latency, in nanoseconds.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn latency_at(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64
    }
}
