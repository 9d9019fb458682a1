//! Which regions of a mapping to make huge while the program fills it: those that it has begun, and a few ahead of it.
//!
//! No kernel of today lets one process ask for another's faults to take huge pages. What can be done from outside is to
//! make a region huge before the program comes to it. Then its first touch of the region takes no fault at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use crate::observation::RegionObservation;
use crate::page::{HUGE_PAGE_SIZE, Region};

/// Regions to be ready ahead of the program at least: 32 MiB.
const LEAST_READY: usize = 16;

/// Regions to be ready ahead of the program at most: 512 MiB.
const MOST_READY: usize = 256;

/// For this many regions that the program used last time, one may be ready: what it never comes to stays a small part.
const USED_PER_READY: u64 = 4;

/// For this many regions that it has used, it may have passed one by that was ready, without one ready ahead less.
const USED_PER_PASSED: usize = 4;

/// Ends of used memory that are followed at a time: one for each thread that fills its part.
const MOST_FRONTS: usize = 16;

/// How long the program may stand still until what it did not come to is given back.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a region waits that could not be made huge; twice as long after each further failure. This is not the engine's memory
/// of failures: it counts time, not steps, of which there are none before the program comes.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// After this many failures the wait grows no more: 16 s.
const MOST_DOUBLINGS: u32 = 6;

/// The time from one new region to the next, at most, as long as nothing is known: 20 GiB/s.
const FIRST_PACE: Duration = Duration::from_micros(100);

/// What to do now. All may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Regions that the program has not come to, to make ready: those that it comes to first come first.
    pub ready: Vec<Region>,
    /// Regions that it has begun with base pages, to promote, in address order.
    pub promote: Vec<Region>,
    /// Regions made ready that it did not come to, to demote, in address order.
    pub give_back: Vec<Region>,
}

/// Follows the program through one mapping.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Regions that may be ready at a time.
    most: usize,
    /// Made ready, and not used since.
    ready: BTreeSet<Region>,
    /// Those that were ready and are behind the program: it uses what comes after them. Most it came to before their Accessed bit
    /// was cleared, and left again.
    passed: BTreeSet<Region>,
    /// Used, as far as was seen.
    used: BTreeSet<Region>,
    /// Could not be made huge: a page was in use by the kernel just then, or there was no block.
    refused: BTreeMap<Region, Refusal>,
    /// When it was last planned.
    planned: Duration,
    /// The latest used regions whose next one in the program's direction was not.
    fronts: Vec<Front>,
    /// When the program last used a new one.
    moved: Duration,
    /// The time from one new region to the next.
    pace: Duration,
    /// Times that something had to be given back. Twice is enough.
    given_back: u32,
}

/// Where the program is, and which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Front {
    at: Region,
    way: Way,
}

/// To higher addresses, or to lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// How often in a row a region could not be made huge, and until when it waits.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    times: u32,
    until: Duration,
}

impl Ahead {
    /// A mapping of a class: the program touched `last_time` bytes of it last time, and nothing yet.
    #[must_use]
    pub fn new(last_time: u64) -> Self {
        let most = last_time / HUGE_PAGE_SIZE / USED_PER_READY;
        Ahead {
            most: usize::try_from(most)
                .map_or(MOST_READY, |most| most.clamp(LEAST_READY, MOST_READY)),
            ..Ahead::default()
        }
    }

    /// Plans for the regions of the mapping `range` that have a page now. `with_accesses` says whether accesses of huge
    /// pages are seen: without them it cannot be told how far the program is, and nothing is made ready.
    pub fn plan(
        &mut self,
        now: Duration,
        range: &Range<u64>,
        regions: &[RegionObservation],
        with_accesses: bool,
    ) -> Plan {
        self.planned = now;
        let there: BTreeSet<Region> = regions.iter().map(|seen| seen.region).collect();
        // What was unmapped, or given back by the program, begins anew.
        self.used.retain(|region| there.contains(region));
        self.ready.retain(|region| there.contains(region));
        self.passed.retain(|region| there.contains(region));
        let mut plan = Plan::default();
        let mut new = Vec::new();
        for seen in regions {
            let rests = self.ready.contains(&seen.region) || self.passed.contains(&seen.region);
            if rests && seen.accessed == 0 {
                continue;
            }
            self.used(seen.region);
            if self.used.insert(seen.region) {
                new.push(seen.region);
            }
            if !seen.is_huge() && seen.swapped == 0 && self.may_try(seen.region) {
                plan.promote.push(seen.region);
            }
        }
        self.keep_pace(now, new.len());
        self.follow(&new);
        let waits = now.saturating_sub(self.moved) > PATIENCE;
        if waits && self.has_ready() {
            self.given_back += 1;
            self.ready.append(&mut self.passed);
            plan.give_back = std::mem::take(&mut self.ready).into_iter().collect();
            self.fronts.clear();
        } else if with_accesses && self.given_back < 2 {
            plan.ready = self.next(range, &there);
        }
        plan
    }

    /// These regions were made ready.
    pub fn made_ready(&mut self, regions: impl IntoIterator<Item = Region>) {
        self.ready.extend(regions);
    }

    /// These could not be made huge: they wait.
    pub fn refused(&mut self, regions: impl IntoIterator<Item = Region>) {
        for region in regions {
            let times = self.refused.get(&region).map_or(0, |last| last.times);
            let until = self.planned + FIRST_WAIT * (1 << times.min(MOST_DOUBLINGS));
            let times = times + 1;
            self.refused.insert(region, Refusal { times, until });
        }
    }

    fn may_try(&self, region: Region) -> bool {
        let refusal = self.refused.get(&region);
        refusal.is_none_or(|refusal| refusal.until <= self.planned)
    }

    /// Regions that are ready and not used. They are not the program's memory yet.
    #[must_use]
    pub fn is_ready(&self, region: Region) -> bool {
        self.ready.contains(&region) || self.passed.contains(&region)
    }

    /// Whether regions are ready that the program was not seen to use.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.passed.is_empty()
    }

    /// How long ago the program came to a new region; `None` where that was not within the last moments.
    #[must_use]
    pub fn moved_ago(&self, now: Duration) -> Option<Duration> {
        let ago = now.saturating_sub(self.moved);
        (!self.used.is_empty() && ago <= PATIENCE).then_some(ago)
    }

    /// How long what is ready lasts, at the pace of the program and if it goes on at one of its fronts; `None` where nothing is ready.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        let each = self.ready.len().div_ceil(self.fronts.len().max(1));
        let each = u32::try_from(each).unwrap_or(u32::MAX);
        (each > 0).then(|| self.pace.saturating_mul(each))
    }

    /// The program came to so many new regions since it was last seen to come to any.
    fn keep_pace(&mut self, now: Duration, new: usize) {
        let Some(new) = u32::try_from(new).ok().filter(|&new| new > 0) else {
            return;
        };
        // It may have waited, and go on as fast as before.
        let most = (self.pace * 2).max(FIRST_PACE);
        self.pace = (now.saturating_sub(self.moved) / new).min(most);
        self.moved = now;
    }

    /// The program uses a region, ready or not.
    fn used(&mut self, region: Region) {
        self.ready.remove(&region);
        self.passed.remove(&region);
    }

    /// Takes over where the program is now, and which way it goes.
    fn follow(&mut self, new: &[Region]) {
        for run in new.chunk_by(|a, b| Way::Up.next(*a) == Some(*b)) {
            if let (Some(&first), Some(&last)) = (run.first(), run.last()) {
                self.take_front(first, last);
            }
        }
        let mut fronts = std::mem::take(&mut self.fronts);
        fronts
            .retain(|front| self.used.contains(&front.at) && !self.is_behind(front.way, front.at));
        self.fronts = fronts;
        let too_many = self.fronts.len().saturating_sub(MOST_FRONTS);
        self.fronts.drain(..too_many);
    }

    /// The program came to the regions from `first` to `last`. It comes from what it used before, and goes up where there is none
    /// beside them.
    fn take_front(&mut self, first: Region, last: Region) {
        let goes_up = self.is_behind(Way::Down, first)
            || !self.is_behind(Way::Up, last)
                && (self.pass(Way::Down, first) || !self.pass(Way::Up, last));
        let front = if goes_up {
            Front {
                at: last,
                way: Way::Up,
            }
        } else {
            // Where it began, up was a guess.
            let began = Way::Up.next(last);
            self.fronts
                .retain(|front| Some(front.at) != began || front.way == Way::Down);
            Front {
                at: first,
                way: Way::Down,
            }
        };
        self.fronts.push(front);
    }

    /// Whether the program is past the next region that way.
    fn is_behind(&self, way: Way, region: Region) -> bool {
        let next = way.next(region);
        next.is_some_and(|next| self.used.contains(&next) || self.passed.contains(&next))
    }

    /// What is ready that way is behind the program, if it ends where the program was. Returns whether that is so.
    fn pass(&mut self, way: Way, region: Region) -> bool {
        let ready = way.onwards(region).take_while(|it| self.ready.contains(it));
        let ready: Vec<Region> = ready.collect();
        let is_passed = ready.last().is_some_and(|last| self.is_behind(way, *last));
        if is_passed {
            for region in ready {
                self.ready.remove(&region);
                self.passed.insert(region);
            }
        }
        is_passed
    }

    /// The regions to make ready: those after each front, the latest front first.
    fn next(&self, range: &Range<u64>, there: &BTreeSet<Region>) -> Vec<Region> {
        let too_many_passed = self
            .passed
            .len()
            .saturating_sub(self.used.len() / USED_PER_PASSED);
        let most = self.most.saturating_sub(too_many_passed);
        let share = most.div_ceil(self.fronts.len().max(1));
        let mut wanted = Vec::new();
        for front in self.fronts.iter().rev() {
            let inside = front
                .way
                .onwards(front.at)
                .take_while(|region| range.start <= region.start() && region.end() <= range.end)
                .take_while(|region| !self.used.contains(region))
                .take(share);
            for region in inside.filter(|region| !there.contains(region) && self.may_try(*region)) {
                if self.ready.len() + wanted.len() >= most {
                    return wanted;
                }
                if !wanted.contains(&region) {
                    wanted.push(region);
                }
            }
        }
        wanted
    }
}

impl Way {
    fn next(self, region: Region) -> Option<Region> {
        let start = match self {
            Way::Up => region.start().checked_add(HUGE_PAGE_SIZE),
            Way::Down => region.start().checked_sub(HUGE_PAGE_SIZE),
        };
        start.map(Region::containing)
    }

    /// The regions after this one.
    fn onwards(self, region: Region) -> impl Iterator<Item = Region> {
        std::iter::successors(self.next(region), move |region| self.next(*region))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::page::{PAGES_PER_REGION, PageSize};

    const END: u64 = 256;

    fn at(index: u64) -> Region {
        Region::containing(index * HUGE_PAGE_SIZE)
    }

    /// A mapping, the program's use of it, and what is done to it.
    struct Memory {
        ahead: Ahead,
        used: BTreeSet<Region>,
        /// Of those, what the kernel does not say is used.
        unseen: BTreeSet<Region>,
        huge: BTreeSet<Region>,
        given_back: usize,
    }

    impl Memory {
        /// The program touched `last_time` regions of it last time.
        fn new(last_time: u64) -> Self {
            Memory {
                ahead: Ahead::new(last_time * HUGE_PAGE_SIZE),
                used: BTreeSet::new(),
                unseen: BTreeSet::new(),
                huge: BTreeSet::new(),
                given_back: 0,
            }
        }

        fn look(&self) -> Vec<RegionObservation> {
            let there = self.used.union(&self.huge);
            let seen = there.map(|&region| {
                let huge = self.huge.contains(&region);
                let used = self.used.contains(&region) && !self.unseen.contains(&region);
                RegionObservation {
                    region,
                    mapped: if huge { PAGES_PER_REGION } else { 3 },
                    accessed: u16::from(used),
                    page_size: if huge { PageSize::Huge } else { PageSize::Base },
                    zero_filled: None,
                    swapped: 0,
                }
            });
            seen.collect()
        }

        /// One turn; all that is wanted is done.
        fn turn(&mut self, seconds: u64) -> Plan {
            let range = 0..END * HUGE_PAGE_SIZE;
            let now = Duration::from_secs(seconds);
            let plan = self.ahead.plan(now, &range, &self.look(), true);
            self.huge.extend(plan.ready.iter().chain(&plan.promote));
            self.ahead.made_ready(plan.ready.iter().copied());
            for region in &plan.give_back {
                assert!(!self.used.contains(region), "it is the program's");
                self.huge.remove(region);
                self.given_back += 1;
            }
            plan
        }

        fn waste(&self) -> usize {
            self.huge.difference(&self.used).count()
        }
    }

    #[test]
    fn a_program_that_fills_its_memory_finds_it_ready() {
        let mut memory = Memory::new(100);
        let mut faulted = 0;
        for index in 0..END {
            faulted += u64::from(!memory.huge.contains(&at(index)));
            memory.used.insert(at(index));
            memory.turn(0);
        }
        assert_eq!((faulted, memory.huge.len() as u64), (1, END));
        assert!(memory.turn(1) == Plan::default());
    }

    #[test]
    fn a_program_that_fills_its_memory_from_above_finds_it_ready() {
        let mut memory = Memory::new(100);
        let mut faulted = 0;
        for index in (0..END).rev() {
            faulted += u64::from(!memory.huge.contains(&at(index)));
            memory.used.insert(at(index));
            memory.turn(0);
        }
        // Which way it goes is seen at the second one.
        assert_eq!((faulted, memory.huge.len() as u64), (2, END));
        assert!(memory.turn(1) == Plan::default());
    }

    #[test]
    fn what_is_ready_lasts_the_longer_the_slower_the_program_goes() {
        let mut ahead = Ahead::new(0);
        let mut lasts = Vec::new();
        let (mut memory, ms) = (Memory::new(0), Duration::from_millis);
        let range = 0..END * HUGE_PAGE_SIZE;
        let mut come_to = |index: u64, now: Duration| {
            memory.used.insert(at(index));
            let plan = ahead.plan(now, &range, &memory.look(), true);
            memory.huge.extend(&plan.ready);
            ahead.made_ready(plan.ready);
            lasts.push(ahead.lasts());
        };
        (0..16).for_each(|index| come_to(index, ms(1000 + index)));
        (16..32).for_each(|index| come_to(index, ms(1000 + 20 * index)));
        come_to(32, ms(2000));
        assert_eq!(lasts[15], Some(ms(16)));
        assert_eq!(lasts[31], Some(ms(320)));
        // It waited.
        assert_eq!(lasts[32], Some(ms(640)));
        assert_eq!(Ahead::new(0).lasts(), None);
    }

    #[test]
    fn what_it_never_comes_to_is_given_back_and_not_made_ready_for_ever() {
        let mut memory = Memory::new(100);
        memory.used.extend((0..100).map(at));
        memory.turn(0);
        assert_eq!(memory.waste(), 25);
        assert_eq!(memory.turn(1).give_back, []);
        assert_eq!(memory.turn(3).give_back.len(), 25);
        assert_eq!(memory.waste(), 0);
        assert_eq!(memory.turn(4), Plan::default());
        memory.used.insert(at(100));
        assert!(!memory.turn(5).ready.is_empty());
        memory.turn(9);
        memory.used.insert(at(101));
        assert_eq!(memory.turn(10).ready, []);
        assert_eq!(memory.waste(), 0);
    }

    #[test]
    fn what_it_passed_unseen_holds_nothing_up() {
        let mut memory = Memory::new(100);
        let mut faulted = 0;
        for index in 0..END {
            faulted += u64::from(!memory.huge.contains(&at(index)));
            memory.used.insert(at(index));
            // Of five regions one tells nothing of its use.
            if index % 5 == 3 && memory.huge.contains(&at(index)) {
                memory.unseen.insert(at(index));
            }
            memory.turn(0);
        }
        assert_eq!(faulted, 1);
    }

    #[test]
    fn a_program_that_leaps_has_less_ready_ahead() {
        let mut memory = Memory::new(64);
        for index in (0..END).step_by(8) {
            memory.used.insert(at(index));
            memory.turn(0);
        }
        assert!(memory.waste() <= 16 + memory.used.len() / USED_PER_PASSED);
    }

    #[test]
    fn without_accesses_only_what_it_began_is_promoted() {
        let mut memory = Memory::new(100);
        memory.used.extend((0..5).map(at));
        let range = 0..END * HUGE_PAGE_SIZE;
        let plan = memory
            .ahead
            .plan(Duration::ZERO, &range, &memory.look(), false);
        assert_eq!(plan.promote, (0..5).map(at).collect::<Vec<_>>());
        assert_eq!(plan.ready, []);
    }

    #[test]
    fn what_could_not_be_made_huge_is_tried_again_ever_later() {
        let mut ahead = Ahead::new(0);
        let mut memory = Memory::new(0);
        memory.used.insert(at(0));
        let mut tried = Vec::new();
        for tenths in 0..100 {
            let now = Duration::from_millis(100 * tenths);
            let range = 0..END * HUGE_PAGE_SIZE;
            let plan = ahead.plan(now, &range, &memory.look(), false);
            if plan.promote == [at(0)] {
                tried.push(tenths);
                ahead.refused(plan.promote);
            }
        }
        assert_eq!(tried, [0, 3, 8, 18, 38, 78]);
    }

    proptest! {
        /// However a program goes through its memory, little is ready beside what it uses, nothing outside of its mapping,
        /// and once it rests nothing is left.
        #[test]
        fn little_is_ready_beside_what_is_used(last_time in 0..1_000_u64, steps in prop::collection::vec(
            prop_oneof![(0..END).prop_map(Some), Just(None)], 1..300)) {
            let mut memory = Memory::new(last_time);
            let (mut last, mut seconds) = (0, 0);
            for (turn, step) in steps.iter().enumerate() {
                last = step.unwrap_or((last + 1) % END);
                memory.used.insert(at(last));
                seconds = turn as u64 / 7;
                memory.turn(seconds);
                let most = (last_time / USED_PER_READY).max(LEAST_READY as u64);
                let passed = memory.used.len() / USED_PER_PASSED;
                prop_assert!(memory.waste() as u64 <= most + passed as u64);
                prop_assert!(memory.huge.iter().all(|region| region.end() <= END * HUGE_PAGE_SIZE));
                prop_assert!(memory.used.is_subset(&memory.huge));
            }
            memory.turn(seconds + 10);
            prop_assert_eq!(memory.waste(), 0);
        }
    }
}
