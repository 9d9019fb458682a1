//! `hash-join`: a hash table built from one relation, then probed with every tuple of another, again and again.

use super::access::{map, place, ready, sum};
use super::arguments::Parallel;
use super::look_ups::LookUps;
use super::report::{Done, Reporter};
use super::slices;
use super::stop::Stop;
use crate::error::Error;
use crate::random::{below, mix};

/// Words for each tuple of the first relation: two slots of the table, so that every other one is free, of a key and
/// a payload each.
const TABLE: usize = 4;
/// Words in a slot.
const SLOT: usize = 2;

pub(super) fn run(
    parallel: &Parallel,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let common = &parallel.common;
    let mut area = map(common.size())?;
    build(area.words_mut(), common.seed);
    let before = sum(&area);
    ready("hash-join", &area, common, reporter)?;
    let (table, probes) = parts(area.words());
    let tuples = probes.len() as u64;
    let probe = |number: u64| finds(table, probes[place(number % tuples)]);
    let mut look_ups = LookUps::new(parallel.threads, tuples, probe);
    let done = slices::run(&mut look_ups, parallel.threads, reporter, stop)?;
    let right = look_ups.all_right();
    Ok(done.checked(sum(&area), before).and(right))
}

/// Tuples of each relation.
fn tuples(words: &[u64]) -> usize {
    words.len() / (TABLE + 1)
}

/// The table of the first relation, and the keys of the second.
fn parts(words: &[u64]) -> (&[u64], &[u64]) {
    let tuples = tuples(words);
    let (table, rest) = words.split_at(tuples * TABLE);
    (table, &rest[..tuples])
}

/// Builds the table, and writes the second relation: each tuple of it matches one of the first.
fn build(words: &mut [u64], seed: u64) {
    // In order, as pages are handed out faster than at random.
    words.fill(0);
    let tuples = tuples(words);
    let (table, probes) = words.split_at_mut(tuples * TABLE);
    for tuple in 0..tuples {
        insert(table, key(seed, tuple));
    }
    for (number, probe) in probes.iter_mut().enumerate() {
        *probe = key(seed, below(mix(!seed ^ number as u64), tuples));
    }
}

/// The key of a tuple of the first relation: another one for each.
fn key(seed: u64, tuple: usize) -> u64 {
    mix(seed.wrapping_add(tuple as u64))
}

/// What belongs to a key; never 0, by which a free slot is known.
fn payload(key: u64) -> u64 {
    key.rotate_left(32) | 1
}

/// The slots in which a key may be, the likeliest first: linear probing.
fn slots(table: &[u64], key: u64) -> impl Iterator<Item = usize> {
    let slots = table.len() / SLOT;
    let home = below(mix(key), slots);
    (home..slots).chain(0..home).map(|slot| slot * SLOT)
}

fn insert(table: &mut [u64], key: u64) {
    let free = slots(table, key).find(|slot| table[slot + 1] == 0);
    if let Some(slot) = free {
        table[slot] = key;
        table[slot + 1] = payload(key);
    }
}

/// Looks a key up; whether its payload is there.
fn finds(table: &[u64], key: u64) -> bool {
    let found = slots(table, key).find(|slot| table[*slot] == key || table[slot + 1] == 0);
    found.is_some_and(|slot| table[slot] == key && table[slot + 1] == payload(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn every_probe_matches_until_a_tuple_is_lost() {
        let mut area = map(HUGE_PAGE).unwrap();
        build(area.words_mut(), 3);
        let (table, probes) = parts(area.words());
        assert!(probes.len() > 50_000);
        assert!(probes.iter().all(|key| finds(table, *key)));
        assert!(!finds(table, 12345));

        let (before, lost) = (sum(&area), probes[0]);
        let slot = slots(table, lost)
            .find(|slot| table[*slot] == lost)
            .unwrap();
        area.words_mut()[slot + 1] ^= 8;
        assert_ne!(sum(&area), before);
        assert!(!finds(parts(area.words()).0, lost));
    }
}
