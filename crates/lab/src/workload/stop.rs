//! When a workload ends: after a time, or when standard input ends, whichever comes first.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds to run where nothing else ends the run.
const DEFAULT_SECONDS: f64 = 10.0;
/// How long [`Stop::wait`] sleeps between looks.
const LOOK: Duration = Duration::from_millis(20);

/// The end of the run, asked for by [`Stop::reached`].
pub(super) struct Stop {
    time: Option<Duration>,
    started: Instant,
    ended_input: Arc<AtomicBool>,
}

impl Stop {
    /// Ends after `seconds`, when standard input ends if `until_eof`, or after ten seconds if neither is
    /// asked for.
    pub(super) fn new(seconds: Option<f64>, until_eof: bool) -> Self {
        let seconds = seconds.or((!until_eof).then_some(DEFAULT_SECONDS));
        let ended_input = Arc::new(AtomicBool::new(false));
        if until_eof {
            let ended = Arc::clone(&ended_input);
            thread::spawn(move || {
                wait_for_eof();
                ended.store(true, Ordering::Relaxed);
            });
        }
        Stop {
            time: seconds.map(Duration::from_secs_f64),
            started: Instant::now(),
            ended_input,
        }
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
        self.ended_input.load(Ordering::Relaxed)
            || self.time.is_some_and(|time| self.elapsed() >= time)
    }

    /// Sleeps until the run is over.
    pub(super) fn wait(&self) {
        while !self.reached() {
            thread::sleep(LOOK);
        }
    }
}

/// Reads standard input away until it ends; one that cannot be read has ended.
fn wait_for_eof() {
    let mut input = std::io::stdin().lock();
    let mut buffer = [0; 64];
    while matches!(input.read(&mut buffer), Ok(read) if read > 0) {}
}
