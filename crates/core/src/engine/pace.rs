//! How fast promotions follow each other, so that programs run on meanwhile and the manager leaves CPUs to others.
//!
//! The kernel unmaps a region while it copies it. A program that uses all of its memory runs into it at once, and stands
//! still until the copy is done; and soon after into the next region. So for as long as the manager promotes in one go,
//! the program does next to nothing. What it loses in sum is the time of all copies, in whatever order they are made. So
//! promotions come in short bursts, and after each the program runs for as long as the bound on its standing still asks.
//! Shorter bursts lose no more in sum, and nobody who waits for the program waits long.

use std::time::Duration;

use crate::process::ProcessId;

/// How long a burst of promotions of one process takes, so that it stands still for no longer in one go. Where a single
/// promotion takes longer, a burst is one.
pub(super) const BURST: f64 = 10e-3;
/// The longest that a process is left to run after a burst: one that took very long was not spent copying alone.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// The share of a core that the manager uses while it has something to do and no CPU is idle.
const SHARE_WHEN_BUSY: f64 = 0.5;
/// Below this share of a core the manager rests.
const RESTS: f64 = 0.1;
/// CPUs that are idle beside the manager, from which on it takes nothing from anybody.
const SURELY_IDLE: f64 = 0.25;
/// The least that a program's standing still is bounded to, of its time.
const LEAST_STANDSTILL: f64 = 1e-3;

/// Who has to be left to run, and until when the manager itself has to rest.
#[derive(Debug)]
pub(super) struct Pace {
    /// Share of its time that a process may stand still.
    standstill: f64,
    /// Share of a core that the manager may use just now.
    rate: f64,
    /// CPUs that are idle while the manager rests, at most one.
    idle: f64,
    free_at: Duration,
    resting: Vec<(ProcessId, Duration)>,
}

impl Pace {
    pub(super) fn new(standstill: f64) -> Self {
        let mut pace = Pace {
            standstill: 1.0,
            rate: 1.0,
            idle: 0.5,
            free_at: Duration::ZERO,
            resting: Vec::new(),
        };
        pace.set_standstill(standstill);
        pace
    }

    pub(super) fn set_standstill(&mut self, share: f64) {
        // What is no number is taken for the least.
        self.standstill = if share > LEAST_STANDSTILL {
            share.min(1.0)
        } else {
            LEAST_STANDSTILL
        };
    }

    /// Sets what the manager may use, by the CPUs that were idle, which may be unknown, and those that the manager itself used: never
    /// less than the `share` of the account, and never more than one core.
    pub(super) fn set_rate(&mut self, idle: Option<f64>, own: f64, share: f64) {
        let left = idle.map(|idle| idle + own);
        let by_idle = left.map_or(1.0, |left| left.clamp(SHARE_WHEN_BUSY, 1.0));
        self.rate = share.min(1.0).max(by_idle);
        match idle {
            None => self.idle = 0.5,
            // Whether what the manager used would have been idle cannot be told where hardly anything else was.
            Some(idle) if own < RESTS || idle > SURELY_IDLE => {
                self.idle = (idle + own).clamp(0.0, 1.0);
            }
            Some(_) => {}
        }
    }

    /// CPUs that others leave idle, 0 to 1: half of one where that is not known.
    pub(super) fn idle(&self) -> f64 {
        self.idle
    }

    /// How many promotions make a burst, where each takes `each` seconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn burst(&self, each: f64) -> usize {
        if self.standstill >= 1.0 {
            return usize::MAX;
        }
        ((BURST / each) as usize).max(1)
    }

    /// Whether a process may be promoted now, as far as it is concerned.
    pub(super) fn is_rested(&self, process: ProcessId, now: Duration) -> bool {
        self.rested_at(process) <= now
    }

    /// How long the next promotion of a process has to wait.
    pub(super) fn wait(&self, process: ProcessId, now: Duration) -> Duration {
        self.rested_at(process)
            .max(self.free_at)
            .saturating_sub(now)
    }

    fn rested_at(&self, process: ProcessId) -> Duration {
        let known = self.resting.iter().find(|(id, _)| *id == process);
        known.map_or(Duration::ZERO, |(_, until)| *until)
    }

    /// A process stood still for so long until now.
    pub(super) fn stood(&mut self, process: ProcessId, time: Duration, now: Duration) {
        let rest = time.mul_f64((1.0 - self.standstill) / self.standstill);
        self.resting
            .retain(|(id, until)| *until > now && *id != process);
        if !rest.is_zero() {
            self.resting.push((process, now + rest.min(LONGEST_REST)));
        }
    }

    /// The manager used so much CPU time since `began`.
    pub(super) fn worked(&mut self, began: Duration, used: Duration) {
        self.free_at = began + used.div_f64(self.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: ProcessId = ProcessId {
        pid: 1,
        start_time: 1,
    };

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn a_process_runs_as_long_as_its_bound_asks() {
        let mut pace = Pace::new(0.2);
        pace.stood(PROCESS, ms(10), ms(100));
        assert!(!pace.is_rested(PROCESS, ms(139)));
        assert!(pace.is_rested(PROCESS, ms(140)));
        assert_eq!(pace.wait(PROCESS, ms(110)), ms(30));
        let another = ProcessId { pid: 2, ..PROCESS };
        assert!(pace.is_rested(another, ms(100)));
        assert_eq!(pace.burst(2e-3), 5);
        assert_eq!(pace.burst(1.0), 1);
    }

    #[test]
    fn without_a_bound_nobody_waits() {
        let mut pace = Pace::new(1.0);
        pace.stood(PROCESS, ms(1000), ms(1000));
        assert_eq!(pace.wait(PROCESS, ms(1000)), Duration::ZERO);
        assert_eq!(pace.burst(1.0), usize::MAX);
    }

    #[test]
    fn what_the_manager_takes_from_others_was_not_idle() {
        let mut pace = Pace::new(1.0);
        for (idle, own, wanted) in [
            (Some(0.0), 0.01, 0.01),
            // It may have had a CPU to itself, or not.
            (Some(0.0), 0.9, 0.01),
            (Some(0.5), 0.9, 1.0),
            (Some(0.1), 0.5, 1.0),
            (None, 0.5, 0.5),
        ] {
            pace.set_rate(idle, own, 0.25);
            assert!((pace.idle() - wanted).abs() < 1e-9, "{idle:?}, {own}");
        }
    }

    #[test]
    fn the_manager_rests_where_no_cpu_is_idle() {
        let mut pace = Pace::new(1.0);
        for (idle, share, wait) in [
            (None, 0.25, 0),
            (Some(1.7), 0.25, 0),
            (Some(0.0), 0.25, 10),
            (Some(0.0), 0.8, 3),
            (Some(f64::NAN), 0.25, 30),
        ] {
            pace.set_rate(idle, 0.0, share);
            pace.worked(ms(50), ms(10));
            let waits = pace.wait(PROCESS, ms(60)).as_millis();
            assert!(waits.abs_diff(wait) <= 1, "{idle:?}: {waits}");
        }
    }
}
