//! A look at what is accessed in a moment.
//!
//! Intervals grow to seconds, and in seconds a program may go over all of its memory though nearly all of its touches go to a part. So where
//! the policy asks for it, the engine waits for a moment after the observation has cleared the Accessed bits, and reads them once more. That
//! costs half a millisecond a GiB, and the programs nothing: they set each bit once in any case.

use crate::machine::Machine;
use crate::observation::{Glance, Observation};

use super::{Engine, Interval};

/// Waits for a moment after an observation, and looks at what was accessed in it. Nothing, at once, where the machine cannot tell.
pub fn after_a_moment<M: Machine>(machine: &mut M) -> Vec<Glance> {
    if !machine.can_glance() {
        return Vec::new();
    }
    machine.rest(Interval::SHORTEST);
    machine.glance()
}

impl Engine {
    /// Adds to an observation of a long interval what is accessed in a moment, if the policy wants to know that.
    pub(super) fn glance<M: Machine>(&self, machine: &mut M, observation: &mut Observation) {
        // A recording has them already.
        let is_wanted = observation.glances.is_empty() && self.policy.glances();
        if is_wanted && !self.shows_a_moment(observation) {
            observation.glances = after_a_moment(machine);
        }
    }

    /// Whether an observation itself shows what was accessed in a moment, of all processes of which the policy wants to know that.
    fn shows_a_moment(&self, observation: &Observation) -> bool {
        let mut processes = observation.processes.iter();
        Interval::is_moment(observation.interval)
            && processes.all(|seen| seen.accesses_known || !self.policy.watches(seen.process))
    }
}
