//! Requests to a server of keys and values, of which some keys are asked for much more often than others, by Zipf's law.

use super::scatter::Scatter;
use super::zipf::{YCSB, Zipf};
use crate::random::Random;

/// Bytes of a value: a record of YCSB's has ten fields of 100 bytes.
const VALUE: u64 = 1 << 10;
/// Bytes of the table of keys for each value: a line.
const KEY: u64 = 64;

/// The requests.
pub(super) struct KeyValues {
    values: u64,
    law: Zipf,
    /// Where the value of a rank lies, and where its key: anywhere, since when a value was stored says nothing of how often it is asked
    /// for, and the key's place is a hash.
    places: Scatter,
}

impl KeyValues {
    /// To as many values as fit into so many bytes with their keys.
    pub(super) fn new(bytes: u64) -> Self {
        let values = (bytes / (KEY + VALUE)).max(1);
        KeyValues {
            values,
            law: Zipf::new(values, YCSB),
            places: Scatter::new(values),
        }
    }

    /// What the next request touches: the key's line in the table, which has nothing to do with where the value lies, and the value.
    pub(super) fn next(&self, random: &mut Random) -> Vec<u64> {
        let rank = self.law.draw(random) - 1;
        let place = self.places.there(rank);
        let key = self.places.there(self.values - 1 - rank);
        vec![key * KEY, self.values * KEY + place * VALUE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_values_lie_anywhere() {
        let requests = KeyValues::new(100 << 20);
        let mut random = Random::new(3);
        let first = requests.values * KEY;
        let mut counts = [0u32; 10];
        let mut values = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let place = (requests.next(&mut random)[1] - first) / VALUE;
            counts[usize::try_from(place * 10 / requests.values).unwrap()] += 1;
            *values.entry(place).or_insert(0u32) += 1;
        }
        // The most popular value alone has a twelfth of all requests.
        let most = values.values().max().unwrap();
        assert!((1400..2000).contains(most), "{most}");
        assert!(
            counts.iter().all(|count| (1000..5000).contains(count)),
            "{counts:?}"
        );
    }
}
