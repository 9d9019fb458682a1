//! Which addresses a program's operations touch: the lab's workloads, without their data.

use super::descent::Descent;
use super::key_values::KeyValues;
use super::netlist::Netlist;
use super::search::Search;
use crate::random::{Random, below};
use crate::workload::{MATERIALS, NUCLIDES, POINT};

/// Bytes of a word.
const WORD: u64 = 8;
/// Keys in a node of the tree, and a node's bytes: the keys, then a child for each (`workload/btree.rs`).
const FAN_OUT: u64 = 16;
const NODE: u64 = 2 * FAN_OUT * WORD;
/// Levels that no such tree has.
const LEVELS: u64 = 16;

/// A program's pattern over its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Pattern {
    /// Random words (`workload/random.rs`).
    Gups,
    /// Look-ups of random keys in a B+-tree.
    Btree,
    /// Look-ups of cross sections: a binary search, then the data of the nuclides in a material (`workload/xs_lookup.rs`).
    XsLookup,
    /// Requests to a server of keys and values, by Zipf's law.
    KeyValues,
    /// Breadth-first searches of a Kronecker graph. An operation is an edge looked at.
    Search,
    /// Moves of elements of a netlist.
    Netlist,
    /// Coordinate descent over the features of sparse data.
    Descent,
}

impl Pattern {
    /// The operations over so many bytes, in which its arrays begin at these places, one after the other as it mapped them.
    pub(in super::super) fn over(self, bytes: u64, arrays: &[u64], seed: u64) -> Accesses {
        let state = match self {
            Pattern::Gups => State::Gups,
            Pattern::Btree => State::Btree,
            Pattern::XsLookup => State::XsLookup,
            Pattern::KeyValues => State::KeyValues(KeyValues::new(bytes)),
            Pattern::Search => State::Search(Box::new(Search::new(bytes, seed))),
            Pattern::Netlist => State::Netlist(Netlist::new(bytes)),
            Pattern::Descent => State::Descent(Descent::new(bytes, arrays)),
        };
        Accesses {
            bytes,
            state,
            random: Random::new(seed),
        }
    }
}

/// What a pattern knows beside its random numbers.
enum State {
    Gups,
    Btree,
    XsLookup,
    KeyValues(KeyValues),
    Search(Box<Search>),
    Netlist(Netlist),
    Descent(Descent),
}

/// Operations one after the other.
pub(in super::super) struct Accesses {
    bytes: u64,
    state: State,
    random: Random,
}

impl Accesses {
    /// The offsets that the next operation touches, in order.
    pub(in super::super) fn next(&mut self) -> Vec<u64> {
        let (bytes, random) = (self.bytes, &mut self.random);
        match &mut self.state {
            State::Gups => vec![random.below(bytes / WORD) * WORD],
            State::Btree => look_up_key(bytes, random),
            State::XsLookup => look_up_sections(bytes, random),
            State::KeyValues(requests) => requests.next(random),
            State::Search(search) => search.advance(),
            State::Netlist(netlist) => netlist.next(random),
            State::Descent(descent) => descent.next(random),
        }
    }
}

/// From the root to a leaf. The leaves come first in memory, each level above behind the one below it.
fn look_up_key(bytes: u64, random: &mut Random) -> Vec<u64> {
    // All levels above together are a fifteenth of the leaves, and a node more for each that is not full.
    let leaves = (bytes / NODE).saturating_sub(LEVELS) / FAN_OUT * (FAN_OUT - 1);
    let key = random.below(leaves * FAN_OUT);
    let (mut first, mut count, mut below) = (0, leaves.max(1), key);
    let mut path = Vec::new();
    loop {
        let (node, slot) = (below / FAN_OUT, below % FAN_OUT);
        let start = (first + node) * NODE;
        // The key, and what belongs to it: in two of the node's lines.
        path.push(start + (FAN_OUT + slot) * WORD);
        path.push(start + slot * WORD);
        if count == 1 {
            break;
        }
        (first, count, below) = (first + count, count.div_ceil(FAN_OUT), node);
    }
    path.reverse();
    path
}

/// A binary search in all energies, the row of the index there, and two points of each nuclide in a random material.
fn look_up_sections(bytes: u64, random: &mut Random) -> Vec<u64> {
    let (nuclides, point) = (NUCLIDES as u64, POINT as u64);
    let points = (bytes / WORD / (nuclides * (1 + nuclides + point))).max(2);
    let energies = nuclides * points;
    let row = random.below(energies);
    let mut touched = Vec::new();
    let (mut low, mut high) = (0, energies);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        touched.push(middle * WORD);
        if middle <= row {
            low = middle;
        } else {
            high = middle;
        }
    }
    let index = energies + row * nuclides;
    let data = energies * (1 + nuclides);
    for _ in 0..material(random) {
        let nuclide = random.below(nuclides);
        touched.push((index + nuclide) * WORD);
        let place = (row / nuclides).min(points - 2);
        let first = data + (nuclide * points + place) * point;
        touched.extend([first * WORD, (first + point) * WORD]);
    }
    touched
}

/// Nuclides in the material of the next look-up.
fn material(random: &mut Random) -> usize {
    let mut left = below(random.word(), 1000);
    for (nuclides, share) in MATERIALS {
        if left < share {
            return nuclides;
        }
        left -= share;
    }
    MATERIALS[0].0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::programs::kdd2012;

    /// Where the arrays begin that the descent has of so many bytes.
    fn below_each_other(bytes: u64) -> Vec<u64> {
        let mut end = bytes;
        let arrays = kdd2012::arrays(bytes);
        let below = arrays.into_iter().map(|size| {
            end -= size;
            end
        });
        below.collect()
    }

    #[test]
    fn no_operation_leaves_its_memory() {
        for pattern in [
            Pattern::Gups,
            Pattern::Btree,
            Pattern::XsLookup,
            Pattern::KeyValues,
            Pattern::Search,
            Pattern::Netlist,
            Pattern::Descent,
        ] {
            // A graph of 117 GiB takes long to count in a build without optimisation.
            for bytes in [4 << 20, 672 << 20, 1 << 30, 117 << 30] {
                if pattern == Pattern::Search && bytes > 1 << 30 {
                    continue;
                }
                let mut accesses = pattern.over(bytes, &below_each_other(bytes), 7);
                let mut largest = 0;
                for _ in 0..2000 {
                    let touched = accesses.next();
                    assert!(!touched.is_empty());
                    largest = largest.max(touched.iter().copied().max().unwrap());
                }
                assert!(largest < bytes, "{pattern:?}: {largest} of {bytes}");
                // The descent leaves the first copy of its data, which lies highest, alone.
                let least = match pattern {
                    Pattern::Descent => bytes / 3,
                    _ => bytes / 2,
                };
                assert!(largest > least, "{pattern:?}: {largest} of {bytes}");
            }
        }
    }

    #[test]
    fn a_look_up_goes_from_the_root_to_a_leaf() {
        let bytes = (16 * FAN_OUT + LEVELS) * NODE;
        let mut accesses = Pattern::Btree.over(bytes, &[], 1);
        let paths: Vec<Vec<u64>> = (0..50).map(|_| accesses.next()).collect();
        let leaves = 16 * (FAN_OUT - 1);
        for path in &paths {
            assert_eq!(path.len(), 6, "240 leaves, 15 nodes and a root");
            assert_eq!(path[0] / NODE, leaves + 15);
            assert!(path[5] / NODE < leaves);
        }
    }
}
