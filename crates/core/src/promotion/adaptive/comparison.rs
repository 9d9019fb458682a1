//! The comparison by which `adaptive` decides: what something gains against its price, both in seconds of CPU time.
//!
//! What has no price in CPU time by itself gets one by what has to be done where it is lacking: a block has to be emptied, and
//! a page read back. Where it is not scarce it costs nothing, and in between its part.

use crate::page::PAGES_PER_REGION;

/// Seconds to empty a block: 512 pages migrate, at some 3 microseconds each.
const EMPTY_BLOCK: f64 = 1.5e-3;
/// Seconds to read back a page that had to leave: 100 microseconds from a solid-state disk.
const READ_BACK: f64 = 100e-6;

/// A promotion to a huge or a giant page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promotion {
    /// CPU time that it saves, in seconds a second.
    pub(super) saved: f64,
    /// Seconds that the memory is expected to live.
    pub(super) life: f64,
    /// Seconds of CPU time that the copy and the standstill take.
    pub(super) copy: f64,
    /// Base pages that it adds.
    pub(super) bloat: u16,
    /// How scarce memory is: 0 where there is plenty, 1 where there is just as much as has to be kept free.
    pub(super) memory_scarcity: f64,
}

impl Promotion {
    /// Whether it is worth a block, where those are so scarce: 0 where there are plenty, 1 where there are none.
    pub(super) fn pays(&self, block_scarcity: f64) -> bool {
        let pages = f64::from(self.bloat) * READ_BACK * self.memory_scarcity;
        let price = self.copy + pages + EMPTY_BLOCK * block_scarcity;
        self.saved * self.life > price
    }
}

/// A demotion of a huge page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demotion {
    /// Base pages that it gives back.
    pub(super) zero_filled: u16,
    /// As in [`Promotion`].
    pub(super) memory_scarcity: f64,
    /// CPU time that each base page in use saves while it is in a huge page, in seconds a second: 0 where it is cold.
    pub(super) saved_a_page: f64,
    /// Seconds that the memory is expected to live.
    pub(super) life: f64,
    /// Seconds of CPU time to make it huge again, should it be used again.
    pub(super) copy: f64,
}

impl Demotion {
    /// Whether what it gives back is worth more than what it loses.
    pub(super) fn pays(&self) -> bool {
        let kept = f64::from(PAGES_PER_REGION.saturating_sub(self.zero_filled));
        let lost = kept * self.saved_a_page * self.life + self.copy;
        f64::from(self.zero_filled) * READ_BACK * self.memory_scarcity > lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn promotion() -> impl Strategy<Value = Promotion> {
        (
            0.0..1e-4_f64,
            0.0..600.0_f64,
            0.0..0.01_f64,
            0..512_u16,
            0.0..1.0_f64,
        )
            .prop_map(|(saved, life, copy, bloat, memory_scarcity)| Promotion {
                saved,
                life,
                copy,
                bloat,
                memory_scarcity,
            })
    }

    fn demotion() -> impl Strategy<Value = Demotion> {
        (
            0..=512_u16,
            0.0..10.0_f64,
            0.0..1e-5_f64,
            0.0..600.0_f64,
            0.0..0.01_f64,
        )
            .prop_map(|(zero_filled, memory_scarcity, saved_a_page, life, copy)| {
                Demotion {
                    zero_filled,
                    memory_scarcity,
                    saved_a_page,
                    life,
                    copy,
                }
            })
    }

    proptest! {
        #[test]
        fn more_gain_or_a_lower_price_never_turns_a_yes_into_a_no(
            promotion in promotion(), blocks in 0.0..1.0_f64, more in 1.0..10.0_f64, less in 0.0..1.0_f64,
        ) {
            if !promotion.pays(blocks) {
                return Ok(());
            }
            let saved = promotion.saved * more;
            let other = Promotion { saved, ..promotion };
            prop_assert!(other.pays(blocks));
            let life = promotion.life * more;
            let other = Promotion { life, ..promotion };
            prop_assert!(other.pays(blocks));
            let copy = promotion.copy * less;
            let other = Promotion { copy, ..promotion };
            prop_assert!(other.pays(blocks));
        }

        #[test]
        fn scarcity_never_turns_a_no_into_a_yes(
            promotion in promotion(), blocks in 0.0..1.0_f64, more in 1.0..10.0_f64,
        ) {
            if promotion.pays(blocks) {
                return Ok(());
            }
            prop_assert!(!promotion.pays(blocks * more));
            let memory_scarcity = promotion.memory_scarcity * more;
            let other = Promotion { memory_scarcity, ..promotion };
            prop_assert!(!other.pays(blocks));
        }

        #[test]
        fn what_gains_nothing_never_pays(promotion in promotion(), blocks in 0.0..1.0_f64) {
            let other = Promotion { saved: 0.0, ..promotion };
            prop_assert!(!other.pays(blocks));
            let other = Promotion { life: 0.0, ..promotion };
            prop_assert!(!other.pays(blocks));
        }

        #[test]
        fn scarcer_memory_or_more_zeros_never_keep_a_huge_page(
            demotion in demotion(), more in 1.0..10.0_f64, zeros in 0..512_u16,
        ) {
            if !demotion.pays() {
                return Ok(());
            }
            let memory_scarcity = demotion.memory_scarcity * more;
            let other = Demotion { memory_scarcity, ..demotion };
            prop_assert!(other.pays());
            let zero_filled = demotion.zero_filled.saturating_add(zeros).min(512);
            let other = Demotion { zero_filled, ..demotion };
            prop_assert!(other.pays());
        }

        #[test]
        fn more_use_never_gives_a_huge_page_up(demotion in demotion(), more in 1.0..10.0_f64) {
            if demotion.pays() {
                return Ok(());
            }
            let saved_a_page = demotion.saved_a_page * more;
            let other = Demotion { saved_a_page, ..demotion };
            prop_assert!(!other.pays());
            let other = Demotion { zero_filled: 0, ..demotion };
            prop_assert!(!other.pays());
        }
    }
}
