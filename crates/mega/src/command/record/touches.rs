//! When a process's touches are measured for a recording, and what is kept of that.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::worth::{Calibration, predict};
use mega_core::{Gain, ProcessId};
use mega_linux::calibrate::{self, Stored};
use mega_linux::touches::Effort;
use mega_linux::{Error, Host, LinuxMachine};
use mega_record::TouchRate;

/// A process is measured again when it is this many times as old as at its last measurement: the same that `adaptive` asks for, so
/// that what it cost falls with time.
const MEASURE_AGAIN: u32 = 2;
/// As much as the manager takes before it decides on promotions.
const EFFORT: Effort = Effort {
    at_most: Duration::from_millis(300),
    precision: 0.2,
    share: 0.1,
    seed: 0,
};

/// Measures touches, of one process after each look.
pub(super) struct TouchMeter {
    /// Whether this tracker reads single pages' bits, as far as is known.
    can_measure: bool,
    calibration: Option<Box<Calibration>>,
    /// When each process was seen first, and when it is to be measured next.
    due: BTreeMap<ProcessId, (Duration, Duration)>,
}

impl TouchMeter {
    pub(super) fn new(host: &Host) -> Self {
        let calibration = match calibrate::load(host.kernel().as_ref()) {
            Ok(Stored::Valid(calibration)) => Some(calibration),
            // What was touched is recorded all the same.
            Ok(Stored::Not(_)) | Err(_) => None,
        };
        TouchMeter {
            can_measure: host.tracker_kind().knows_accesses(),
            calibration,
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

    /// Measures the one of these processes that has waited the longest, if one is due.
    pub(super) fn measure(
        &mut self,
        machine: &mut LinuxMachine,
        processes: impl Iterator<Item = ProcessId>,
        now: Duration,
    ) -> Option<(ProcessId, TouchRate)> {
        if !self.can_measure {
            return None;
        }
        let before = std::mem::take(&mut self.due);
        self.due = processes
            .map(|process| (process, before.get(&process).copied().unwrap_or((now, now))))
            .collect();
        let due = self.due.iter().filter(|(_, (_, due))| *due <= now);
        let (&process, &(since, _)) = due.min_by_key(|(_, (_, due))| *due)?;
        // One that was only just seen is not measured again at once.
        let age = now.saturating_sub(since).max(Duration::from_secs(1));
        self.due
            .insert(process, (since, since + age * MEASURE_AGAIN));
        let effort = Effort {
            seed: process.start_time,
            ..EFFORT
        };
        match machine.measure_touches(process, effort) {
            Ok(touches) if touches.tell_how_often() => {
                let gain = self.calibration.as_deref();
                let gain = gain.map(|calibration| Gain::from(&predict(&touches, calibration)));
                let rate = TouchRate {
                    per_cpu_second: touches.per_cpu_second.value,
                    cpus: touches.cpu_share,
                    working_set: touches.working_set,
                    gain,
                };
                Some((process, rate))
            }
            Err(Error::Missing { .. }) => {
                self.can_measure = false;
                None
            }
            // It ran too little, or ended.
            Ok(_) | Err(_) => None,
        }
    }
}
