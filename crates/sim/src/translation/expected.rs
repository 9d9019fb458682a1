//! What translation costs a touch of a program of which only this is known: how many pages it uses, in how many regions they
//! lie, and which part of them huge pages map.
//!
//! Touches go to any of the pages, one as often as another. A program that touches neighbours together needs less.

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize};

use super::calibration::scattered;
use super::{Mmu, Processor, Walk};

/// Touches that fill TLBs and caches before those that count; or twice the pages where that is less.
const WARM_UP: u64 = 1 << 18;
/// Touches that count.
const MEASURED: u64 = 1 << 15;
/// Lines of a base page.
const LINES: u64 = BASE_PAGE_SIZE / 64;

/// The pages that a program uses: 2^35 at most, all that it has addresses for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InUse {
    /// Base pages that huge pages map.
    pub in_huge: u64,
    /// Base pages that are mapped by themselves.
    pub in_base: u64,
    /// Pages that are used in each region where any is, 1 to 512.
    pub per_region: u16,
}

impl InUse {
    /// Cycles of translation that a touch takes, on a core that does nothing else: hits of the L2 TLB, and page walks. 0 where no
    /// page is used.
    #[must_use]
    pub fn translation_cycles(&self, processor: &Processor, walk: Walk) -> f64 {
        let pages = self.in_huge.saturating_add(self.in_base);
        if pages == 0 {
            return 0.0;
        }
        let mut mmu = Mmu::new(processor, walk);
        let warm_up = WARM_UP.min(pages.saturating_mul(2));
        for number in 0..warm_up {
            self.touch(&mut mmu, pages, number);
        }
        mmu.reset_counts();
        for number in warm_up..warm_up + MEASURED {
            self.touch(&mut mmu, pages, number);
        }
        #[allow(clippy::cast_precision_loss)] // some millions
        let cycles = mmu.counts().translation as f64 / MEASURED as f64;
        cycles
    }

    /// The pages lie evenly in their regions; those in huge pages have the lowest addresses.
    fn touch(&self, mmu: &mut Mmu, pages: u64, number: u64) {
        let place = scattered(number);
        let page = place % pages;
        let per_region = u64::from(self.per_region.clamp(1, PAGES_PER_REGION));
        let (first, page_size, page) = if page < self.in_huge {
            (0, PageSize::Huge, page)
        } else {
            let regions_before = self.in_huge.div_ceil(per_region);
            (regions_before, PageSize::Base, page - self.in_huge)
        };
        let region = first + page / per_region;
        let gap = u64::from(PAGES_PER_REGION) / per_region;
        let in_region = page % per_region * gap;
        let line = (place >> 50) % LINES;
        let address = region * HUGE_PAGE_SIZE + in_region * BASE_PAGE_SIZE + line * 64;
        mmu.touch(address, page_size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Costs;
    use crate::translation::{PROCESSORS, SKYLAKE_SP, calibrate};
    use mega_core::worth::Locality;

    const PAGES: u64 = 16 << 10;

    fn cycles(in_huge: u64, in_base: u64, per_region: u16) -> f64 {
        let used = InUse {
            in_huge,
            in_base,
            per_region,
        };
        used.translation_cycles(&SKYLAKE_SP, Walk::Native)
    }

    /// What huge pages save by this is what the calibration of the same core says that `mega worth` goes by.
    #[test]
    fn it_agrees_with_the_calibration_of_the_core() {
        for processor in PROCESSORS {
            let costs = Costs::of(processor);
            let calibration = calibrate(processor, Walk::Native, &costs, 128 << 20);
            let working_set: u64 = 64 << 20;
            let pages = working_set / BASE_PAGE_SIZE;
            let [base, huge] = [(0, pages), (pages, 0)].map(|(in_huge, in_base)| {
                let used = InUse {
                    in_huge,
                    in_base,
                    per_region: 512,
                };
                used.translation_cycles(processor, Walk::Native)
            });
            let saved_ns = (base - huge) * 1e9 / processor.hertz as f64;
            let calibrated = calibration
                .saved_ns(working_set, 1e3, Locality::SCATTERED)
                .value;
            assert!(
                (saved_ns / calibrated - 1.0).abs() < 0.2,
                "{}: {saved_ns} ns by itself, {calibrated} calibrated",
                processor.name
            );
        }
    }

    #[test]
    fn the_more_is_huge_the_less_it_costs() {
        let costs: Vec<f64> = (0..=4)
            .map(|quarter| cycles(PAGES / 4 * quarter, PAGES - PAGES / 4 * quarter, 512))
            .collect();
        assert!(costs.is_sorted_by(|one, next| one > next), "{costs:?}");
        assert_eq!(cycles(0, 0, 512), 0.0);
    }

    /// As many pages in more regions take more of the TLB, by huge pages too.
    #[test]
    fn pages_that_lie_apart_cost_more() {
        for in_huge in [0, PAGES] {
            let [together, apart] =
                [512, 1].map(|density| cycles(in_huge, PAGES - in_huge, density));
            assert!(together < apart, "{together} {apart}");
        }
        assert_eq!(cycles(512, 0, 512), 0.0);
    }
}
