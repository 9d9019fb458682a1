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
    block: f64,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    seconds: f64,
    at: Duration,
}

impl Prices {
    /// What a promotion costs now, where it is `usual` seconds by default.
    pub(super) fn now(&self, usual: f64, now: Duration) -> f64 {
        self.copy.map_or(usual, |learnt| {
            let half_lives = now.saturating_sub(learnt.at).div_duration_f64(HALF_LIFE);
            usual + (learnt.seconds - usual) * 0.5_f64.powf(half_lives)
        })
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

    /// What it takes to have a block backed for a promotion, as it was seen last.
    pub(super) fn block(&self) -> f64 {
        self.block
    }

    /// A look at a few free blocks says what each takes.
    pub(super) fn set_block(&mut self, seconds: f64) {
        self.block = seconds;
    }

    /// To have the blocks of so many promotions backed took so many seconds of CPU time together.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn learn_blocks(&mut self, seconds: f64, count: usize) {
        if count > 0 {
            self.block = f64::midpoint(self.block, seconds / count as f64);
        }
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
