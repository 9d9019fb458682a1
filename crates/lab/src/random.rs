//! A small deterministic generator of random words.

pub use mega_core::mix;

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): one 64-bit state, every seed good, a few instructions
/// a word, so that it costs a random-access workload next to nothing.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same words for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number of `0..limit`, each as likely.
    pub fn below(&mut self, limit: u64) -> u64 {
        below(self.word(), usize::try_from(limit).unwrap_or(usize::MAX)) as u64
    }
}

/// Maps a random word evenly onto `0..limit`.
#[must_use]
pub fn below(word: u64, limit: usize) -> usize {
    // The high half of the product is less than `limit`, so it fits a usize.
    #[allow(clippy::cast_possible_truncation)]
    let scaled = ((u128::from(word) * limit as u128) >> 64) as usize;
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.word(), 6_457_827_717_110_365_317);
        assert_eq!(random.word(), 3_203_168_211_198_807_973);
    }

    proptest::proptest! {
        #[test]
        fn below_stays_below(word: u64, limit in 1usize..) {
            proptest::prop_assert!(below(word, limit) < limit);
            let of_word = Random::new(word).word();
            proptest::prop_assert_eq!(Random::new(word).below(limit as u64), below(of_word, limit) as u64);
        }
    }
}
