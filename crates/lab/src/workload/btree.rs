//! `btree`: look-ups of random keys in a B+-tree that fills the memory.

use super::access::{map, place, ready, sum};
use super::arguments::Parallel;
use super::look_ups::LookUps;
use super::report::{Done, Reporter};
use super::slices;
use super::stop::Stop;
use crate::error::Error;
use crate::random::{below, mix};

/// Words in a node, four cache lines: the keys, then a child or a value for each.
const NODE: usize = 2 * FAN_OUT;
/// Keys in a node.
const FAN_OUT: usize = 16;
/// Levels that no tree of 64-bit keys has: 16^16 keys.
const LEVELS: usize = 16;
/// A key that is none.
const NO_KEY: u64 = u64::MAX;

pub(super) fn run(
    parallel: &Parallel,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let common = &parallel.common;
    let mut area = map(common.size())?;
    let shape = Shape::grow(area.words_mut(), common.seed);
    let before = sum(&area);
    ready("btree", &area, common, reporter)?;
    let words = area.words();
    let look_up = |number| shape.finds(words, below(mix(number), shape.keys));
    let mut look_ups = LookUps::new(parallel.threads, u64::MAX, look_up);
    let done = slices::run(&mut look_ups, parallel.threads, reporter, stop)?;
    let right = look_ups.all_right();
    Ok(done.checked(sum(&area), before).and(right))
}

/// Where the tree's root is, and what its leaves hold.
struct Shape {
    /// The root's first word.
    root: usize,
    /// Levels above the leaves.
    height: usize,
    keys: usize,
    seed: u64,
}

impl Shape {
    /// Fills the memory, at least 4 KiB, with a tree, the leaves first.
    fn grow(words: &mut [u64], seed: u64) -> Self {
        let nodes = words.len() / NODE;
        // All levels above together are a fifteenth of the leaves, and a node more for each that is not full.
        let leaves = (nodes - LEVELS) / FAN_OUT * (FAN_OUT - 1);
        let mut shape = Shape {
            root: 0,
            height: 0,
            keys: leaves * FAN_OUT,
            seed,
        };
        for (leaf, node) in words.chunks_mut(NODE).take(leaves).enumerate() {
            let (keys, values) = node.split_at_mut(FAN_OUT);
            for (slot, (key, value)) in keys.iter_mut().zip(values).enumerate() {
                *key = shape.key(leaf * FAN_OUT + slot);
                *value = mix(*key);
            }
        }
        let (mut first, mut count) = (0, leaves);
        while count > 1 {
            let above = count.div_ceil(FAN_OUT);
            grow_level(words, first, count);
            first += count * NODE;
            count = above;
            shape.height += 1;
        }
        shape.root = first;
        // No page is left out.
        words[first + NODE..].fill(NO_KEY);
        shape
    }

    /// Key number `number`: in order, at random distances.
    fn key(&self, number: usize) -> u64 {
        let number = number as u64;
        number << 20 | mix(self.seed ^ number) >> 44
    }

    /// Looks a key up; whether its value is there.
    fn finds(&self, words: &[u64], number: usize) -> bool {
        let key = self.key(number);
        let mut node = self.root;
        for _ in 0..self.height {
            let Some((_, child)) = entry(words, node, key) else {
                return false;
            };
            node = place(child);
        }
        entry(words, node, key) == Some((key, mix(key)))
    }
}

/// Writes the level above the `count` nodes from the word `first` on, right behind them.
fn grow_level(words: &mut [u64], first: usize, count: usize) {
    let above = first + count * NODE;
    for slot in 0..count.next_multiple_of(FAN_OUT) {
        let child = first + slot * NODE;
        let (key, child) = if slot < count {
            (words[child], child as u64)
        } else {
            (NO_KEY, 0)
        };
        let node = above + slot / FAN_OUT * NODE + slot % FAN_OUT;
        words[node] = key;
        words[node + FAN_OUT] = child;
    }
}

/// The last key of a node that is not above `key`, and what belongs to it. `None` where there is no such node.
fn entry(words: &[u64], node: usize, key: u64) -> Option<(u64, u64)> {
    let (keys, others) = words.get(node..node.checked_add(NODE)?)?.split_at(FAN_OUT);
    let not_above = keys.iter().filter(|other| **other <= key).count();
    let slot = not_above.saturating_sub(1);
    Some((keys[slot], others[slot]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn every_key_is_found_until_it_is_lost() {
        let mut area = map(HUGE_PAGE).unwrap();
        let shape = Shape::grow(area.words_mut(), 5);
        assert!(shape.height >= 3 && shape.keys > 100_000);
        assert!((0..shape.keys).all(|number| shape.finds(area.words(), number)));
        let before = sum(&area);
        area.words_mut()[FAN_OUT] ^= 1;
        assert_ne!(sum(&area), before);
        assert!(!shape.finds(area.words(), 0));
        assert!(shape.finds(area.words(), 1));
        let root = shape.root;
        area.words_mut()[root + FAN_OUT] = u64::MAX;
        assert!(!shape.finds(area.words(), 1));
    }
}
