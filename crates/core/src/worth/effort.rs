//! How hard the touch meter tries.

use std::time::Duration;

use super::{Estimate, Sampling};

/// How hard the meter tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// How long it may take.
    pub at_most: Duration,
    /// It stops earlier where the interval reaches at most this far from the value, as a share of it.
    pub precision: f64,
    /// The share of one core that it may use meanwhile, and about what the program may lose.
    pub share: f64,
    /// Decides what chance would. The same seed makes the same choices.
    pub seed: u64,
}

impl Default for Effort {
    /// For one measurement by hand.
    fn default() -> Self {
        Effort {
            at_most: Duration::from_secs(3),
            precision: 0.05,
            share: 0.01,
            seed: 1,
        }
    }
}

impl Effort {
    /// For a manager that asks what a process would gain ([`crate::Machine::gain`]).
    #[must_use]
    pub const fn of_a_manager(seed: u64) -> Self {
        Effort {
            at_most: Duration::from_millis(300),
            precision: 0.2,
            share: 0.1,
            seed,
        }
    }

    /// Whether a sampling tells what it should.
    #[must_use]
    pub fn is_met(&self, sampling: &Sampling) -> bool {
        let error = sampling.rate().map(Estimate::relative_error);
        error.is_some_and(|error| error <= self.precision)
    }
}
