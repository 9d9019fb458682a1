//! What huge pages would gain each process, as it was measured last.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::gain::Gain;
use crate::observation::Observation;
use crate::process::ProcessId;

/// What huge pages would gain a process, and how long ago that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredGain {
    /// What base pages mapped then counts; what was huge already does not.
    #[serde(flatten)]
    pub gain: Gain,
    /// The time since.
    pub ago: Duration,
}

/// The gains of all processes that were measured.
#[derive(Debug, Default)]
pub(super) struct Gains {
    /// Each with when it was measured.
    by_process: BTreeMap<ProcessId, (Gain, Duration)>,
}

impl Gains {
    /// Forgets the processes that are gone.
    pub(super) fn begin_step(&mut self, observation: &Observation) {
        self.by_process
            .retain(|process, _| observation.process(*process).is_some());
    }

    /// Notes what a process would gain. What was measured before stands where that could not be measured, and where most of what it
    /// was about is huge by now: what is left says nothing of that.
    pub(super) fn record(&mut self, process: ProcessId, gain: Option<Gain>, now: Duration) {
        let Some(gain) = gain else {
            return;
        };
        let known = self.by_process.get(&process);
        let is_of_a_rest =
            known.is_some_and(|(known, _)| gain.cost_cpu_seconds < known.cost_cpu_seconds / 2.0);
        if !is_of_a_rest {
            self.by_process.insert(process, (gain, now));
        }
    }

    /// What is known of a process.
    pub(super) fn of(&self, process: ProcessId, now: Duration) -> Option<MeasuredGain> {
        let (gain, measured) = self.by_process.get(&process)?;
        Some(MeasuredGain {
            gain: *gain,
            ago: now.saturating_sub(*measured),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worth::Estimate;

    #[test]
    fn a_measurement_of_what_is_left_does_not_replace_that_of_all() {
        let process = ProcessId {
            pid: 1,
            start_time: 1,
        };
        let gain = |share, cost_cpu_seconds| Gain {
            saved_share: Estimate::exact(share),
            cpus: 1.0,
            cost_cpu_seconds,
            payback_seconds: None,
            saved_by_giant_share: None,
            working_set: 0,
        };
        let mut gains = Gains::default();
        let mut known = |gain, now| {
            gains.record(process, Some(gain), Duration::from_secs(now));
            gains.of(process, Duration::from_secs(now)).unwrap().gain
        };
        assert_eq!(known(gain(0.4, 2.0), 1), gain(0.4, 2.0));
        assert_eq!(known(gain(0.0, 0.1), 2), gain(0.4, 2.0));
        assert_eq!(known(gain(0.3, 1.5), 3), gain(0.3, 1.5));
    }
}
