//! How many promotions of a process pay, given how long it will live.
//!
//! What has lived for a time is expected to live for about as long again. So a promotion is made if what it saves in that time, or
//! in the horizon where that is shorter, is more than it costs. It may end at once all the same, and then the price is lost. So:
//!
//! - What is paid back [soon](SOON) after the start is promoted in one go: a program that lives for a few seconds has it back.
//! - Else promotions go no further ahead of what they have saved than a [small part](DEBT) of the time that the process has lived
//!   beyond that. The more is huge, the more is saved, and the faster it goes on.
//!
//! Where nobody can measure what a process would gain, none of that is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::gain::{Circumstances, Gain, Price};
use crate::observation::Observation;
use crate::process::ProcessId;

/// How many times as old as at its last measurement a process must be to be measured again.
const MEASURE_AGAIN: f64 = 2.0;

/// What is paid back before a process has this age, in seconds, is paid back soon: if it lives for five, it has it back and the time that
/// promoting took.
const SOON: f64 = 4.5;

/// What promotions may cost beyond what they have saved: CPU time, by that which the process has had since it was as old as it takes
/// until one is paid back. What is huge by then saves ever more. So whenever the process ends, it has lost 2 % of its time at most
/// (the property `a_program_that_ends_at_any_time_has_lost_little`).
const DEBT: f64 = 0.025;

/// What is known of the processes that were seen.
#[derive(Debug, Default)]
pub(super) struct Paybacks {
    lives: BTreeMap<ProcessId, Life>,
    /// Those that should be measured, as of the last decision.
    unmeasured: Vec<ProcessId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Seconds since it started, as far as that is known; since it was first observed where it is not.
    lived: f64,
    /// Regions mapped by huge pages at the last observation.
    huge: usize,
    measured: Option<Measured>,
    /// CPU seconds that promotions cost since it was measured first, and what they saved since.
    spent: f64,
    saved: f64,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    /// How long it had lived then, in seconds.
    at: f64,
    /// `None` where it could not be measured.
    gain: Option<Gain>,
    /// Regions mapped by huge pages then.
    huge: usize,
    /// Regions that were to be promoted then, at least one.
    promotions: usize,
}

impl Measured {
    /// What one promotion of so many that are left saves, as a part of the whole gain, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    fn part_of_one(&self, left: usize, huge: usize) -> f64 {
        let made = huge.saturating_sub(self.huge);
        1.0 / self.promotions.max(left + made) as f64
    }
}

impl Life {
    /// The same after an interval of so many seconds, with so many huge regions at its end.
    #[allow(clippy::cast_precision_loss)]
    fn after(self, interval: f64, huge: usize, price: &Price) -> Self {
        let mut life = Life {
            lived: self.lived + interval,
            huge,
            ..self
        };
        if let Some((measured, gain)) = self.measured.and_then(|known| Some((known, known.gain?))) {
            let made = huge.saturating_sub(self.huge) as f64;
            let had = self.huge.saturating_sub(measured.huge) as f64 + made / 2.0;
            let share = (had / measured.promotions as f64).min(1.0);
            life.spent += made * price.cpu_seconds(&gain);
            life.saved += share * gain.saved_share.value.max(0.0) * gain.cpus * interval;
        }
        life
    }
}

impl Paybacks {
    /// Brings it up to an observation, in which so many regions of each process are `huge`.
    pub(super) fn update(
        &mut self,
        observation: &Observation,
        huge: impl Fn(ProcessId) -> usize,
        price: &Price,
    ) {
        let before = std::mem::take(&mut self.lives);
        let interval = observation.interval.as_secs_f64();
        self.lives = observation
            .processes
            .iter()
            .map(|process| {
                let huge = huge(process.process);
                let new = Life {
                    huge,
                    ..Life::default()
                };
                let known = before.get(&process.process);
                let life = known.map_or(new, |life| life.after(interval, huge, price));
                (process.process, life)
            })
            .collect();
        self.unmeasured.clear();
    }

    /// How many of `promotions` of a process will be paid back. Notes what should be measured to know.
    pub(super) fn paying(
        &mut self,
        process: ProcessId,
        promotions: usize,
        horizon: f64,
        circumstances: &Circumstances,
    ) -> usize {
        let Some(life) = self
            .lives
            .get_mut(&process)
            .filter(|_| circumstances.measures && promotions > 0)
        else {
            return promotions;
        };
        let Some(measured) = &mut life.measured else {
            self.unmeasured.push(process);
            return 0;
        };
        let Some(gain) = measured.gain else {
            return promotions;
        };
        measured.promotions = measured.promotions.max(promotions);
        // The meter may miss touches: only what surely is not paid back is left alone.
        let part = measured.part_of_one(promotions, life.huge);
        let price = circumstances.price.cpu_seconds(&gain);
        let saves = gain.saved_at_most() * part;
        if price > saves * life.lived.min(horizon) {
            if life.lived >= measured.at * MEASURE_AGAIN {
                self.unmeasured.push(process);
            }
            return 0;
        }
        let payback = price / saves;
        if life.lived + payback <= SOON {
            return promotions;
        }
        let room = life.saved + DEBT * gain.cpus * (life.lived - payback) - life.spent;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let paid = (room / price) as usize;
        paid.min(promotions)
    }

    pub(super) fn unmeasured(&self) -> &[ProcessId] {
        &self.unmeasured
    }

    pub(super) fn learn(&mut self, process: ProcessId, gain: Option<Gain>, age: Duration) {
        if let Some(life) = self.lives.get_mut(&process) {
            life.lived = life.lived.max(age.as_secs_f64());
            // A process that lives for a moment only is not measured again at once.
            let at = life.lived.max(1.0);
            life.measured = Some(Measured {
                at,
                gain,
                huge: life.huge,
                promotions: 1,
            });
        }
    }
}
