//! One bit for each base page of a region.

use std::ops::{BitAnd, BitOr};

/// 512 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits([u64; 8]);

impl Bits {
    /// All bits set.
    pub(crate) const ALL: Bits = Bits([u64::MAX; 8]);

    pub(crate) const fn get(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 != 0
    }

    pub(crate) fn set(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    /// Sets the bits of places from one to before another.
    pub(crate) fn set_all(&mut self, from: usize, to: usize) {
        for (word, first) in self.0.iter_mut().zip((0..).step_by(64)) {
            let (from, to) = (
                from.clamp(first, first + 64) - first,
                to.clamp(first, first + 64) - first,
            );
            if from < to {
                *word |= u64::MAX >> (64 - (to - from)) << from;
            }
        }
    }

    /// Whether a bit is set from one place to before another.
    pub(crate) fn is_any(&self, from: usize, to: usize) -> bool {
        *self != Bits::default() && (from..to).any(|place| self.get(place))
    }

    pub(crate) fn clear(&mut self, place: usize) {
        self.0[place / 64] &= !(1 << (place % 64));
    }

    /// Bits that are set, 0 to 512.
    pub(crate) fn count(&self) -> u16 {
        let ones = self.0.iter().map(|word| word.count_ones()).sum::<u32>();
        ones.try_into().unwrap_or(u16::MAX)
    }

    /// Groups of eight neighbours in which a bit is set, 0 to 64: the cache lines of their page table entries.
    pub(crate) fn lines(&self) -> u16 {
        let bytes = self.0.iter().flat_map(|word| word.to_le_bytes());
        bytes.map(|byte| u16::from(byte != 0)).sum()
    }

    /// The places of the bits that are set, in order.
    pub(crate) fn places(self) -> impl Iterator<Item = usize> {
        (0..512).filter(move |&place| self.get(place))
    }
}

impl BitAnd for Bits {
    type Output = Bits;

    fn bitand(mut self, other: Bits) -> Bits {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= other;
        }
        self
    }
}

impl BitOr for Bits {
    type Output = Bits;

    fn bitor(mut self, other: Bits) -> Bits {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn bits_in_a_row_are_those_set_one_by_one(from in 0usize..513, to in 0usize..513) {
            let (mut row, mut single) = (Bits::default(), Bits::default());
            row.set_all(from, to);
            (from..to).for_each(|place| single.set(place));
            proptest::prop_assert_eq!(row, single);
            let inside = (0..512).filter(|&place| single.get(place));
            for place in inside.step_by(7) {
                proptest::prop_assert!(row.is_any(place, place + 1));
            }
            proptest::prop_assert!(!row.is_any(0, from) && !row.is_any(to.max(from), 512));
        }

        #[test]
        fn each_bit_is_one_of_its_own(places: std::collections::BTreeSet<u16>) {
            let places: std::collections::BTreeSet<usize> =
                places.into_iter().map(|place| usize::from(place % 512)).collect();
            let mut bits = Bits::default();
            places.iter().for_each(|&place| bits.set(place));
            proptest::prop_assert_eq!(usize::from(bits.count()), places.len());
            proptest::prop_assert!(bits.places().eq(places.iter().copied()));
            let lines: std::collections::BTreeSet<usize> =
                places.iter().map(|place| place / 8).collect();
            proptest::prop_assert_eq!(usize::from(bits.lines()), lines.len());
            places.iter().for_each(|&place| bits.clear(place));
            proptest::prop_assert_eq!(bits, Bits::default());
        }
    }
}
