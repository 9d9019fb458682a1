//! A cache of ways and sets. Each set forgets what was used longest ago.

/// Where a tag of its kind is kept. A tag is any number that names an entry.
#[derive(Clone, Debug)]
pub(super) struct SetAssociative {
    /// The ways of each set, what was used last first; 0 where there is nothing.
    tags: Vec<u64>,
    ways: usize,
    sets: u64,
}

impl SetAssociative {
    pub(super) fn new(entries: usize, ways: usize) -> Self {
        let ways = ways.clamp(1, entries.max(1));
        SetAssociative {
            tags: vec![0; entries / ways * ways],
            ways,
            sets: (entries / ways).max(1) as u64,
        }
    }

    /// Whether an entry was there. It is there afterwards.
    pub(super) fn take(&mut self, tag: u64) -> bool {
        // Entries are kept as themselves and one, so that 0 is none.
        let kept = tag.wrapping_add(1);
        // Most have a power of two of them, and a division is slow.
        let set = if self.sets.is_power_of_two() {
            tag & (self.sets - 1)
        } else {
            tag % self.sets
        };
        #[allow(clippy::cast_possible_truncation)] // below the number of sets
        let set = set as usize;
        let Some(ways) = self.tags.get_mut(set * self.ways..(set + 1) * self.ways) else {
            return false;
        };
        let place = ways.iter().position(|&way| way == kept);
        let last = place.unwrap_or(ways.len() - 1);
        ways.copy_within(..last, 1);
        ways[0] = kept;
        place.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut cache = SetAssociative::new(8, 2);
        // Four sets: these are all of one.
        assert!(!cache.take(0) && !cache.take(4));
        assert!(cache.take(0));
        assert!(!cache.take(8), "8 takes the place of 4");
        assert!(cache.take(0) && !cache.take(4));
        assert!(!cache.take(1), "another set");
    }

    proptest::proptest! {
        #[test]
        fn as_many_as_there_is_room_for_stay(tags in proptest::collection::vec(0u64..40, 1..200)) {
            let mut cache = SetAssociative::new(16, 16);
            let mut recent: Vec<u64> = Vec::new();
            for tag in tags {
                let expected = recent.contains(&tag);
                proptest::prop_assert_eq!(cache.take(tag), expected);
                recent.retain(|&other| other != tag);
                recent.insert(0, tag);
                recent.truncate(16);
            }
        }
    }
}
