//! The CPU time that the manager may use, kept as an account.
//!
//! The share holds as a mean over [`HORIZON`]: in any stretch of time the manager uses at most the share of that stretch and
//! of one horizon, and what its last batch took. So it may use up to a whole core for a while, where much is to be done
//! soon, and pays for that by doing little later.

use std::time::Duration;

/// Over how long the share holds as a mean. At the default share it lets the manager work for half a minute in one go,
/// which promotes some 15 to 40 GiB.
const HORIZON: Duration = Duration::from_secs(120);
/// The least share of a core that is kept to: less, also 0 and what is no number, is taken for this.
const LEAST_CPU_SHARE: f64 = 1e-6;
/// The longest that an interval is stretched to.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// The part of the share that observing may take, so that acting always gets the rest.
const OBSERVING_SHARE: f64 = 0.5;

/// What may still be used, in seconds of CPU time. It fills with time by its share, up to one horizon's worth; below zero
/// after an overdraft, which is repaid by waiting.
#[derive(Debug)]
pub(super) struct CpuAccount {
    share: f64,
    balance: f64,
    seen: Option<(Duration, Duration)>,
}

impl CpuAccount {
    pub(super) fn new(share: f64) -> Self {
        let mut account = CpuAccount {
            share: 0.0,
            balance: 0.0,
            seen: None,
        };
        account.set(share);
        account.balance = account.most();
        account
    }

    /// Changes the share. What was overdrawn stays so.
    pub(super) fn set(&mut self, share: f64) {
        // `max` also turns a NaN into the least share.
        self.share = share.max(LEAST_CPU_SHARE);
        self.balance = self.balance.min(self.most());
    }

    fn most(&self) -> f64 {
        self.share * HORIZON.as_secs_f64()
    }

    /// Of one core.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Brings the balance up to date with the clock and with the CPU time the manager has used.
    pub(super) fn settle(&mut self, now: Duration, cpu_time: Duration) {
        let (then, used_then) = self.seen.unwrap_or((now, cpu_time));
        let gained = self.share * now.saturating_sub(then).as_secs_f64();
        let used = cpu_time.saturating_sub(used_then).as_secs_f64();
        self.balance = (self.balance + gained - used).min(self.most());
        self.seen = Some((now, cpu_time));
    }

    /// Seconds of CPU time that may be used now; 0 after an overdraft.
    pub(super) fn left(&self) -> f64 {
        self.balance.max(0.0)
    }

    /// How long to wait before the next step, which is `wanted` in so long and starts with an observation that costs
    /// `observing` seconds: as much longer as the share needs.
    pub(super) fn next_interval(&self, wanted: Duration, observing: f64) -> Duration {
        let for_observing = observing / (self.share * OBSERVING_SHARE);
        let for_overdraft = (observing - self.balance) / self.share;
        let seconds = for_observing
            .max(for_overdraft)
            .clamp(0.0, LONGEST_INTERVAL.as_secs_f64());
        wanted.max(Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_core_may_be_used_until_the_account_is_empty() {
        let mut account = CpuAccount::new(0.25);
        let mut now = Duration::ZERO;
        account.settle(now, now);
        while account.left() > 0.0 {
            now += SECOND;
            account.settle(now, now);
        }
        // 30 s in store, and a quarter of a second more in each.
        assert_eq!(now, SECOND * 40);
        assert_eq!(account.next_interval(SECOND, 0.0), SECOND);
        account.settle(now, now + SECOND * 3);
        assert_eq!(account.next_interval(SECOND, 0.0), SECOND * 12);
    }

    #[test]
    fn observing_over_budget_stretches_the_interval_to_hold_the_share() {
        let mut account = CpuAccount::new(0.1);
        account.settle(Duration::ZERO, Duration::ZERO);
        let observing = Duration::from_millis(400);
        let (mut now, mut cpu) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..100 {
            cpu += observing;
            account.settle(now, cpu);
            now += account.next_interval(SECOND, observing.as_secs_f64());
        }
        assert!(
            cpu.as_secs_f64() / now.as_secs_f64() <= 0.1,
            "{cpu:?} of {now:?}"
        );
        account.settle(now, cpu);
        assert!(
            account.left() > observing.as_secs_f64(),
            "something must be left to act with"
        );
    }

    #[test]
    fn a_share_that_makes_no_sense_is_the_least_share() {
        for share in [0.0, -1.0, f64::NAN] {
            let account = CpuAccount::new(share);
            assert_eq!(account.next_interval(SECOND, 1.0), LONGEST_INTERVAL);
        }
    }
}
