//! Whether a process will live to be paid back for its promotions.
//!
//! What has lived for a time is expected to live for about as long again. So promotions are made if what they save in that
//! time, or in the horizon where that is shorter, is more than they cost. Where nobody can measure what a process would gain,
//! that is not asked.

use std::collections::BTreeMap;

use crate::gain::{Circumstances, Gain};
use crate::observation::Observation;
use crate::process::ProcessId;

/// How many times as old as at its last measurement a process must be to be measured again.
const MEASURE_AGAIN: f64 = 2.0;

/// What is known of the processes that were seen.
#[derive(Debug, Default)]
pub(super) struct Paybacks {
    lives: BTreeMap<ProcessId, Life>,
    /// Those that should be measured, as of the last decision.
    unmeasured: Vec<ProcessId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Seconds since it was first observed.
    lived: f64,
    measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    /// How long it had lived then, in seconds.
    at: f64,
    /// `None` where it could not be measured.
    gain: Option<Gain>,
}

impl Paybacks {
    /// Brings it up to an observation.
    pub(super) fn update(&mut self, observation: &Observation) {
        let before = std::mem::take(&mut self.lives);
        let interval = observation.interval.as_secs_f64();
        self.lives = observation
            .processes
            .iter()
            .map(|process| {
                let known = before.get(&process.process).copied();
                let life = known.map_or(Life::default(), |life| Life {
                    lived: life.lived + interval,
                    ..life
                });
                (process.process, life)
            })
            .collect();
        self.unmeasured.clear();
    }

    /// Whether `promotions` of a process will be paid back. Notes what should be measured to know.
    pub(super) fn pays(
        &mut self,
        process: ProcessId,
        promotions: usize,
        horizon: f64,
        circumstances: &Circumstances,
    ) -> bool {
        let Some(life) = self
            .lives
            .get(&process)
            .filter(|_| circumstances.measures && promotions > 0)
        else {
            return true;
        };
        let Some(measured) = life.measured else {
            self.unmeasured.push(process);
            return false;
        };
        let Some(gain) = measured.gain else {
            return true;
        };
        // The meter may miss touches: only what surely is not paid back is left alone.
        #[allow(clippy::cast_precision_loss)]
        let price = promotions as f64 * circumstances.price.cpu_seconds(&gain);
        let pays = price <= gain.saved_at_most() * life.lived.min(horizon);
        if !pays && life.lived >= measured.at * MEASURE_AGAIN {
            self.unmeasured.push(process);
        }
        pays
    }

    pub(super) fn unmeasured(&self) -> &[ProcessId] {
        &self.unmeasured
    }

    pub(super) fn learn(&mut self, process: ProcessId, gain: Option<Gain>) {
        if let Some(life) = self.lives.get_mut(&process) {
            // A process that lives for a moment only is not measured again at once.
            let at = life.lived.max(1.0);
            life.measured = Some(Measured { at, gain });
        }
    }
}
