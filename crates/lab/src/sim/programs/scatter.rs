//! An order in which neighbours are strangers: a fixed one-to-one mixing of so many numbers.

/// Odd numbers: multiplying by one is a permutation of the words of any width.
const FACTORS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
];
/// So that nothing stays where it is because it is 0.
const OFFSET: u64 = 0x6a09_e667_f3bc_c909;

/// The mixing of the numbers below a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    limit: u64,
    /// Of words of so many bits that the limit fits.
    mask: u64,
    /// Half of these bits, rounded up: who shifts by them twice shifts all out.
    half: u32,
}

impl Scatter {
    /// Of the numbers below `limit`, which is 1 at least.
    pub(super) fn new(limit: u64) -> Self {
        let limit = limit.max(1);
        let bits = (u64::BITS - (limit - 1).leading_zeros()).max(1);
        Scatter {
            limit,
            mask: u64::MAX >> (u64::BITS - bits),
            half: bits.div_ceil(2),
        }
    }

    /// Where a number goes.
    pub(super) fn there(self, number: u64) -> u64 {
        self.walk(number, |word| {
            let mut word = (word ^ OFFSET) & self.mask;
            for factor in FACTORS {
                word = word.wrapping_mul(factor) & self.mask;
                word ^= word >> self.half;
            }
            word
        })
    }

    /// Which number went to that place.
    pub(super) fn back(self, place: u64) -> u64 {
        self.walk(place, |mut word| {
            for factor in FACTORS.into_iter().rev() {
                word ^= word >> self.half;
                word = word.wrapping_mul(inverse(factor)) & self.mask;
            }
            (word ^ OFFSET) & self.mask
        })
    }

    /// A permutation of all words of the mask, applied until it leads below the limit: so it is one of the numbers below it.
    fn walk(self, number: u64, step: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(number < self.limit);
        let mut word = step(number);
        while word >= self.limit {
            word = step(word);
        }
        word
    }
}

/// What an odd number has to be multiplied by for 1, in 64 bits: each step of Newton's doubles the bits that are right, and an odd
/// number is its own inverse in three.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_number_has_a_place_of_its_own(limit in 1u64..5000) {
            let scatter = Scatter::new(limit);
            let mut places: Vec<u64> = (0..limit).map(|number| scatter.there(number)).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..limit).collect::<Vec<_>>());
        }

        #[test]
        fn back_leads_back(limit in 1u64..1 << 50, number: u64) {
            let number = number % limit;
            let scatter = Scatter::new(limit);
            prop_assert!(scatter.there(number) < limit);
            prop_assert_eq!(scatter.back(scatter.there(number)), number);
        }
    }

    /// The first thousandth of many numbers lies in nearly all of a hundred equal parts.
    #[test]
    fn neighbours_lie_apart() {
        let limit = 1_000_000;
        let scatter = Scatter::new(limit);
        let parts: std::collections::BTreeSet<u64> = (0..1000)
            .map(|number| scatter.there(number) / 10_000)
            .collect();
        assert!(parts.len() > 90, "{}", parts.len());
    }
}
