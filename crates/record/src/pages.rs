//! What a recording says of a region's base pages, made of how many there are: which of them are taken to be mapped, given back and used.
//!
//! Which they are is not recorded. Those that are mapped are taken to be the first of the region.

use std::ops::Range;

use mega_core::RegionObservation;

/// What became of a region's base pages from one look to the next, as their numbers in the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Mapped before, and no more.
    pub(crate) gone: Range<u16>,
    /// Mapped since.
    pub(crate) new: Range<u16>,
    /// Of those that are mapped, the ones that hold only zeros.
    pub(crate) zeros: Range<u16>,
}

impl Pages {
    /// From a look, if the region was there, to the next.
    pub(crate) fn of(old: Option<&RegionObservation>, seen: &RegionObservation) -> Self {
        let before = old.map_or(0, |old| old.mapped);
        let zeros = seen.zero_filled.unwrap_or(0).min(seen.mapped);
        Pages {
            gone: seen.mapped..before.max(seen.mapped),
            new: before.min(seen.mapped)..seen.mapped,
            zeros: seen.mapped - zeros..seen.mapped,
        }
    }
}

/// What of some ranges lies in none of the others. Both are ascending and disjoint.
pub(crate) fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    for range in ranges {
        let mut start = range.start;
        for other in others {
            if other.end <= start || other.start >= range.end {
                continue;
            }
            if start < other.start {
                rest.push(start..other.start);
            }
            start = other.end;
        }
        if start < range.end {
            rest.push(start..range.end);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use mega_core::{PageSize, Region};

    use super::*;

    #[test]
    fn pages_come_and_go_at_the_end() {
        let seen = |mapped, zero_filled| RegionObservation {
            region: Region::containing(0),
            mapped,
            accessed: 0,
            page_size: PageSize::Base,
            zero_filled,
            swapped: 0,
        };
        let first = Pages::of(None, &seen(200, Some(30)));
        assert_eq!(
            (first.gone, first.new, first.zeros),
            (200..200, 0..200, 170..200)
        );
        let more = Pages::of(Some(&seen(200, None)), &seen(300, Some(900)));
        assert_eq!(
            (more.gone, more.new, more.zeros),
            (300..300, 200..300, 0..300)
        );
        let less = Pages::of(Some(&seen(200, None)), &seen(50, None));
        assert_eq!((less.gone, less.new, less.zeros), (50..200, 50..50, 50..50));
    }

    #[test]
    fn ranges_without_others() {
        let ranges = [0..10, 20..30];
        assert_eq!(without(&ranges, &[]), ranges);
        assert_eq!(
            without(&ranges, &[2..4, 8..22, 29..40]),
            [0..2, 4..8, 22..29]
        );
        assert_eq!(without(&ranges, &[0..15, 15..40]), []);
    }
}
