//! What to promote and what to demote: the policies, each in a file of its own.
//!
//! A policy is pure and deterministic. It turns an observation into an ordered list of actions.

mod adaptive;
mod base;
mod hawkeye;
mod info;
mod ingens;
mod mega;
mod memory;
mod promise;
mod registry;
mod spans;
mod tracked;
mod trident;
mod trident_1g_only;
mod trident_nc;

pub use crate::build_error::BuildError;
pub use crate::parameters::{ParameterInfo, Parameters};
pub use info::{MachineSetting, PolicyInfo};
pub use promise::with_promise;
pub use registry::{DEFAULT_POLICY, build, registry};

use std::time::Duration;

use crate::action::{Action, Outcome};
use crate::failures::FailureMemory;
use crate::gain::{Circumstances, Gain};
use crate::observation::{Observation, RegionRef};
use crate::process::ProcessId;

/// Decides what to promote and what to demote.
///
/// A policy has memory (histories) but no clock, no I/O and no randomness: the same sequence of
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

    /// What to do now, most wanted first and each thing once. The engine performs as much of it as the budgets
    /// allow; what `failures` holds back it leaves out by itself.
    fn decide(&mut self, observation: &Observation, failures: &FailureMemory) -> Vec<Action>;

    /// What came of an action it asked for. Actions that the budgets cut off are not reported: they were
    /// not tried.
    fn learn(&mut self, _action: &Action, _outcome: Outcome) {}

    /// By process, the blocks that it left regions waiting for because free blocks are scarce, beyond those that its last
    /// decision takes. Compaction is asked for them.
    fn blocks_short(&self) -> Vec<(ProcessId, u64)> {
        Vec::new()
    }

    /// Whether it demotes to give memory back. Then a demotion that gives back none was in vain, and the engine holds
    /// back others like it for a while.
    fn demotes_to_give_back(&self) -> bool {
        false
    }

    /// Whether it can be asked at intervals of any length. Otherwise it is asked at equal ones, as its paper has it.
    fn bears_any_interval(&self) -> bool {
        false
    }

    /// Says under which circumstances it decides next. Without being told, they are the default ones.
    fn expect(&mut self, _circumstances: Circumstances) {}

    /// Whether it wants to know what a process accesses. Asked before each observation where the machine can measure gains, of processes
    /// that it never saw, too.
    fn watches(&self, _process: ProcessId) -> bool {
        true
    }

    /// Whether it wants to know what processes access in a moment ([`crate::Machine::glance`]), where an observation was of a longer
    /// interval.
    fn glances(&self) -> bool {
        false
    }

    /// Processes whose gain from huge pages it must know before it decides about them: most wanted first, as of its last
    /// decision. The engine asks where the machine can measure that, which takes some tenths of a second each.
    fn unmeasured(&self) -> Vec<ProcessId> {
        Vec::new()
    }

    /// What such a process would gain; `None` where it could not be measured. It has lived for `age` at least.
    fn learn_gain(&mut self, _process: ProcessId, _gain: Option<Gain>, _age: Duration) {}

    /// Whether it waits to know what it takes to have a block backed, as of its last decision. The engine finds out by preparing a few
    /// promotions ([`crate::Machine::prepare`]).
    fn asks_for_price(&self) -> bool {
        false
    }

    /// Intervals of constant input after which its decisions no longer change (MEGA averages over N).
    fn settling_intervals(&self) -> usize {
        1
    }
}
