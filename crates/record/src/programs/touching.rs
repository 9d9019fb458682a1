//! How a recorded process touches its memory between two looks.
//!
//! A recording says of each region how many of its pages were accessed, and at times how often the process touched base pages in a second of its
//! CPU time and how many of them it kept touching. So each page that was accessed is touched once. All other touches that it made go to those pages that it kept
//! touching, to any of them as often as to another; these are taken to lie as densely as what was accessed. Nothing is
//! touched beyond that where nobody measured how often.
//!
//! A touch takes on the simulated core what it takes there. What the process computed beside is what is left of the time from one touch to
//! the next in the recording, if base pages map it, as they did then: a second core does the same touches by base pages. Where the process made more touches than
//! the simulated core could one after the other, it makes as many as that can.
//!
//! Touches of which each goes to any page are a sample of more such touches: of many, some are made, and the others take as long.

use std::cell::RefCell;
use std::rc::Rc;

use mega_core::{BASE_PAGE_SIZE, PageSize, mix};
use mega_sim::Memory;
use mega_sim::kernel::Fault;
use mega_sim::translation::{Counts, Mmu};

use crate::look::TouchRate;

/// Touches a second that are made of those to any page that was kept in use, unless the touch meter looks.
const MADE_PER_SECOND: u64 = 20_000;
/// Touches before others have their turn.
const TOGETHER: u64 = 8;
/// Lines of a base page.
const LINES: u64 = BASE_PAGE_SIZE / 64;

/// What came of a recorded process. Cycles are those of the machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Touches, those that others stand for included.
    pub touches: u64,
    /// Cycles of translation that they took.
    pub translation: u64,
    /// The same had base pages mapped all, as in the recording.
    pub translation_by_base: u64,
    /// How long it took to take what it had at the first look, in cycles.
    pub filling: u64,
    /// How late it was in the end, in cycles. `None` until then.
    pub late: Option<u64>,
}

/// The pages of a region that were accessed: its first ones, and some that came since the look before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accessed {
    /// Where the region begins.
    pub(super) start: u64,
    /// So many pages from there on.
    pub(super) first: u16,
    /// The first of those that came, and how many of them count.
    pub(super) new: (u16, u16),
}

impl Accessed {
    pub(super) fn count(&self) -> u64 {
        u64::from(self.first) + u64::from(self.new.1)
    }

    /// The address of one of them.
    fn page(&self, number: u64) -> u64 {
        let first = u64::from(self.first);
        let page = if number < first {
            number
        } else {
            u64::from(self.new.0) + number - first
        };
        self.start + page * BASE_PAGE_SIZE
    }
}

/// The pages that a process keeps touching.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    regions: Vec<Accessed>,
    /// Pages of each and those before it.
    ends: Vec<u64>,
}

impl Kept {
    /// So many bytes of what was accessed, 1 page at least, in whole regions but for the last: the same ones at each look, and no others than were accessed.
    pub(super) fn of(
        accessed: impl Iterator<Item = Accessed>,
        working_set: u64,
        seed: u64,
    ) -> Self {
        let mut order: Vec<(u64, Accessed)> = accessed
            .filter(|one| one.count() > 0)
            .map(|one| (mix(one.start ^ seed), one))
            .collect();
        order.sort_unstable_by_key(|(place, _)| *place);
        let pages = (working_set / BASE_PAGE_SIZE).max(1);
        let mut kept = Kept::default();
        let mut sum = 0;
        for (_, one) in order {
            if sum >= pages {
                break;
            }
            sum = (sum + one.count()).min(pages);
            kept.regions.push(one);
            kept.ends.push(sum);
        }
        kept
    }

    fn pages(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The address of one of its pages. `None` where it has none.
    fn page(&self, number: u64) -> Option<u64> {
        let region = self.ends.partition_point(|end| *end <= number);
        let before = region.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(self.regions.get(region)?.page(number - before))
    }
}

/// The touches of a process.
pub(super) struct Touching {
    /// The core that it would have run on by base pages.
    by_base: Mmu,
    hertz: u64,
    random: u64,
    /// As it was measured last. `None` until then, and where it touched nothing meanwhile.
    rate: Option<TouchRate>,
    /// What a touch took by base pages, in cycles, of the last that were made.
    mean: u64,
    told: Rc<RefCell<Told>>,
}

/// What is to be done in an interval beside touching each page that was accessed.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// CPU time in cycles, as it was recorded.
    pub(super) cycles: u64,
    /// Of it, what was done.
    pub(super) done: u64,
    kept: Kept,
    /// For how many touches each stands.
    stands_for: u64,
}

impl Touching {
    pub(super) fn new(by_base: Mmu, hertz: u64, seed: u64, told: &Rc<RefCell<Told>>) -> Self {
        Touching {
            by_base,
            hertz,
            random: seed,
            rate: None,
            mean: 1,
            told: Rc::clone(told),
        }
    }

    /// How often it touches from now on: not at all beyond what is accessed, where it was measured when it did nothing.
    pub(super) fn set_rate(&mut self, rate: TouchRate) {
        let is_usable = |number: f64| number.is_finite() && number > 0.0;
        self.rate =
            Some(rate).filter(|rate| is_usable(rate.per_cpu_second) && is_usable(rate.cpus));
    }

    /// Cycles from one touch to the next in the recording. `None` where nobody measured it.
    fn period(&self) -> Option<u64> {
        let rate = self.rate?;
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let period = (self.hertz as f64 / rate.per_cpu_second) as u64;
        Some(period.max(1))
    }

    /// What there is to be done in `length` cycles in which those pages were accessed. The process has one CPU here, if it had more.
    pub(super) fn plan(
        &self,
        accessed: impl Iterator<Item = Accessed>,
        length: u64,
        seed: u64,
    ) -> Work {
        let (Some(rate), Some(period)) = (self.rate, self.period()) else {
            return Work::default();
        };
        let kept = Kept::of(accessed, rate.working_set, seed);
        if kept.pages() == 0 {
            return Work::default();
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let cycles = (length as f64 * rate.cpus.min(1.0)) as u64;
        let most =
            (u128::from(MADE_PER_SECOND) * u128::from(length) / u128::from(self.hertz)).max(1);
        let touches = u128::from(cycles / period.max(self.mean));
        Work {
            cycles,
            done: 0,
            kept,
            stands_for: u64::try_from(touches.div_ceil(most))
                .unwrap_or(u64::MAX)
                .max(1),
        }
    }

    /// Touches so many pages from an address on, within a region, where so many cycles of the recorded CPU time are left. Returns those that it stands for.
    pub(super) fn row(
        &mut self,
        memory: &mut Memory<'_>,
        address: u64,
        pages: u64,
        left: u64,
    ) -> Result<u64, Fault> {
        if pages == 0 {
            return Ok(0);
        }
        let before = (memory.counts(), self.by_base.counts());
        let by_base = self.by_base.touch_row(address, pages, PageSize::Base);
        memory.touch_row(address, pages)?;
        self.tell(memory, before, 1);
        let recorded = self.period().map_or(0, |period| period * pages);
        let lasted = recorded.min(left).max(by_base);
        memory.compute(lasted - by_base);
        Ok(lasted)
    }

    /// Makes some more touches of pages that are kept in use, each of which stands for as many as planned.
    pub(super) fn go_on(&mut self, memory: &mut Memory<'_>, work: &mut Work) -> Result<(), Fault> {
        let period = self.period().unwrap_or(1);
        let before = (memory.counts(), self.by_base.counts());
        let (mut lasted, mut by_base) = (0, 0);
        for _ in 0..TOGETHER {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let word = mix(self.random);
            let number = (u128::from(work.kept.pages()) * u128::from(word)) >> 64;
            let Some(page) = work.kept.page(u64::try_from(number).unwrap_or(0)) else {
                work.done = work.cycles;
                return Ok(());
            };
            let address = page + mix(word) % LINES * 64;
            memory.touch(address)?;
            let took = self.by_base.touch(address, PageSize::Base);
            memory.compute(period.saturating_sub(took));
            lasted += took.max(period);
            by_base += took;
        }
        self.mean = (by_base / TOGETHER).max(1);
        let stands_for = memory.repeat(work.stands_for);
        self.tell(memory, before, stands_for);
        work.done += lasted * stands_for;
        Ok(())
    }

    fn tell(&self, memory: &Memory<'_>, before: (Option<Counts>, Counts), stands_for: u64) {
        let mut told = self.told.borrow_mut();
        let now = self.by_base.counts();
        told.touches += (now.touches - before.1.touches) * stands_for;
        told.translation_by_base += (now.translation - before.1.translation) * stands_for;
        if let (Some(then), Some(now)) = (before.0, memory.counts()) {
            told.translation += (now.translation - then.translation) * stands_for;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accessed(region: u64, first: u16, new: (u16, u16)) -> Accessed {
        Accessed {
            start: region << 21,
            first,
            new,
        }
    }

    #[test]
    fn pages_that_came_are_behind_the_first_ones() {
        let one = accessed(3, 2, (100, 3));
        let pages: Vec<u64> = (0..one.count()).map(|number| one.page(number)).collect();
        assert_eq!(
            pages
                .iter()
                .map(|page| (page - (3 << 21)) / BASE_PAGE_SIZE)
                .collect::<Vec<_>>(),
            [0, 1, 100, 101, 102]
        );
    }

    #[test]
    fn what_is_kept_in_use_is_as_much_as_was_measured_and_was_accessed() {
        let all = || (0..100).map(|region| accessed(region, 64, (0, 0)));
        let kept = Kept::of(all(), 10 * 64 * BASE_PAGE_SIZE, 7);
        assert_eq!((kept.pages(), kept.regions.len()), (640, 10));
        let pages: std::collections::BTreeSet<u64> =
            (0..640).filter_map(|number| kept.page(number)).collect();
        assert_eq!(pages.len(), 640);
        assert!(
            pages
                .iter()
                .all(|page| page % (1 << 21) < 64 * BASE_PAGE_SIZE)
        );
        assert_eq!(kept.page(640), None);
        // The same regions again where others are accessed, too.
        let more = Kept::of(
            all().chain((100..200).map(|region| accessed(region, 0, (0, 0)))),
            10 * 64 * BASE_PAGE_SIZE,
            7,
        );
        assert_eq!(more.regions, kept.regions);
        // No more than there is.
        assert_eq!(Kept::of(all(), 1 << 40, 7).pages(), 6400);
        assert_eq!(Kept::of(std::iter::empty(), 1 << 40, 7).pages(), 0);
    }
}
