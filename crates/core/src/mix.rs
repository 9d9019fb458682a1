//! Numbers that look like chance and are the same each time.

/// A one-to-one mixing of 64 bits: the output function of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
#[inline]
#[must_use]
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
