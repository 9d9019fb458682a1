//! What the engine may use: CPU time and copied bytes, as token buckets.

use std::time::Duration;

use serde::Serialize;

use crate::action::ActionKind;
use crate::page::HUGE_PAGE_SIZE;

/// What the engine may use up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Budgets {
    /// CPU time of the manager as a share of one core, above 0. Default 0.25.
    pub cpu_share: f64,
    /// Bytes that promotions may copy a second. Default 1 GiB.
    ///
    /// A promotion to a huge page is charged all of it, because what is not copied is zeroed. A promotion to a giant page is
    /// charged what it copied, at most 1 GiB. It may begin once the budget holds 1 GiB, or an interval's worth where that
    /// is less; what it overdraws is paid off before the next.
    pub copy_bytes_per_second: u64,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            cpu_share: 0.25,
            copy_bytes_per_second: 1 << 30,
        }
    }
}

/// The least share of a core that is kept to: less, also 0 and what is no number, is taken for this.
const LEAST_CPU_SHARE: f64 = 1e-6;
/// The longest that an interval is stretched to.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// The part of the CPU budget that observing may take, so that acting always gets the rest.
const OBSERVING_SHARE: f64 = 0.5;

/// CPU time: what the manager may still use now, in seconds. Filled with time by its share, up to one
/// interval's worth; below zero after an overdraft, which is repaid by waiting.
#[derive(Debug)]
pub(super) struct CpuBudget {
    share: f64,
    interval: Duration,
    /// The interval that was asked for last: the interval, or longer when stretched.
    stretched: Duration,
    balance: f64,
    seen: Option<(Duration, Duration)>,
}

impl CpuBudget {
    pub(super) fn new(share: f64, interval: Duration) -> Self {
        let mut budget = CpuBudget {
            share: 0.0,
            interval,
            stretched: interval,
            balance: 0.0,
            seen: None,
        };
        budget.set(share, interval);
        budget.balance = budget.burst();
        budget
    }

    pub(super) fn set(&mut self, share: f64, interval: Duration) {
        // `max` also turns a NaN into the least share.
        self.share = share.max(LEAST_CPU_SHARE);
        self.interval = interval;
        self.stretched = interval;
        self.balance = self.balance.min(self.burst());
    }

    fn burst(&self) -> f64 {
        self.share * self.stretched.max(self.interval).as_secs_f64()
    }

    /// Brings the balance up to date with the clock and with the CPU time the manager has used.
    pub(super) fn settle(&mut self, now: Duration, cpu_time: Duration) {
        let (then, used_then) = self.seen.unwrap_or((now, cpu_time));
        let gained = self.share * now.saturating_sub(then).as_secs_f64();
        let used = cpu_time.saturating_sub(used_then).as_secs_f64();
        self.balance = (self.balance + gained - used).min(self.burst());
        self.seen = Some((now, cpu_time));
    }

    /// Seconds of CPU time that may be used now; 0 after an overdraft.
    pub(super) fn left(&self) -> f64 {
        self.balance.max(0.0)
    }

    /// Seconds of CPU time that the next step can use at most.
    pub(super) fn next(&self) -> f64 {
        self.burst()
    }

    /// How long to wait before the next step, which starts with an observation that costs
    /// `observing` seconds: the interval, or as much longer as the share needs.
    pub(super) fn next_interval(&mut self, observing: f64) -> Duration {
        let for_observing = observing / (self.share * OBSERVING_SHARE);
        let for_overdraft = (observing - self.balance) / self.share;
        let seconds = for_observing
            .max(for_overdraft)
            .clamp(0.0, LONGEST_INTERVAL.as_secs_f64());
        self.stretched = self.interval.max(Duration::from_secs_f64(seconds));
        self.stretched
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

    #[test]
    fn observing_over_budget_stretches_the_interval_to_hold_the_share() {
        let mut budget = CpuBudget::new(0.1, SECOND);
        budget.settle(Duration::ZERO, Duration::ZERO);
        let observing = Duration::from_millis(400);
        let (mut now, mut cpu) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..100 {
            cpu += observing;
            budget.settle(now, cpu);
            now += budget.next_interval(observing.as_secs_f64());
        }
        assert!(
            cpu.as_secs_f64() / now.as_secs_f64() <= 0.1,
            "{cpu:?} of {now:?}"
        );
        budget.settle(now, cpu);
        assert!(
            budget.left() > observing.as_secs_f64(),
            "something must be left to act with"
        );
    }

    #[test]
    fn a_share_that_makes_no_sense_is_the_least_share() {
        for share in [0.0, -1.0, f64::NAN] {
            let mut budget = CpuBudget::new(share, SECOND);
            assert_eq!(budget.next_interval(1.0), LONGEST_INTERVAL);
        }
    }
}
