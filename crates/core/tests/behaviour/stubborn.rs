//! A policy that asks for the same, whatever it sees.

use mega_core::{Action, ActionKind, FailureMemory, Observation, Policy, RegionRef};

/// Asks for the same promotions, in this order.
pub(crate) struct Stubborn(pub(crate) Vec<RegionRef>);

impl Policy for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn decide(&mut self, _observation: &Observation, _failures: &FailureMemory) -> Vec<Action> {
        let promote = |target: &RegionRef| Action {
            kind: ActionKind::Promote,
            target: *target,
        };
        self.0.iter().map(promote).collect()
    }
}
