//! Which regions have their Accessed bits cleared this time.
//!
//! Clearing a base page costs some thirty times as much as reading its bit, and its program three to four times as much
//! again, since the processor sets the bit at the next touch: 1 GiB takes 14 to 18 ms, and the program 50 to 60 (Linux 6.18,
//! a virtual machine). So a large process that uses all of its memory is cleared in turns: at each observation only every
//! n-th region, so that clearing stays within [`CLEARING_SHARE`] of a core, and both together within half a percent. A region
//! that was cleared last time reports what was accessed since; for one that was not, what it reported last still stands, as
//! far as its bits do not contradict it. A region that is new, or changed its page size, is cleared out of turn: of every
//! region a whole interval is seen before any is left out. Of a process with many new regions, those are cleared within
//! [`FIRST_CLEARING`] an observation; what waits reports no accesses until then.

use std::time::Duration;

use mega_core::{HUGE_PAGE_SIZE, PageSize, Region, RegionObservation};

/// The share of one core that clearing may take, as long as there are turns enough for it.
const CLEARING_SHARE: f64 = 0.001;
/// What clearing may always take, however short the interval.
const ALWAYS_ALLOWED: Duration = Duration::from_micros(250);
/// The longest that it takes until every region has had its turn, where intervals are short.
const LONGEST_ROUND: Duration = Duration::from_secs(40);
/// As many turns there may always be, however long the intervals.
const FEW_TURNS: f64 = 8.0;

/// What clearing regions for the first time may take in one observation: other groups wait for it. It suffices for
/// 9 GiB (11 ms per GiB).
pub(crate) const FIRST_CLEARING: Duration = Duration::from_millis(100);

/// What is remembered of one region between two observations.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    region: Region,
    accessed: u16,
    page_size: PageSize,
    /// Whether its bits were clear when the interval began.
    cleared: bool,
}

/// The turns of one process.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    remembered: Vec<Remembered>,
    turn: u64,
}

/// In how many turns a process is cleared whose clearing takes `whole`, when it is observed once an `interval`.
pub(crate) fn count(whole: Duration, interval: Duration) -> u64 {
    let allowed = interval.mul_f64(CLEARING_SHARE).max(ALWAYS_ALLOWED);
    let most =
        LONGEST_ROUND.as_secs_f64() / interval.as_secs_f64().max(ALWAYS_ALLOWED.as_secs_f64());
    let turns = whole.div_duration_f64(allowed).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 160,000
    let turns = turns.clamp(1.0, most.max(FEW_TURNS)) as u64;
    turns
}

impl Turns {
    /// Whether nothing is remembered, so that every region has its turn.
    pub(crate) fn are_new(&self) -> bool {
        self.remembered.is_empty()
    }

    /// Forgets everything: another program runs, or clearing failed.
    pub(crate) fn forget(&mut self) {
        self.remembered.clear();
    }

    /// Leaves of regions, in address order, those whose bits gather since the last observation: they were clear then.
    pub(crate) fn keep_cleared(&self, regions: &mut Vec<RegionObservation>) {
        let mut remembered = self.remembered.iter().peekable();
        regions.retain(|seen| {
            while remembered.next_if(|old| old.region < seen.region).is_some() {}
            let old = remembered.next_if(|old| old.region == seen.region);
            old.is_some_and(|old| old.cleared && old.page_size == seen.page_size)
        });
    }

    /// Chooses what to clear in one of `turns`: of `regions`, as the tracker saw them and in address order, those whose
    /// turn it is, and of the new ones as many as have `most_new` base pages. In `regions` it puts what stands in place of
    /// bits that gathered for longer than the last interval.
    pub(crate) fn choose(
        &mut self,
        regions: &mut [RegionObservation],
        turns: u64,
        most_new: u64,
    ) -> Vec<RegionObservation> {
        let mut new_pages = 0;
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn % turns.max(1);
        let remembered = std::mem::take(&mut self.remembered);
        let mut before = remembered.iter().peekable();
        let mut chosen = Vec::new();
        for region in regions {
            let seen = *region;
            while before.next_if(|old| old.region < seen.region).is_some() {}
            let old = before
                .next_if(|old| old.region == seen.region)
                .filter(|old| old.page_size == seen.page_size);
            if old.is_none() && !seen.is_huge() && seen.accessed > 0 {
                if new_pages >= most_new {
                    region.accessed = 0;
                    continue;
                }
                new_pages += u64::from(seen.mapped);
            }
            if let Some(old) = old.filter(|old| !old.cleared) {
                region.accessed = seen.accessed.min(old.accessed);
            }
            let index = seen.region.start() / HUGE_PAGE_SIZE;
            let is_due = old.is_none() || seen.is_huge() || index % turns.max(1) == turn;
            if is_due {
                chosen.push(seen);
            }
            self.remembered.push(Remembered {
                region: seen.region,
                accessed: region.accessed,
                page_size: seen.page_size,
                cleared: is_due || seen.accessed == 0,
            });
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base(index: u64, accessed: u16) -> RegionObservation {
        RegionObservation {
            region: Region::containing(index * HUGE_PAGE_SIZE),
            mapped: 512,
            accessed,
            page_size: PageSize::Base,
            zero_filled: None,
            swapped: 0,
        }
    }

    /// One process whose regions' bits gather until they are cleared.
    struct Bits {
        bits: Vec<u16>,
        turns: Turns,
        most_new: u64,
    }

    impl Bits {
        /// Each region gets `accessed` bits set, then all are observed in `turns`: what is reported, and how many
        /// were cleared.
        fn interval(&mut self, accessed: u16, turns: u64) -> (Vec<u16>, usize) {
            let mut scanned = Vec::new();
            for (index, bits) in self.bits.iter_mut().enumerate() {
                *bits = (*bits).max(accessed);
                scanned.push(base(index as u64, *bits));
            }
            let chosen = self.turns.choose(&mut scanned, turns, self.most_new);
            for region in &chosen {
                let index = region.region.start() / HUGE_PAGE_SIZE;
                self.bits[usize::try_from(index).unwrap()] = 0;
            }
            let reported = scanned.iter().map(|region| region.accessed).collect();
            (reported, chosen.len())
        }
    }

    fn sixteen() -> Bits {
        Bits {
            bits: vec![512; 16],
            turns: Turns::default(),
            most_new: u64::MAX,
        }
    }

    #[test]
    fn every_region_is_cleared_at_first_and_then_in_turns() {
        let mut process = sixteen();
        assert_eq!(process.interval(0, 4).1, 16);
        assert_eq!(process.interval(100, 4), (vec![100; 16], 4));
        assert_eq!(process.interval(100, 4), (vec![100; 16], 4));
    }

    #[test]
    fn what_becomes_cold_is_seen_within_all_turns() {
        let mut process = sixteen();
        process.interval(0, 4);
        process.interval(512, 4);
        let mut reported = Vec::new();
        for _ in 0..5 {
            reported = process.interval(0, 4).0;
        }
        assert_eq!(reported, [0; 16]);
    }

    #[test]
    fn what_becomes_hot_is_seen_within_all_turns() {
        let mut process = sixteen();
        process.interval(0, 4);
        process.interval(10, 4);
        let mut reported = Vec::new();
        for _ in 0..5 {
            reported = process.interval(300, 4).0;
        }
        assert_eq!(reported, [300; 16]);
    }

    #[test]
    fn with_one_turn_every_interval_stands_for_itself() {
        let mut process = sixteen();
        process.interval(0, 1);
        for accessed in [5, 500, 0, 77] {
            assert_eq!(process.interval(accessed, 1), (vec![accessed; 16], 16));
        }
    }

    #[test]
    fn what_had_no_turn_is_in_no_glance() {
        let mut process = sixteen();
        process.interval(0, 4);
        process.interval(100, 4);
        let mut seen: Vec<_> = (0..17).map(|index| base(index, 512)).collect();
        process.turns.keep_cleared(&mut seen);
        let turns: Vec<_> = seen.iter().map(|seen| seen.region.start() >> 21).collect();
        assert_eq!(turns, [2, 6, 10, 14]);
    }

    proptest! {
        /// Of any number of regions, each is cleared within bounded time, within what the new and the old may take, and
        /// none is ever said to be used more than it is.
        #[test]
        fn clearing_keeps_to_its_shares_and_reaches_every_region(
            regions in 1_usize..300,
            turns in 1..=160_u64,
            most_new in 1_u64..40_000,
            accessed in 1_u16..=512,
        ) {
            let count = regions as u64;
            let mut process = Bits {
                // Bits gathered since the program began.
                bits: vec![512; regions],
                turns: Turns::default(),
                most_new,
            };
            let at_a_time = most_new.div_ceil(512);
            let observations = count.div_ceil(at_a_time) + turns;
            let mut reported = Vec::new();
            for observation in 0..observations {
                let (seen, cleared) = process.interval(accessed, turns);
                let new = at_a_time.min(count.saturating_sub(observation * at_a_time));
                let old = (observation * at_a_time).min(count).div_ceil(turns);
                prop_assert!(cleared as u64 <= new + old, "{cleared} of {new} new and {old} old");
                let known = usize::try_from((observation * at_a_time).min(count)).unwrap();
                prop_assert!(seen[..known].iter().all(|&seen| seen <= accessed), "{seen:?}");
                reported = seen;
            }
            prop_assert_eq!(reported, vec![accessed; regions]);
        }
    }

    #[test]
    fn turns_are_as_many_as_the_share_needs() {
        let second = Duration::from_secs(1);
        assert_eq!(count(Duration::from_millis(1), second), 1);
        assert_eq!(count(Duration::from_micros(1001), second), 2);
        assert_eq!(count(second, second), 40);
        assert_eq!(count(second, second / 4), 160);
        assert_eq!(count(second, 60 * second), 8);
        assert_eq!(count(second, Duration::ZERO), 4000);
        assert_eq!(count(Duration::ZERO, Duration::ZERO), 1);
    }
}
