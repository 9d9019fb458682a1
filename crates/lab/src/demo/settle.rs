//! Finds when a program under a manager has settled. The demo measures its speed from then on.

use std::time::Duration;

/// How long huge memory must stay as it is: two observations of the manager, and the promotions after them.
const QUIET: Duration = Duration::from_millis(2500);

/// Watches a program's huge memory grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    /// All that can pay to be huge, in bytes: nothing to wait for beyond.
    wanted: u64,
    /// How long to wait at most.
    longest: Duration,
    /// Bytes in huge pages when last looked, and since when.
    huge: u64,
    since: Duration,
}

impl Settle {
    pub(super) fn new(wanted: u64, longest: Duration) -> Self {
        Settle {
            wanted,
            longest,
            huge: 0,
            since: Duration::ZERO,
        }
    }

    /// Whether a program that has `huge` bytes in huge pages, `elapsed` after it was ready, has settled.
    pub(super) fn reached(&mut self, elapsed: Duration, huge: u64) -> bool {
        if huge != self.huge {
            self.huge = huge;
            self.since = elapsed;
        }
        let quiet = huge > 0 && elapsed.saturating_sub(self.since) >= QUIET;
        huge >= self.wanted || quiet || elapsed >= self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: u64 = 512 << 20;

    fn settle() -> Settle {
        Settle::new(WANTED, Duration::from_secs(20))
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn all_that_is_wanted_is_enough() {
        assert!(settle().reached(at(0.1), WANTED));
    }

    #[test]
    fn growth_is_waited_for() {
        let mut settle = settle();
        assert!(!settle.reached(at(5.0), 0));
        assert!(!settle.reached(at(6.0), 2 << 20));
        assert!(!settle.reached(at(8.4), 4 << 20));
        assert!(!settle.reached(at(10.8), 4 << 20));
        assert!(settle.reached(at(10.9), 4 << 20));
    }

    #[test]
    fn it_does_not_wait_for_ever() {
        let mut settle = settle();
        assert!(!settle.reached(at(19.9), 0));
        assert!(settle.reached(at(20.0), 0));
    }
}
