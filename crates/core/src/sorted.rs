//! Searches a sorted slice for keys that mostly ascend.

/// The place of the first element whose key is not below `key`, which is the slice's length where there is none.
///
/// `near` is where the last search ended. A key a little further on is found in O(log distance), any other in
/// O(log length).
pub(crate) fn seek<T, K: Ord>(
    sorted: &[T],
    near: usize,
    key: &K,
    key_of: impl Fn(&T) -> K,
) -> usize {
    let below = |item: &T| key_of(item) < *key;
    let near = near.min(sorted.len());
    let (before, after) = sorted.split_at(near);
    if before.last().is_some_and(|item| !below(item)) {
        return before.partition_point(below);
    }
    let mut reach = 1;
    while after.get(reach - 1).is_some_and(below) {
        reach *= 2;
    }
    let (start, end) = (reach / 2, reach.min(after.len()));
    near + start + after[start..end].partition_point(below)
}

/// The place of the element with this key, if there is one; leaves in `near` where the next search may begin.
pub(crate) fn find<T, K: Ord>(
    sorted: &[T],
    near: &mut usize,
    key: &K,
    key_of: impl Fn(&T) -> K,
) -> Option<usize> {
    let is_at = |place: usize| sorted.get(place).is_some_and(|item| key_of(item) == *key);
    // Most often the same is looked for again.
    if !is_at(*near) {
        *near = seek(sorted, *near, key, &key_of);
    }
    is_at(*near).then_some(*near)
}

/// The value of this key in a list sorted by key, put in as the default where it is not there. `near` is as in [`find`].
pub(crate) fn entry<'a, K: Copy + Ord, V: Default>(
    sorted: &'a mut Vec<(K, V)>,
    near: &mut usize,
    key: K,
) -> &'a mut V {
    let is_there = find(sorted, near, &key, |(key, _)| *key).is_some();
    if !is_there {
        sorted.insert(*near, (key, V::default()));
    }
    &mut sorted[*near].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_finds_what_a_binary_search_finds(
            mut items in prop::collection::vec(0..50_u32, 0..60), near in 0..70_usize, key in 0..60_u32,
        ) {
            items.sort_unstable();
            let expected = items.partition_point(|item| *item < key);
            prop_assert_eq!(seek(&items, near, &key, |item| *item), expected);
            let found = find(&items, &mut near.clone(), &key, |item| *item);
            prop_assert_eq!(found.is_some(), items.contains(&key));
        }

        #[test]
        fn each_key_gets_one_entry_in_its_place(keys in prop::collection::vec(0..9_u32, 0..60)) {
            let mut counts: Vec<(u32, usize)> = Vec::new();
            let mut near = 0;
            for key in &keys {
                *entry(&mut counts, &mut near, *key) += 1;
            }
            prop_assert!(counts.is_sorted_by(|one, other| one.0 < other.0));
            for (key, count) in counts {
                prop_assert_eq!(count, keys.iter().filter(|one| **one == key).count());
            }
        }
    }
}
