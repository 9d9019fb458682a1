//! When a workload ends: after a time, or when standard input ends, whichever comes first, or after some operations; and when
//! it rests before.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::orders::{Orders, Rest};
use crate::error::Error;

/// Seconds to run where nothing else ends the run.
const DEFAULT_SECONDS: f64 = 10.0;
/// How long [`Stop::wait`] sleeps between looks.
const LOOK: Duration = Duration::from_millis(20);

/// The end of the run, asked for by [`Stop::reached`].
pub(super) struct Stop {
    time: Option<Duration>,
    operations: Option<u64>,
    started: Instant,
    orders: Arc<Orders>,
}

impl Stop {
    /// Ends after `seconds`, when standard input ends if `until_eof`, or after ten seconds if neither is
    /// asked for.
    pub(super) fn new(seconds: Option<f64>, until_eof: bool) -> Self {
        let seconds = seconds.or((!until_eof).then_some(DEFAULT_SECONDS));
        let orders = Arc::new(Orders::new());
        if until_eof {
            let orders = Arc::clone(&orders);
            thread::spawn(move || orders.obey(std::io::stdin().lock()));
        }
        Stop {
            time: seconds.map(Duration::from_secs_f64),
            operations: None,
            started: Instant::now(),
            orders,
        }
    }

    /// Ends once `operations` are done.
    pub(super) fn after(operations: u64) -> Self {
        Stop {
            time: None,
            operations: Some(operations),
            started: Instant::now(),
            orders: Arc::new(Orders::new()),
        }
    }

    /// How many operations the run ends after, where it is not for another reason that it ends.
    pub(super) fn operations(&self) -> Option<u64> {
        self.operations
    }

    /// Starts the time now.
    pub(super) fn start(&mut self) {
        self.started = Instant::now();
    }

    /// Time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the run is over.
    pub(super) fn reached(&self) -> bool {
        self.orders.are_to_end() || self.time.is_some_and(|time| self.elapsed() >= time)
    }

    /// When a slice that starts now ends: after `longest`, or less where the run would have fewer than `least` of them,
    /// and no later than the run.
    pub(super) fn slice_end(&self, longest: Duration, least: u32) -> Instant {
        let now = Instant::now();
        match self.time {
            Some(time) => (now + longest.min(time / least)).min(self.started + time),
            None => now + longest,
        }
    }

    /// The rest that the run is to take now, if any.
    pub(super) fn to_rest(&self) -> Option<Rest> {
        self.orders.rest()
    }

    /// Sleeps until the run is to go on after a rest, or is over.
    pub(super) fn rest(&self, rest: Rest) {
        self.orders
            .wait_for_work(rest, self.time.map(|time| self.started + time));
    }

    /// Sleeps until the run is over.
    pub(super) fn wait(&self) {
        while !self.reached() {
            thread::sleep(LOOK);
        }
    }

    /// Whether the run ended as it should.
    ///
    /// # Errors
    /// When standard input said something that is not understood.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.orders.check()
    }
}
