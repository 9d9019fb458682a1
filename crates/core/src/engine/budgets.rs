//! What the engine may use and what it may do to programs; and the copied bytes, as a token bucket.

use std::time::Duration;

use serde::Serialize;

use crate::action::ActionKind;
use crate::page::HUGE_PAGE_SIZE;

/// What the engine may use up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Budgets {
    /// CPU time of the manager as a share of one core, above 0: a mean over two minutes. Default 0.25.
    pub cpu_share: f64,
    /// Bytes that promotions may copy a second. Default 4 GiB, as much as one core copies.
    ///
    /// A promotion to a huge page is charged all of it, because what is not copied is zeroed. A promotion to a giant page is
    /// charged what it copied, at most 1 GiB. It may begin once the budget holds 1 GiB, or an interval's worth where that
    /// is less; what it overdraws is paid off before the next.
    pub copy_bytes_per_second: u64,
    /// The share of its time that a process may stand still because it is promoted, above 0 to 1. 1 is no bound: all that
    /// is wanted is promoted in one go. Default 0.5: a process goes on at half its speed at least, and has its huge pages
    /// after twice the time of the copies.
    pub standstill: f64,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            cpu_share: 0.25,
            copy_bytes_per_second: 4 << 30,
            standstill: 0.5,
        }
    }
}

/// Copied bytes: what may still be copied now. Filled with time, up to one interval's worth or one huge
/// page, whichever is more.
#[derive(Debug)]
pub(super) struct CopyBudget {
    bytes_per_second: u64,
    interval: Duration,
    balance: f64,
    seen: Option<Duration>,
}

impl CopyBudget {
    pub(super) fn new(bytes_per_second: u64, interval: Duration) -> Self {
        let mut budget = CopyBudget {
            bytes_per_second,
            interval,
            balance: 0.0,
            seen: None,
        };
        budget.balance = budget.burst();
        budget
    }

    pub(super) fn set(&mut self, bytes_per_second: u64, interval: Duration) {
        self.bytes_per_second = bytes_per_second;
        self.interval = interval;
        self.balance = self.balance.min(self.burst());
    }

    #[allow(clippy::cast_precision_loss)]
    fn rate(&self) -> f64 {
        self.bytes_per_second as f64
    }

    fn burst(&self) -> f64 {
        if self.bytes_per_second == 0 {
            return 0.0;
        }
        (self.rate() * self.interval.as_secs_f64()).max(huge_page_bytes())
    }

    pub(super) fn settle(&mut self, now: Duration) {
        let then = self.seen.unwrap_or(now);
        let gained = self.rate() * now.saturating_sub(then).as_secs_f64();
        self.balance = (self.balance + gained).min(self.burst());
        self.seen = Some(now);
    }

    /// Promotions of one kind that may be done now.
    pub(super) fn promotions(&self, kind: ActionKind) -> usize {
        self.paid_from(self.balance, kind)
    }

    /// Promotions of one kind that the next step can do at most.
    pub(super) fn next_promotions(&self, kind: ActionKind) -> usize {
        self.paid_from(self.burst(), kind)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    fn paid_from(&self, bytes: f64, kind: ActionKind) -> usize {
        if self.bytes_per_second == 0 {
            return 0;
        }
        let needed = (kind.page_size().bytes() as f64).min(self.burst());
        (bytes / needed).max(0.0) as usize
    }

    /// Takes what a promotion copied.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn charge(&mut self, bytes: u64) {
        self.balance -= bytes as f64;
    }
}

#[allow(clippy::cast_precision_loss)]
fn huge_page_bytes() -> f64 {
    HUGE_PAGE_SIZE as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::GIANT_PAGE_SIZE;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn copying_is_bounded_by_rate_and_one_interval_of_burst() {
        let mut budget = CopyBudget::new(8 * HUGE_PAGE_SIZE, SECOND);
        let mut copied = 0;
        for second in 0..10 {
            budget.settle(SECOND * second);
            while budget.promotions(ActionKind::Promote) > 0 {
                budget.charge(HUGE_PAGE_SIZE);
                copied += 1;
            }
        }
        assert_eq!(copied, 10 * 8);
    }

    #[test]
    fn a_slow_copy_budget_still_moves_one_page_now_and_then() {
        let mut budget = CopyBudget::new(HUGE_PAGE_SIZE / 4, SECOND);
        budget.charge(HUGE_PAGE_SIZE);
        let moments: Vec<u32> = (0..9)
            .filter(|second| {
                budget.settle(SECOND * *second);
                let due = budget.promotions(ActionKind::Promote) > 0;
                if due {
                    budget.charge(HUGE_PAGE_SIZE);
                }
                due
            })
            .collect();
        assert_eq!(moments, [4, 8]);
    }

    #[test]
    fn no_copy_budget_means_no_promotions() {
        let mut budget = CopyBudget::new(0, SECOND);
        budget.settle(SECOND * 100);
        assert_eq!(budget.promotions(ActionKind::Promote), 0);
        assert_eq!(budget.promotions(ActionKind::PromoteGiant), 0);
    }

    #[test]
    fn a_giant_page_waits_for_a_full_budget_and_is_paid_off_afterwards() {
        // 256 MiB a second.
        let mut budget = CopyBudget::new(GIANT_PAGE_SIZE / 4, SECOND);
        let moments: Vec<u32> = (0..10)
            .filter(|second| {
                budget.settle(SECOND * *second);
                let due = budget.promotions(ActionKind::PromoteGiant) > 0;
                if due {
                    budget.charge(GIANT_PAGE_SIZE);
                }
                due
            })
            .collect();
        assert_eq!(moments, [0, 4, 8], "one in four seconds");
    }

    #[test]
    fn giant_pages_that_copy_nothing_cost_no_budget() {
        let mut budget = CopyBudget::new(GIANT_PAGE_SIZE, SECOND);
        budget.settle(SECOND);
        for _ in 0..100 {
            assert_eq!(budget.promotions(ActionKind::PromoteGiant), 1);
            budget.charge(0);
        }
        budget.charge(HUGE_PAGE_SIZE);
        assert_eq!(budget.promotions(ActionKind::PromoteGiant), 0);
    }
}
