//! What a step has done so far.

use std::time::Duration;

use crate::action::{Action, Cause};
use crate::failures::Why;
use crate::gain::Price;
use crate::observation::Observation;

use super::totals::Totals;
use super::unmet::Demand;

/// What a step has done so far, and what it could not have.
pub(super) struct Course {
    pub(super) done: Totals,
    pub(super) unmet: Demand,
    /// Until when it may act.
    pub(super) end: Duration,
    /// What a promotion cost when the policy decided.
    pub(super) price: Price,
    /// Batches of promotions that were made.
    pub(super) batches: u32,
    /// Whether it ended before all was done that the budgets would have allowed.
    pub(super) is_cut_short: bool,
}

impl Course {
    /// Of a step that has just observed.
    pub(super) fn begin(observation: &Observation, end: Duration, price: Price) -> Self {
        let done = Totals {
            steps: 1,
            ..Totals::default()
        };
        Course {
            done,
            unmet: Demand::new(observation),
            end,
            price,
            batches: 0,
            is_cut_short: false,
        }
    }

    /// Counts an action that is held back.
    pub(super) fn hold(&mut self, action: &Action, why: Why) {
        match why {
            Why::LeftOut => return,
            Why::Failed(Cause::NoMemory) => self.unmet.lacked(action),
            Why::Failed(_) | Why::Unreported | Why::InVain => {}
        }
        self.done.backed_off += 1;
    }
}
