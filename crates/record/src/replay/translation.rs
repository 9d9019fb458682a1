//! What translating a recorded program's addresses takes on a processor: the touches that were counted when it was recorded, each
//! at what it costs on that processor by the pages that the policy made.
//!
//! A recording says how often base pages were touched and how many of them the program kept touching; and of each region, how
//! many were accessed. It does not say in which order: touches are taken to go to any of those pages. What huge pages mapped when
//! it was recorded is left out, since nobody counted the touches there.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, PAGES_PER_REGION};
use mega_sim::translation::{InUse, Processor, Walk};

use super::process::Accessed;
use crate::look::TouchRate;

/// Shares of a working set that a core is asked about; between two of them the cost goes straight.
const SHARES: u64 = 16;
/// Pages of the addresses that a program can have (47 bits): what stands in a file can be anything.
const MOST_PAGES: u64 = 1 << 35;

/// What translating addresses took, as far as touches had been measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Translation {
    /// Touches of pages.
    pub touches: f64,
    /// The program's CPU time in which they were, when it was recorded.
    pub cpu: Duration,
    /// Time of translation under the policy, on the processor of the terms.
    pub time: Duration,
    /// The same by the pages that it was recorded with.
    pub recorded: Duration,
}

/// A core of a processor, and what it took until now.
#[derive(Debug)]
pub(super) struct Core {
    processor: Processor,
    walk: Walk,
    /// Nanoseconds of translation for each touch of pages in use that it was asked about.
    known: BTreeMap<InUse, f64>,
    taken: Option<Translation>,
}

impl Core {
    pub(super) fn new(processor: Processor, walk: Walk) -> Self {
        Core {
            processor,
            walk,
            known: BTreeMap::new(),
            taken: None,
        }
    }

    /// What it took until now. `None` until a process was counted whose touches had been measured.
    pub(super) fn taken(&self) -> Option<Translation> {
        self.taken
    }

    /// Counts a process that touches pages at that rate, and accessed those in that time. One that accessed none touched none.
    pub(super) fn touched(&mut self, rate: &TouchRate, accessed: Accessed, time: Duration) {
        let pages = accessed.in_huge + accessed.in_base;
        let cpu = time.as_secs_f64() * rate.cpus;
        let touches = rate.per_cpu_second * cpu;
        if pages == 0 || !touches.is_finite() || touches < 0.0 {
            return;
        }
        let working_set = (rate.working_set / BASE_PAGE_SIZE).clamp(1, MOST_PAGES);
        let per_region = per_region(pages, accessed.regions);
        let huge = ratio(accessed.in_huge, pages);
        let ns = self.ns_at(working_set, per_region, huge);
        let recorded_ns = self.ns(working_set, per_region, 0);
        let taken = self.taken.get_or_insert_default();
        taken.touches += touches;
        let add = |sum: &mut Duration, more| *sum = sum.saturating_add(seconds(more));
        add(&mut taken.cpu, cpu);
        add(&mut taken.time, touches * ns * 1e-9);
        add(&mut taken.recorded, touches * recorded_ns * 1e-9);
    }

    /// Nanoseconds of a touch where huge pages map that share of the working set, 0 to 1.
    fn ns_at(&mut self, working_set: u64, per_region: u16, huge: f64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let place = huge * SHARES as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to SHARES
        let below = (place.floor() as u64).min(SHARES - 1);
        let [low, high] = [below, below + 1].map(|share| self.ns(working_set, per_region, share));
        #[allow(clippy::cast_precision_loss)]
        let part = place - below as f64;
        low + (high - low) * part
    }

    /// The same where huge pages map `share` parts of [`SHARES`].
    fn ns(&mut self, working_set: u64, per_region: u16, share: u64) -> f64 {
        let in_huge = working_set / SHARES * share + working_set % SHARES * share / SHARES;
        let used = InUse {
            in_huge,
            in_base: working_set - in_huge,
            per_region,
        };
        let (processor, walk) = (&self.processor, self.walk);
        *self.known.entry(used).or_insert_with(|| {
            let cycles = used.translation_cycles(processor, walk);
            #[allow(clippy::cast_precision_loss)]
            let per_ns = processor.hertz as f64 * 1e-9;
            cycles / per_ns
        })
    }
}

/// Pages that are used in a region where any is, as a power of two: looks differ by a few, which would make a core be asked anew.
fn per_region(pages: u64, regions: u64) -> u16 {
    let mean = (pages / regions.max(1)).clamp(1, PAGES_PER_REGION.into());
    let up = mean.next_power_of_two();
    let nearest = if up * 3 > mean * 4 { up / 2 } else { up };
    u16::try_from(nearest).unwrap_or(PAGES_PER_REGION)
}

#[allow(clippy::cast_precision_loss)] // pages of one program
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// A number of seconds that is not negative; the longest time where it is more than that.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::PageSize;
    use mega_sim::translation::SKYLAKE_SP;

    const RATE: TouchRate = TouchRate {
        per_cpu_second: 1e7,
        cpus: 0.5,
        working_set: 256 << 20,
        gain: None,
    };

    fn translation(rate: &TouchRate, in_huge: u64, in_base: u64) -> Option<Translation> {
        translation_by(Walk::Native, rate, in_huge, in_base)
    }

    fn translation_by(
        walk: Walk,
        rate: &TouchRate,
        in_huge: u64,
        in_base: u64,
    ) -> Option<Translation> {
        let mut core = Core::new(SKYLAKE_SP, walk);
        let accessed = Accessed {
            in_huge,
            in_base,
            regions: (in_huge + in_base).div_ceil(512),
        };
        core.touched(rate, accessed, Duration::from_secs(2));
        core.taken()
    }

    #[test]
    fn touches_cost_what_the_core_says() {
        let base = translation(&RATE, 0, 65_536).unwrap();
        assert_eq!(base.time, base.recorded);
        assert!((base.touches - 1e7).abs() < 1.0 && base.cpu == Duration::from_secs(1));
        let half = translation(&RATE, 32_768, 32_768).unwrap();
        let huge = translation(&RATE, 65_536, 0).unwrap();
        assert!(huge.time < half.time && half.time < base.time);
        assert_eq!(huge.recorded, base.time);
        let used = InUse {
            in_huge: 65_536,
            in_base: 0,
            per_region: 512,
        };
        let ns = used.translation_cycles(&SKYLAKE_SP, Walk::Native) / 2.3;
        assert!((huge.time.as_secs_f64() / (1e7 * ns * 1e-9) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_guest_takes_longer() {
        let time = |walk| translation_by(walk, &RATE, 0, 65_536).unwrap().time;
        let [native, huge, base] = [
            Walk::Native,
            Walk::Nested(PageSize::Huge),
            Walk::Nested(PageSize::Base),
        ]
        .map(time);
        assert!(native < huge && huge < base);
    }

    #[test]
    fn a_program_that_accessed_nothing_touched_nothing_and_nonsense_is_not_counted() {
        assert_eq!(translation(&RATE, 0, 0), None);
        for per_cpu_second in [f64::NAN, f64::INFINITY, -1.0] {
            let rate = TouchRate {
                per_cpu_second,
                ..RATE
            };
            assert_eq!(translation(&rate, 0, 512), None);
        }
    }

    #[test]
    fn densities_are_powers_of_two() {
        for (pages, regions, nearest) in [
            (512, 1, 512),
            (390, 1, 512),
            (380, 1, 256),
            (3, 2, 1),
            (6, 1, 8),
            (0, 0, 1),
        ] {
            assert_eq!(per_region(pages, regions), nearest, "{pages} in {regions}");
        }
    }
}
