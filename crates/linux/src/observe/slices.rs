//! Which spans of a very large process are looked at this time.
//!
//! Reading the page tables of half a terabyte takes a quarter of a second, so a process whose scan would take more than
//! [`SCANNING_SHARE`] of a core is looked at in slices: every n-th of its spans at each observation. The spans of a slice
//! are scanned and cleared, and scanned again at the next observation, so that they show the accesses of one whole
//! interval. Of all other spans the last report stands. A region is reported from its slice's first turn on, with nothing
//! accessed until its second scan.
//!
//! So scanning takes a bounded share of a core up to [`MOST_SLICES`], which is more than a terabyte of base pages. Only
//! copying what was seen is O(regions), some 20 ns each. Clearing keeps to [`CLEARING_SHARE`] up to [`MOST_FOR_CLEARING`]
//! slices: with more, what a program uses would be known too late to be worth it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, RegionObservation, Span};

/// The share of one core that scanning one process may take.
const SCANNING_SHARE: f64 = 0.004;
/// The share of one core that clearing one process may take.
const CLEARING_SHARE: f64 = 0.005;
/// The time that either may take in any case, however short the interval.
const ALWAYS_ALLOWED: Duration = Duration::from_millis(4);
/// The most observations until every span has had its turn: five minutes at an interval of 5 s.
const MOST_SLICES: u64 = 64;
/// The most slices that a process is looked at in for the sake of clearing, as with turns (`turns.rs`).
const MOST_FOR_CLEARING: f64 = 8.0;
/// Time to read one page table of base pages before anything was measured (Linux 6.18, a virtual machine: 0.5 to 1 us).
const PER_TABLE: Duration = Duration::from_nanos(700);
/// Time to read the entry of one huge page (the same).
const PER_HUGE_PAGE: Duration = Duration::from_nanos(50);
/// How far measurements may move the estimate: a manager scheduled away in the middle proves nothing.
const CORRECTION: std::ops::RangeInclusive<f64> = 0.2..=5.0;
/// How much of one measurement goes into the estimate.
const LEARNING: f64 = 0.3;
/// Scans shorter than this are mostly system calls, and teach nothing.
const SHORTEST_LESSON: Duration = Duration::from_micros(500);

/// The slices of one process.
#[derive(Debug)]
pub(crate) struct Slices {
    turn: u64,
    /// What was seen last of all spans that were looked at, in address order.
    seen: Vec<RegionObservation>,
    /// Spans that were cleared at the last observation, by number.
    cleared: BTreeSet<u64>,
    /// What a scan takes, against what it is taken for at first.
    correction: f64,
}

impl Default for Slices {
    fn default() -> Self {
        Slices {
            turn: 0,
            seen: Vec::new(),
            cleared: BTreeSet::new(),
            correction: 1.0,
        }
    }
}

/// What is looked at in one observation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The addresses to scan, whole regions, ascending.
    pub(crate) ranges: Vec<Range<u64>>,
    /// The spans to clear then, by number.
    due: BTreeSet<u64>,
}

impl Slices {
    /// Forgets what was seen: another program runs.
    pub(crate) fn forget(&mut self) {
        self.seen.clear();
        self.cleared.clear();
    }

    /// What was seen last of the spans that were looked at.
    pub(crate) fn seen(&self) -> &[RegionObservation] {
        &self.seen
    }

    /// What of `ranges` was cleared at the last observation; `None` where that was not in slices.
    pub(crate) fn cleared(&self, ranges: &[Range<u64>]) -> Option<Vec<Range<u64>>> {
        let parts = ranges.iter().flat_map(by_span);
        let cleared = parts.filter(|part| self.cleared.contains(&number(part.start)));
        (!self.seen.is_empty()).then(|| cleared.collect())
    }

    /// How long a scan of all of it is expected to take. `ranges` are where huge pages may be, `resident` is all that the
    /// process has resident, in bytes.
    pub(crate) fn expected(&self, ranges: &[Range<u64>], resident: u64) -> Duration {
        let regions: u64 = ranges
            .iter()
            .map(|range| (range.end - range.start) >> 21)
            .sum();
        let huge = self.seen.iter().filter(|region| region.is_huge()).count() as u64;
        let left = resident.saturating_sub(huge << 21) / BASE_PAGE_SIZE;
        // There is no more tables than regions, and none without a page.
        let tables = regions.saturating_sub(huge).min(left);
        self.corrected(tables, huge)
    }

    fn corrected(&self, tables: u64, huge: u64) -> Duration {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let uncorrected = PER_TABLE
            .saturating_mul(count(tables))
            .saturating_add(PER_HUGE_PAGE.saturating_mul(count(huge)));
        uncorrected.mul_f64(self.correction)
    }

    /// What to look at, once an `interval`, where scanning all of `ranges` takes `scanning` and clearing all that was
    /// accessed `clearing`. `None`: all of it.
    pub(crate) fn next(
        &mut self,
        ranges: &[Range<u64>],
        scanning: Duration,
        clearing: Duration,
        interval: Duration,
    ) -> Option<Slice> {
        let count = count(scanning, clearing, interval);
        if count <= 1 {
            self.forget();
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn % count;
        let mut slice = Slice {
            ranges: Vec::new(),
            due: BTreeSet::new(),
        };
        for range in ranges {
            for part in by_span(range) {
                let span = number(part.start);
                let is_due = span % count == turn;
                if is_due {
                    slice.due.insert(span);
                }
                if is_due || self.cleared.contains(&span) {
                    match slice.ranges.last_mut() {
                        Some(last) if last.end == part.start => last.end = part.end,
                        _ => slice.ranges.push(part),
                    }
                }
            }
        }
        Some(slice)
    }

    /// Takes in what a scan of `slice` found, which took `took`. Leaves in `found` what is known of all of `ranges`, and
    /// returns what is to be cleared.
    pub(crate) fn merge(
        &mut self,
        slice: Slice,
        found: &mut Vec<RegionObservation>,
        ranges: &[Range<u64>],
        took: Duration,
    ) -> Vec<RegionObservation> {
        self.learn(found, took);
        let due: Vec<RegionObservation> = found
            .iter()
            .filter(|region| slice.due.contains(&span_of(region)))
            .copied()
            .collect();
        let before = std::mem::take(&mut self.seen);
        let mut kept = KeptIn::new(ranges);
        let mut old = before.into_iter().peekable();
        let mut scanned = KeptIn::new(&slice.ranges);
        for region in found.iter() {
            while let Some(other) = old.next_if(|old| old.region < region.region) {
                if kept.holds(&other) && !scanned.holds(&other) {
                    self.seen.push(other);
                }
            }
            let known = old.next_if(|old| old.region == region.region);
            let whole_interval = self.cleared.contains(&span_of(region));
            self.seen.push(RegionObservation {
                accessed: match known.filter(|known| known.page_size == region.page_size) {
                    _ if whole_interval => region.accessed,
                    // Its bits gathered for longer than an interval.
                    Some(known) => region.accessed.min(known.accessed),
                    None => 0,
                },
                ..*region
            });
        }
        self.seen
            .extend(old.filter(|other| kept.holds(other) && !scanned.holds(other)));
        found.clone_from(&self.seen);
        self.cleared = slice.due;
        due
    }

    fn learn(&mut self, found: &[RegionObservation], took: Duration) {
        if took < SHORTEST_LESSON {
            return;
        }
        let huge = found.iter().filter(|region| region.is_huge()).count() as u64;
        let tables = found.len() as u64 - huge;
        let expected = self.corrected(tables, huge).as_secs_f64().max(1e-9);
        let seen = (self.correction * took.as_secs_f64() / expected)
            .clamp(*CORRECTION.start(), *CORRECTION.end());
        self.correction += LEARNING * (seen - self.correction);
    }
}

/// In how many slices a process is looked at.
fn count(scanning: Duration, clearing: Duration, interval: Duration) -> u64 {
    let parts = |whole: Duration, share: f64| {
        let allowed = interval.mul_f64(share).max(ALWAYS_ALLOWED);
        whole.as_secs_f64() / allowed.as_secs_f64()
    };
    let scanning = parts(scanning, SCANNING_SHARE);
    if scanning <= 1.0 {
        return 1;
    }
    // In slices each span is scanned twice in its turn.
    let clearing = parts(clearing, CLEARING_SHARE).min(MOST_FOR_CLEARING);
    let parts = (2.0 * scanning).max(clearing).ceil();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "1 to 64"
    )]
    let parts = parts.clamp(1.0, MOST_SLICES as f64) as u64;
    parts
}

fn number(address: u64) -> u64 {
    address / GIANT_PAGE_SIZE
}

fn span_of(region: &RegionObservation) -> u64 {
    number(Span::of(region.region).start())
}

/// The parts of a range, cut where spans begin.
fn by_span(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let (start, end) = (range.start, range.end);
    (number(start)..=number(end.saturating_sub(1).max(start)))
        .map(move |span| {
            let first = span * GIANT_PAGE_SIZE;
            first.max(start)..first.saturating_add(GIANT_PAGE_SIZE).min(end)
        })
        .filter(|part| part.start < part.end)
}

/// Asked about regions in ascending order: whether one of the ranges holds them.
struct KeptIn<'a> {
    ranges: std::iter::Peekable<std::slice::Iter<'a, Range<u64>>>,
}

impl<'a> KeptIn<'a> {
    fn new(ranges: &'a [Range<u64>]) -> Self {
        KeptIn {
            ranges: ranges.iter().peekable(),
        }
    }

    fn holds(&mut self, region: &RegionObservation) -> bool {
        let (start, end) = (region.region.start(), region.region.end());
        while self.ranges.next_if(|range| range.end <= start).is_some() {}
        self.ranges
            .peek()
            .is_some_and(|range| range.start <= start && end <= range.end)
    }
}

#[cfg(test)]
mod tests {
    use mega_core::{HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, Region};
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn base(region: u64, accessed: u16) -> RegionObservation {
        RegionObservation {
            region: Region::containing(region * HUGE_PAGE_SIZE),
            mapped: PAGES_PER_REGION,
            accessed,
            page_size: PageSize::Base,
            zero_filled: None,
            swapped: 0,
        }
    }

    /// A process of some spans, each with two mapped regions.
    struct Program {
        slices: Slices,
        /// Bits of each region since it was cleared, by the region's number.
        bits: Vec<(u64, u16)>,
        spans: u64,
        scanned: usize,
    }

    impl Program {
        fn new(spans: u64) -> Self {
            let bits = (0..spans).flat_map(|span| [(span * 512, 9), (span * 512 + 7, 9)]);
            Program {
                slices: Slices::default(),
                bits: bits.collect(),
                spans,
                scanned: 0,
            }
        }

        /// An interval in which each region has `accessed` pages accessed, and its observation in about `count` slices.
        fn interval(&mut self, accessed: u16, count: u32) -> Vec<RegionObservation> {
            for (_, bits) in &mut self.bits {
                *bits = (*bits).max(accessed);
            }
            let all = 0..self.spans * GIANT_PAGE_SIZE;
            let ranges = std::slice::from_ref(&all);
            let scanning = SECOND.mul_f64(SCANNING_SHARE) * count / 2;
            let slice = self.slices.next(ranges, scanning, Duration::ZERO, SECOND);
            let slice = slice.expect("it is large");
            let mut found: Vec<RegionObservation> = self
                .bits
                .iter()
                .map(|&(region, bits)| base(region, bits))
                .filter(|seen| {
                    let start = seen.region.start();
                    slice.ranges.iter().any(|range| range.contains(&start))
                })
                .collect();
            self.scanned += found.len();
            let due = self.slices.merge(slice, &mut found, ranges, Duration::ZERO);
            for cleared in due {
                let number = cleared.region.start() / HUGE_PAGE_SIZE;
                let bits = self.bits.iter_mut().find(|(region, _)| *region == number);
                bits.expect("it is mapped").1 = 0;
            }
            found
        }
    }

    #[test]
    fn what_is_small_is_looked_at_whole() {
        let all = 0..8 * GIANT_PAGE_SIZE;
        let ranges = std::slice::from_ref(&all);
        let mut slices = Slices::default();
        let few = Duration::from_millis(3);
        assert_eq!(slices.next(ranges, few, SECOND, SECOND), None);
    }

    #[test]
    fn what_was_cleared_is_what_a_glance_may_see() {
        let all = 0..64 * GIANT_PAGE_SIZE;
        let ranges = std::slice::from_ref(&all);
        assert_eq!(Slices::default().cleared(ranges), None);
        let mut program = Program::new(64);
        for _ in 0..10 {
            program.interval(5, 8);
            let cleared = program.slices.cleared(ranges).expect("it is in slices");
            for (region, bits) in &program.bits {
                let start = region * HUGE_PAGE_SIZE;
                let is_in = cleared.iter().any(|range| range.contains(&start));
                assert_eq!(is_in, *bits == 0, "region {region}");
            }
        }
    }

    #[test]
    fn every_span_has_its_turn_and_an_observation_is_a_part_of_all() {
        let mut program = Program::new(64);
        for _ in 0..8 {
            program.interval(5, 8);
        }
        assert_eq!(program.interval(5, 8).len(), 128);
        // Nine observations. Each scanned one slice for the first time and one for the second.
        assert!(program.scanned <= 9 * 2 * 16, "{}", program.scanned);
    }

    #[test]
    fn what_is_reported_is_of_one_interval() {
        let mut program = Program::new(16);
        for _ in 0..10 {
            let seen = program.interval(5, 4);
            assert!(seen.iter().all(|seen| seen.accessed <= 5), "{seen:?}");
        }
        assert!(program.interval(5, 4).iter().all(|seen| seen.accessed == 5));
        for _ in 0..5 {
            program.interval(0, 4);
        }
        assert!(program.interval(0, 4).iter().all(|seen| seen.accessed == 0));
        for _ in 0..5 {
            program.interval(300, 4);
        }
        let seen = program.interval(300, 4);
        assert!(seen.iter().all(|seen| seen.accessed == 300), "{seen:?}");
    }

    #[test]
    fn what_is_unmapped_is_forgotten() {
        let mut program = Program::new(16);
        for _ in 0..5 {
            program.interval(5, 4);
        }
        program.bits.retain(|(region, _)| region % 512 == 0);
        for _ in 0..5 {
            program.interval(5, 4);
        }
        assert_eq!(program.interval(5, 4).len(), 16);
        program.spans = 8;
        program.bits.truncate(8);
        assert_eq!(program.interval(5, 4).len(), 8);
    }

    #[test]
    fn few_pages_in_many_regions_are_expected_to_take_as_long_as_their_tables() {
        let all = 0..512 * GIANT_PAGE_SIZE;
        let ranges = std::slice::from_ref(&all);
        let slices = Slices::default();
        assert_eq!(slices.expected(ranges, 100 << 12), PER_TABLE * 100);
        assert_eq!(slices.expected(ranges, 512 << 30), PER_TABLE * 262_144);
    }

    proptest! {
        #[test]
        fn parts_make_up_the_range(start in 0_u64..4000, length in 1_u64..4000) {
            let range = start * HUGE_PAGE_SIZE..(start + length) * HUGE_PAGE_SIZE;
            let parts: Vec<_> = by_span(&range).collect();
            prop_assert_eq!(parts.first().map(|part| part.start), Some(range.start));
            prop_assert_eq!(parts.last().map(|part| part.end), Some(range.end));
            prop_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            prop_assert!(parts.iter().all(|part| number(part.start) == number(part.end - 1)));
        }

        #[test]
        fn a_count_is_never_nothing(scanning: u32, clearing: u32, interval: u32) {
            let micros = |number: u32| Duration::from_micros(number.into());
            let count = count(micros(scanning), micros(clearing), micros(interval));
            prop_assert!((1..=MOST_SLICES).contains(&count));
        }
    }
}
