//! The one comparison that `adaptive` decides by: what a change saves against what it costs, both in seconds of CPU time.
//!
//! A translation less in the TLB saves CPU time for as long as the process is expected to live. What that is worth is measured, process by
//! process (`payback`); where nobody can measure it, a [usual value](Terms::usual) stands in. Against it stand:
//!
//! - the copy, as this machine was seen to take for it (`engine/prices.rs`);
//! - the block that the huge page takes, by how scarce free blocks are;
//! - the pages that it adds, by how scarce memory is;
//! - for a demotion, the translations that it brings back, and the promotion that may follow.

use crate::gain::Price;
use crate::page::{PAGES_PER_REGION, REGIONS_PER_SPAN};

/// What it takes to reclaim a page and read it back, in seconds of CPU time: what a page is worth where none is available. Measured: 20 us
/// for each major fault of a program that touches 256 MiB at random in a cgroup of 64 MiB (Linux 6.18, 2-core virtual machine, virtio disk).
const PAGE_WORTH: f64 = 20e-6;
/// The copies that it takes to empty a block: it holds less than one, and to find it takes about as long again.
const BLOCK_COPIES: f64 = 2.0;
/// The copies that a demotion may cost: itself, and the promotion that takes it back.
const DEMOTION_COPIES: f64 = 2.0;
/// Base pages in use in a region that pay for its promotion where the gain is not known. They are few: a promotion costs once and saves
/// for good.
const USUAL_PAGES: f64 = 8.0;
/// The same for a giant page: the share of the span's huge pages.
const USUAL_SHARE: f64 = 0.5;

/// A change, in seconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deal {
    /// What it saves.
    pub(super) gain: f64,
    /// What it costs.
    pub(super) price: f64,
}

impl Deal {
    /// What saves nothing does not pay, also where it costs nothing: of a program that rests, where a CPU is idle.
    pub(super) fn pays(self) -> bool {
        self.gain > 0.0 && self.gain >= self.price
    }

    /// The same at a higher price.
    pub(super) fn with(self, price: f64) -> Deal {
        Deal {
            price: self.price + price,
            ..self
        }
    }
}

/// What things are worth for one process at present, in seconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Terms {
    /// What one translation less saves in the time that the process is expected to live.
    pub(super) translation: f64,
    /// What it takes to promote one region.
    pub(super) copy: f64,
    /// What a block costs at most, where none is free: it can be made. Infinite where the gain is not known, so that nothing is compacted
    /// for a gain that nobody saw.
    pub(super) block: f64,
}

impl Terms {
    /// Where the gain is not known: a few pages in use pay for a promotion, whatever it takes.
    pub(super) fn usual(price: &Price) -> Terms {
        Terms::unmeasured(price, USUAL_PAGES)
    }

    /// The same for the translations of huge pages, which a giant page takes.
    pub(super) fn usual_of_huge_pages(price: &Price) -> Terms {
        Terms::unmeasured(price, USUAL_SHARE)
    }

    /// So many translations pay for a copy.
    fn unmeasured(price: &Price, pay: f64) -> Terms {
        let copy = price.of_one_cpu();
        Terms {
            translation: copy / pay,
            copy,
            block: f64::INFINITY,
        }
    }

    /// Where a translation less is worth so much, and a copy takes so long.
    pub(super) fn measured(translation: f64, copy: f64) -> Terms {
        Terms {
            translation,
            copy,
            block: copy * BLOCK_COPIES,
        }
    }

    /// The promotion of a region with so many base pages in use, into a free block that nobody else needs. It adds `bloat` base pages,
    /// where memory is so `scarce`, 0 to 1. A page that is added is worth at least what one in use saves.
    pub(super) fn promotion(&self, used: f64, bloat: u16, scarce: f64) -> Deal {
        let page = self.translation.max(scarce * PAGE_WORTH);
        Deal {
            gain: self.translation * (used - 1.0),
            price: self.copy + f64::from(bloat) * page,
        }
    }

    /// The most that the promotion of one region can save.
    pub(super) fn best(&self) -> f64 {
        self.translation * f64::from(PAGES_PER_REGION - 1)
    }

    /// The promotion of a span with so many huge pages in use to a giant page. It may have to copy all of them.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn promotion_to_giant(&self, in_use: usize) -> Deal {
        Deal {
            gain: self.translation * in_use as f64,
            price: self.copy * REGIONS_PER_SPAN as f64,
        }
    }

    /// The demotion of a huge page with so many zero-filled base pages, while memory is short. One that is in use has as many translations
    /// again as it has other pages.
    pub(super) fn demotion(&self, zero_filled: u16, is_in_use: bool) -> Deal {
        let translations = if is_in_use {
            f64::from(PAGES_PER_REGION.saturating_sub(zero_filled))
        } else {
            0.0
        };
        Deal {
            gain: f64::from(zero_filled) * PAGE_WORTH,
            price: self.copy * DEMOTION_COPIES + translations * self.translation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usual() -> Terms {
        Terms::usual(&Price::default())
    }

    #[test]
    fn what_nobody_measured_pays_from_a_few_pages_in_use() {
        assert!(usual().promotion(9.0, 0, 0.0).pays());
        assert!(!usual().promotion(8.0, 0, 0.0).pays());
        let giant = Terms::usual_of_huge_pages(&Price::default());
        assert!(giant.promotion_to_giant(256).pays());
        assert!(!giant.promotion_to_giant(255).pays());
    }

    #[test]
    fn what_is_given_back_from_use_is_nearly_all_zeros() {
        assert!(usual().demotion(60, false).pays());
        assert!(!usual().demotion(59, false).pays());
        assert!(usual().demotion(480, true).pays());
        assert!(!usual().demotion(256, true).pays());
    }

    proptest! {
        /// More in use pays better; more bloat, scarcer memory and a dearer block pay worse.
        #[test]
        fn deals_follow_what_they_are_about(
            translation in 0.0..1e-2_f64, copy in 1e-5..1.0_f64, used in 1.0..511.0_f64, bloat in 0..500_u16,
            scarce in 0.0..0.9_f64,
        ) {
            let terms = Terms::measured(translation, copy);
            let net = |deal: Deal| deal.gain - deal.price;
            let deal = terms.promotion(used, bloat, scarce);
            prop_assert!(net(terms.promotion(used + 1.0, bloat, scarce)) >= net(deal));
            prop_assert!(net(terms.promotion(used, bloat + 1, scarce)) <= net(deal));
            prop_assert!(net(terms.promotion(used, bloat, scarce + 0.1)) <= net(deal));
            prop_assert!(net(deal.with(copy)) < net(deal));
            prop_assert!(deal.gain <= terms.best());
            let (idle, in_use) = (terms.demotion(bloat, false), terms.demotion(bloat, true));
            prop_assert!(net(idle) >= net(in_use));
            prop_assert!(net(terms.demotion(bloat + 1, true)) > net(in_use));
        }
    }
}
