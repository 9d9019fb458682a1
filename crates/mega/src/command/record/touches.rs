//! When a process's touches are measured for a recording, and what is kept of that.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::gain::{HAS_GROWN, MEASURE_AGAIN};
use mega_core::worth::{Calibration, predict};
use mega_core::{Gain, Observation, ProcessId, ProcessObservation};
use mega_linux::calibrate;
use mega_linux::touches::Effort;
use mega_linux::{Error, Host, LinuxMachine};
use mega_record::TouchRate;

/// As much as the manager takes before it decides on promotions.
const EFFORT: Effort = Effort {
    at_most: Duration::from_millis(300),
    precision: 0.2,
    share: 0.1,
    seed: 0,
};

/// The age and the CPU time by which any process counts at least.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Measures touches, of one process after each look.
pub(super) struct TouchMeter {
    /// Whether this tracker reads single pages' bits, as far as is known.
    can_measure: bool,
    calibration: Option<Calibration>,
    due: BTreeMap<ProcessId, Due>,
}

/// When a process is to be measured: when it is [`MEASURE_AGAIN`] times as old as at its last measurement, by the clock or by its CPU
/// time, or base pages map [`HAS_GROWN`] times as much of its memory, as `adaptive` asks for all of these.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// When it was first seen with base pages.
    since: Duration,
    next: Duration,
    /// CPU time that it has had, and with how much it is due; `None` where nobody knows.
    cpu_time: Option<Duration>,
    next_cpu_time: Option<Duration>,
    /// Base pages that it had at its last measurement.
    measured: u64,
    /// Those that it has: without one there is nothing to gain.
    base_pages: u64,
}

impl Due {
    fn new(now: Duration, base_pages: u64) -> Self {
        Due {
            since: now,
            next: now,
            cpu_time: None,
            next_cpu_time: None,
            measured: base_pages,
            base_pages,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn is_due(&self, now: Duration) -> bool {
        let has_grown = self.base_pages as f64 >= self.measured as f64 * HAS_GROWN;
        let has_worked =
            (self.cpu_time.zip(self.next_cpu_time)).is_some_and(|(now, next)| now >= next);
        self.base_pages > 0 && (now >= self.next || has_worked || has_grown)
    }

    /// It is measured now.
    fn pass(&mut self, now: Duration) {
        // One that was only just seen is not measured again at once.
        let age = now.saturating_sub(self.since).max(AT_LEAST);
        self.next = self.since + age.mul_f64(MEASURE_AGAIN);
        self.next_cpu_time = (self.cpu_time).map(|had| had.max(AT_LEAST).mul_f64(MEASURE_AGAIN));
        self.measured = self.base_pages;
    }
}

/// Those that huge pages could replace.
fn base_pages(observed: &ProcessObservation) -> u64 {
    let regions = observed.regions.iter().filter(|region| !region.is_huge());
    regions.map(|region| u64::from(region.mapped)).sum()
}

impl TouchMeter {
    pub(super) fn new(host: &Host) -> Self {
        TouchMeter {
            can_measure: host.tracker_kind().knows_accesses(),
            // Without one, what was touched is recorded all the same.
            calibration: calibrate::kept(host.kernel().as_ref()),
            due: BTreeMap::new(),
        }
    }

    /// Whether it measures anything.
    pub(super) fn can_measure(&self) -> bool {
        self.can_measure
    }

    /// Whether it says what huge pages would gain, too.
    pub(super) fn is_calibrated(&self) -> bool {
        self.calibration.is_some()
    }

    /// Measures the one of the observed processes that has waited the longest, if one is due.
    pub(super) fn measure(
        &mut self,
        machine: &mut LinuxMachine,
        observation: &Observation,
        now: Duration,
    ) -> Option<(ProcessId, TouchRate)> {
        if !self.can_measure {
            return None;
        }
        self.update(observation, now);
        let due = self.due.iter_mut().filter(|(_, due)| due.is_due(now));
        let (&process, due) = due.min_by_key(|(_, due)| due.next)?;
        due.pass(now);
        let effort = Effort {
            seed: process.start_time,
            ..EFFORT
        };
        match machine.measure_touches(process, effort) {
            Ok(touches) if touches.tell_how_often() => {
                let gain = self.calibration.as_ref();
                let gain = gain.map(|calibration| Gain::from(&predict(&touches, calibration)));
                Some((process, TouchRate::new(&touches, gain)))
            }
            Err(Error::Missing { .. }) => {
                self.can_measure = false;
                None
            }
            // It ran too little, or ended.
            Ok(_) | Err(_) => None,
        }
    }

    /// Forgets the processes that are gone, and begins with those that have their first base pages.
    fn update(&mut self, observation: &Observation, now: Duration) {
        let before = std::mem::take(&mut self.due);
        for observed in &observation.processes {
            let base_pages = base_pages(observed);
            let known = before.get(&observed.process).copied();
            let first = (base_pages > 0).then(|| Due::new(now, base_pages));
            if let Some(due) = known.or(first) {
                let due = Due {
                    cpu_time: observed.cpu_time,
                    base_pages,
                    ..due
                };
                self.due.insert(observed.process, due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_due_at_once_then_at_twice_its_age_or_when_it_has_grown() {
        let seconds = Duration::from_secs;
        let mut due = Due::new(seconds(10), 512);
        assert!(due.is_due(seconds(10)));
        due.pass(seconds(10));
        assert!(!due.is_due(seconds(11)));
        assert!(due.is_due(seconds(12)));
        due.pass(seconds(14));
        assert!(!due.is_due(seconds(17)));
        assert!(due.is_due(seconds(18)));
        due.base_pages = 767;
        assert!(!due.is_due(seconds(17)));
        due.base_pages = 768;
        assert!(due.is_due(seconds(17)));
        due.pass(seconds(17));
        assert!(!due.is_due(seconds(18)));
        due.base_pages = 0;
        assert!(!due.is_due(seconds(1000)));
    }

    #[test]
    fn a_process_is_due_when_it_has_worked_twice_as_long() {
        let seconds = Duration::from_secs;
        let mut due = Due::new(seconds(0), 512);
        due.cpu_time = Some(seconds(3));
        due.pass(seconds(1000));
        due.cpu_time = Some(seconds(5));
        assert!(!due.is_due(seconds(1001)));
        due.cpu_time = Some(seconds(6));
        assert!(due.is_due(seconds(1001)));
    }
}
