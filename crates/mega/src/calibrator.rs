//! Has this machine calibrated while the daemon runs, where that was not done: once, at an idle moment, by a process of its own.
//! So what it takes is not the daemon's CPU time, and its memory is gone when it ends.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mega_linux::calibrate::{self, Stored};
use mega_linux::kernel::Kernel;
use mega_linux::observe::idle::IdleCpus;
use tracing::{info, warn};

/// CPUs that have nothing to do, so that a calibration takes none from anybody. One that is idle is never so without a break.
const IDLE: f64 = 0.9;

/// Waits for an idle moment, and has the machine calibrated then.
pub(crate) struct Calibrator {
    idle: IdleCpus,
    course: Course,
}

enum Course {
    /// Until a CPU has been idle for long enough; since when it has been.
    Waiting(Option<Duration>),
    /// By this process, which began then.
    Measuring(Measuring, Duration),
    /// It is calibrated, or cannot be.
    Over,
}

impl Calibrator {
    /// Whether something is left to do is seen at the first [`Calibrator::update`].
    pub(crate) fn new() -> Self {
        Calibrator {
            idle: IdleCpus::default(),
            course: Course::Waiting(None),
        }
    }

    /// Goes on. Begins to measure where a CPU has been idle for `wait`, and never where that is `None`. True when there is a new
    /// calibration.
    pub(crate) fn update(&mut self, kernel: &dyn Kernel, wait: Option<Duration>) -> bool {
        let now = kernel.now();
        match &mut self.course {
            Course::Over => false,
            Course::Waiting(since) => {
                let rested = rested(since, self.idle.since_last(kernel), now);
                // No time at all is also had where no CPU is idle.
                if wait.is_some_and(|wait| rested.unwrap_or_default() >= wait) {
                    self.course = begin(kernel, now);
                }
                false
            }
            Course::Measuring(measuring, began) => match measuring.outcome() {
                None => false,
                Some(outcome) => {
                    let took = now.saturating_sub(*began);
                    self.course = Course::Over;
                    tell(outcome.and_then(|()| kept(kernel)), took)
                }
            },
        }
    }
}

/// For how long a CPU has been idle without a break: `since` is since when, as of the last time.
fn rested(since: &mut Option<Duration>, idle: Option<f64>, now: Duration) -> Option<Duration> {
    match idle {
        Some(idle) if idle >= IDLE => Some(now.saturating_sub(*since.get_or_insert(now))),
        _ => {
            *since = None;
            None
        }
    }
}

/// Begins to measure, unless that is not needed.
fn begin(kernel: &dyn Kernel, now: Duration) -> Course {
    match calibrate::load(kernel) {
        Ok(Stored::Valid(_)) => Course::Over,
        Ok(Stored::Not(why)) => match Measuring::start() {
            Ok(measuring) => {
                info!("calibrating this machine: {why}");
                Course::Measuring(measuring, now)
            }
            Err(error) => {
                warn!("this machine is not calibrated: cannot start a process for it: {error}");
                Course::Over
            }
        },
        Err(error) => {
            warn!("this machine is not calibrated: {error}");
            Course::Over
        }
    }
}

/// Whether what was measured is there, for the managers.
fn kept(kernel: &dyn Kernel) -> Result<(), String> {
    match calibrate::load(kernel) {
        Ok(Stored::Valid(_)) => Ok(()),
        Ok(Stored::Not(why)) => Err(format!("it was measured, and not kept: {why}")),
        Err(error) => Err(error.to_string()),
    }
}

fn tell(outcome: Result<(), String>, took: Duration) -> bool {
    match &outcome {
        Ok(()) => info!(
            "calibrated this machine in {:.0} s: from now on `adaptive` asks whether promotions are paid back",
            took.as_secs_f64()
        ),
        Err(why) => {
            warn!("this machine is not calibrated: {why}; `mega doctor --calibrate` tries again")
        }
    }
    outcome.is_ok()
}

/// A process that measures. It ends with this; that of a killed daemon goes on to its end, a few seconds later.
struct Measuring(Child);

impl Measuring {
    fn start() -> std::io::Result<Self> {
        // Not by its name: that may be another version by now.
        let child = Command::new("/proc/self/exe")
            .args(["doctor", "--calibrate", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Measuring(child))
    }

    /// What came of it, in words where it failed. `None` while it goes on.
    fn outcome(&mut self) -> Option<Result<(), String>> {
        match self.0.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) if status.success() => Some(Ok(())),
            Ok(Some(status)) => {
                let mut said = String::new();
                if let Some(stderr) = &mut self.0.stderr {
                    // Without it there is still the status.
                    let _ = stderr.read_to_string(&mut said);
                }
                let said = said.trim().lines().next_back().unwrap_or_default();
                Some(Err(format!("{status}, {said}")))
            }
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // It changes nothing but its own memory.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_rested_for_as_long_as_a_cpu_was_idle_at_every_look(
            looks in prop::collection::vec(prop::option::of(0.0..4.0_f64), 1..40),
        ) {
            let mut since = None;
            let mut last = None;
            for (second, idle) in looks.iter().enumerate() {
                last = rested(&mut since, *idle, Duration::from_secs(second as u64));
            }
            let idle = |look: &&Option<f64>| look.is_some_and(|idle| idle >= IDLE);
            let unbroken = looks.iter().rev().take_while(idle).count() as u64;
            prop_assert_eq!(last, unbroken.checked_sub(1).map(Duration::from_secs));
        }
    }
}
