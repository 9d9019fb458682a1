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
        self.by_process.retain(|process, _| {
            let observed = &observation.processes;
            let place = observed.binary_search_by_key(process, |observed| observed.process);
            place.is_ok()
        });
    }

    /// Notes what a process would gain. Where that could not be measured, what was measured before stands.
    pub(super) fn record(&mut self, process: ProcessId, gain: Option<Gain>, now: Duration) {
        if let Some(gain) = gain {
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
