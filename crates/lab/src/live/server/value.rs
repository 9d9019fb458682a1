//! Keys and values by number: a value tells which key it belongs to.

use crate::random::mix;

/// The key of a number: 12 bytes, as the paper's (MEGA, section 4.5), for numbers below 100 million.
pub(crate) fn key(number: u64) -> String {
    format!("key:{number:08}")
}

/// The value of a number, in whole words of 8 bytes.
pub(crate) fn value(number: u64, bytes: usize) -> Vec<u8> {
    words(number)
        .take(bytes / 8)
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// Whether something is the value of a number.
pub(crate) fn is_value(found: &[u8], number: u64, bytes: usize) -> bool {
    let (chunks, rest) = found.as_chunks::<8>();
    found.len() == bytes / 8 * 8
        && rest.is_empty()
        && chunks
            .iter()
            .zip(words(number))
            .all(|(chunk, word)| u64::from_le_bytes(*chunk) == word)
}

/// Words that no other number's value has.
fn words(number: u64) -> impl Iterator<Item = u64> {
    let first = mix(number);
    (0..).map(move |index| first.wrapping_add(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_its_number_only() {
        let mut found = value(7, 4096);
        assert_eq!(found.len(), 4096);
        assert!(is_value(&found, 7, 4096));
        assert!(!is_value(&found, 8, 4096));
        assert!(!is_value(&found[8..], 7, 4096));
        found[4095] ^= 1;
        assert!(!is_value(&found, 7, 4096));
    }

    #[test]
    fn keys_have_twelve_bytes() {
        assert_eq!(key(7_536_639), "key:07536639");
    }
}
