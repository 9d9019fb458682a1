//! What a promotion to a huge page costs at present, in CPU time: its copy, and having its block backed before.
//!
//! It is learnt from the CPU time that the manager uses for promotions. In that time the kernel copies, and the process stands still.
//! The time on the clock would say too much: where no CPU is idle, the manager waits for one in between, and others run.
//!
//! Memory that has to be emptied or backed first makes promotions dear for a while. So what was learnt fades: while nothing is promoted,
//! the price goes back to the usual one. Then promotions are tried again where they pay at the usual price, and the price is learnt
//! anew. So a price that was once too high never keeps everything from being promoted for good.

use std::time::Duration;

/// The time in which half of the difference to the usual price is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// What is learnt weighs as much as what was known after so many seconds of CPU time, at the usual price: some 80
/// promotions. A few that were dear by chance change little.
const MEMORY: f64 = 50e-3;

/// Seconds of CPU time for a promotion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prices {
    /// The copy, as far as any was made.
    copy: Option<Learnt>,
    /// What it takes to have a block backed, as far as any was prepared; before that they are thought to cost nothing.
    block: Option<Learnt>,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    seconds: f64,
    at: Duration,
}

impl Learnt {
    /// What is left of it now, where it is `usual` seconds by default.
    fn at(&self, usual: f64, now: Duration) -> f64 {
        let half_lives = now.saturating_sub(self.at).div_duration_f64(HALF_LIFE);
        usual + (self.seconds - usual) * 0.5_f64.powf(half_lives)
    }
}

impl Prices {
    /// What a promotion costs now, where it is `usual` seconds by default.
    pub(super) fn now(&self, usual: f64, now: Duration) -> f64 {
        self.copy.map_or(usual, |learnt| learnt.at(usual, now))
    }

    /// So many promotions took so many seconds of CPU time together.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn learn(&mut self, usual: f64, (seconds, count): (f64, usize), now: Duration) {
        if count == 0 {
            return;
        }
        let known = self.now(usual, now);
        let weight = count as f64 * usual / (count as f64 * usual + MEMORY);
        self.copy = Some(Learnt {
            seconds: known + (seconds / count as f64 - known) * weight,
            at: now,
        });
    }

    /// What it takes to have a block backed for a promotion.
    pub(super) fn block(&self, now: Duration) -> f64 {
        self.block.map_or(0.0, |learnt| learnt.at(0.0, now))
    }

    /// Whether that was learnt a short time ago.
    pub(super) fn know_blocks(&self, now: Duration) -> bool {
        self.block
            .is_some_and(|learnt| now.saturating_sub(learnt.at) <= HALF_LIFE)
    }

    /// To have the blocks of so many promotions backed took so many seconds of CPU time together.
    ///
    /// The kernel hands out first what was freed last, and that is backed. What lies behind may not be. So a dearer price is believed
    /// at once, and a cheaper one by half.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn learn_blocks(&mut self, (seconds, count): (f64, usize), now: Duration) {
        if count == 0 {
            return;
        }
        let each = seconds / count as f64;
        self.block = Some(Learnt {
            seconds: each.max(f64::midpoint(self.block(now), each)),
            at: now,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: f64 = 0.6e-3;

    fn learnt(batches: &[(f64, usize)]) -> Prices {
        let mut prices = Prices::default();
        for (each, count) in batches {
            let together = (each * *count as f64, *count);
            prices.learn(USUAL, together, Duration::ZERO);
        }
        prices
    }

    fn batches() -> impl Strategy<Value = Vec<(f64, usize)>> {
        prop::collection::vec((1e-6..1.0_f64, 0..64_usize), 0..40)
    }

    #[test]
    fn a_dear_one_changes_little_and_many_change_it_all() {
        assert!(learnt(&[(6e-3, 1)]).now(USUAL, Duration::ZERO) < 1.2 * USUAL);
        let many = learnt(&[(6e-3, 64); 20]).now(USUAL, Duration::ZERO);
        assert!((5.9e-3..=6e-3).contains(&many), "{many}");
    }

    #[test]
    fn blocks_that_are_not_backed_are_dear_at_once_and_cheap_again_by_and_by() {
        let mut prices = Prices::default();
        let now = Duration::from_secs(7);
        for (seen, believed) in [
            (0.0, 0.0),
            (4e-3, 4e-3),
            (0.0, 2e-3),
            (0.0, 1e-3),
            (5e-3, 5e-3),
        ] {
            prices.learn_blocks((seen * 4.0, 4), now);
            assert!((prices.block(now) - believed).abs() < 1e-12, "{seen}");
        }
        let later = prices.block(now + 2 * HALF_LIFE);
        assert!((later - 5e-3 / 4.0).abs() < 1e-12, "{later}");
    }

    proptest! {
        #[test]
        fn a_price_that_rose_or_fell_always_comes_back(batches in batches(), seconds in 0..3600_u64) {
            let prices = learnt(&batches);
            let off = |seconds| (prices.now(USUAL, Duration::from_secs(seconds)) - USUAL).abs();
            prop_assert!(off(seconds + 1) <= off(seconds));
            prop_assert!(off(seconds + 30) <= 0.501 * off(seconds) + 1e-12);
            prop_assert!(off(600) <= 1e-5 * USUAL.max(off(0)));
        }

        #[test]
        fn it_is_never_beyond_what_was_seen(batches in batches(), seconds in 0..3600_u64) {
            let price = learnt(&batches).now(USUAL, Duration::from_secs(seconds));
            let seen = || batches.iter().map(|(each, _)| *each).chain([USUAL]);
            prop_assert!(price >= seen().fold(f64::INFINITY, f64::min) * 0.999_999);
            prop_assert!(price <= seen().fold(0.0, f64::max) * 1.000_001);
        }

        #[test]
        fn cheaper_promotions_never_make_a_dearer_price(batches in batches(), less in 0.0..1.0_f64) {
            let cheaper: Vec<_> = batches.iter().map(|(each, count)| (each * less, *count)).collect();
            let price = |batches: &[_]| learnt(batches).now(USUAL, Duration::from_secs(1));
            prop_assert!(price(&cheaper) <= price(&batches));
        }
    }
}
