//! Ranges of addresses cut to the whole regions in them.

use std::ops::Range;

use mega_core::HUGE_PAGE_SIZE;

/// The first address above any user space: with five levels of page tables it ends at 2^56.
pub(super) const USER_END: u64 = 1 << 56;

/// Cuts each range to the whole regions in it, below `end`; leaves out those that hold none.
pub(super) fn whole_regions(ranges: &[Range<u64>], end: u64) -> impl Iterator<Item = Range<u64>> {
    ranges
        .iter()
        .filter_map(move |range| {
            let start = range.start.checked_next_multiple_of(HUGE_PAGE_SIZE)?;
            Some(start..range.end.min(end) & !(HUGE_PAGE_SIZE - 1))
        })
        .filter(|range| range.start < range.end)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // one range is a list of ranges
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_range_escapes(start in any::<u64>(), end in any::<u64>(), limit in prop::sample::select(vec![1_u64 << 47, USER_END])) {
            for range in whole_regions(&[start..end], limit) {
                prop_assert!(range.start >= start && range.end <= end && range.end <= limit);
                prop_assert!(range.start < range.end);
                prop_assert_eq!((range.start | range.end) % HUGE_PAGE_SIZE, 0);
            }
        }
    }

    #[test]
    fn partial_regions_at_the_ends_are_cut() {
        const M: u64 = 1 << 20;
        let cut: Vec<_> = whole_regions(&[M..7 * M, 9 * M..11 * M], USER_END).collect();
        assert_eq!(cut, [2 * M..6 * M]);
    }
}
