//! Policies: pure and deterministic, from observations to an ordered list of actions.

mod adaptive;
mod base;
mod hawkeye;
mod ingens;
mod mega;
mod memory;
mod parameters;
mod registry;
mod spans;
mod tracked;
mod trident;
mod trident_1g_only;
mod trident_nc;

pub(crate) use parameters::Values;
pub use parameters::{ParameterInfo, Parameters};
pub(crate) use registry::check_parameters;
pub use registry::{BuildError, DEFAULT_POLICY, PolicyInfo, build, registry};

use crate::action::{Action, Outcome};
use crate::observation::{Observation, RegionRef};

/// Decides what to promote and what to demote.
///
/// A policy has memory (histories, backoff) but no clock, no I/O and no randomness: the same sequence of
/// calls gives the same decisions. Observations reach it normalised ([`Observation::normalise`]).
pub trait Policy: Send {
    /// The name it is selected by.
    fn name(&self) -> &'static str;

    /// The regions whose zero-filled base pages it wants counted before it decides, most wanted first.
    /// Each costs a pass over 2 MiB of the target's memory; the engine grants as many as the CPU budget
    /// allows.
    fn inspect(&mut self, _observation: &Observation) -> Vec<RegionRef> {
        Vec::new()
    }

    /// What to do now, most wanted first. The engine performs as much of it as the budgets allow.
    fn decide(&mut self, observation: &Observation) -> Vec<Action>;

    /// What came of an action it asked for. Actions that the budgets cut off are not reported: they were
    /// not tried.
    fn learn(&mut self, _action: &Action, _outcome: Outcome) {}

    /// Intervals of constant input after which its decisions no longer change (MEGA averages over N).
    fn settling_intervals(&self) -> usize {
        1
    }
}
