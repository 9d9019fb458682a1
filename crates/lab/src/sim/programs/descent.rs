//! LIBLINEAR's training of an L1-regularised logistic regression with kdd2012 (`-s 6`, as the artifact of the Trident paper runs SVM): coordinate
//! descent, which takes the features in random order (`solve_l1r_lr` of `linear.cpp`).
//!
//! For each feature it goes over the instances that have it and adds up, then over the same again and changes what belongs to each. Which
//! instances have which features is not known here: features are as frequent as Zipf's law says, which is an assumption.

use std::ops::Range;

use mega_core::BASE_PAGE_SIZE;

use super::columns::Columns;
use super::kdd2012::{ARRAYS, Data, HEADER, NODE};
use crate::random::Random;

/// Bytes of a number, and of one of an `int`.
const DOUBLE: u64 = 8;
const INT: u64 = 4;
/// Entries of a column that are gone over together: a page of nodes. Of a longer column other parts come in between, or one would take a large
/// part of a run.
const TOGETHER: u64 = BASE_PAGE_SIZE / NODE;

/// An entry of a column.
struct Entry {
    /// Where its node lies.
    node: u64,
    /// Its instance.
    row: u64,
    /// The feature whose column begins with it.
    begins: Option<u64>,
}

/// The descent in its memory: where what it touches begins.
pub(super) struct Descent {
    columns: Columns,
    /// Parts of long columns, and how many columns are long.
    long_parts: u64,
    long: u64,
    /// Features that were taken.
    taken: u64,
    index: u64,
    /// What is known of each feature: the place of its column, second derivative, gradient, new weight and weight.
    of_features: [u64; 5],
    nodes: u64,
    curvature: u64,
    direction: u64,
}

impl Descent {
    /// With as much data as fits into so many bytes, in arrays that begin at these places, one after the other.
    pub(super) fn new(bytes: u64, arrays: &[u64]) -> Self {
        let data = Data::within(bytes);
        let columns = Columns::new(data.instances, data.features, data.values);
        let long = columns.as_long_as(TOGETHER);
        let start = |wanted: &str| {
            let named = ARRAYS
                .iter()
                .zip(arrays)
                .find(|((name, _), _)| *name == wanted);
            named.map_or(0, |(_, start)| *start) + HEADER
        };
        Descent {
            columns,
            long_parts: columns.of(long).start.div_ceil(TOGETHER),
            long,
            taken: 0,
            index: start("index"),
            of_features: ["columns", "Hdiag", "Grad", "wpd", "weights"].map(start),
            nodes: start("columns' values"),
            curvature: start("D"),
            direction: start("xTd"),
        }
    }

    /// What the next feature touches, or a part of one that many instances have: both times, or once, since between them it would go over the
    /// other parts.
    pub(super) fn next(&mut self, random: &mut Random) -> Vec<u64> {
        let short = self.columns.count() - self.long;
        let chosen = random.below(2 * self.long_parts + short);
        let mut touched = Vec::new();
        if let Some(column) = chosen.checked_sub(2 * self.long_parts) {
            let entries = self.columns.of(self.long + column);
            self.add_up(entries.clone(), &mut touched);
            self.change(entries, &mut touched);
            return touched;
        }
        let first = chosen / 2 * TOGETHER;
        let end = self.columns.of(self.long).start;
        let entries = first..(first + TOGETHER).min(end);
        if chosen.is_multiple_of(2) {
            self.add_up(entries, &mut touched);
        } else {
            self.change(entries, &mut touched);
        }
        touched
    }

    /// The first time over entries of columns, and what is known of the features that begin there.
    fn add_up(&mut self, entries: Range<u64>, touched: &mut Vec<u64>) {
        for entry in self.entries(entries) {
            if let Some(feature) = entry.begins {
                touched.push(self.index + self.taken * INT);
                touched.extend(self.of_features.map(|start| start + feature * DOUBLE));
                self.taken = (self.taken + 1) % self.columns.count();
            }
            touched.extend([
                entry.node,
                self.curvature + entry.row * DOUBLE,
                self.direction + entry.row * DOUBLE,
            ]);
        }
    }

    /// The second time.
    fn change(&self, entries: Range<u64>, touched: &mut Vec<u64>) {
        for entry in self.entries(entries) {
            touched.extend([entry.node, self.direction + entry.row * DOUBLE]);
        }
    }

    fn entries(&self, entries: Range<u64>) -> Vec<Entry> {
        let columns = self.columns;
        let mut column = columns.column(entries.start);
        let mut of_column = columns.of(column);
        entries
            .map(|entry| {
                while entry >= of_column.end && column + 1 < columns.count() {
                    column += 1;
                    of_column = columns.of(column);
                }
                Entry {
                    node: self.nodes + (entry + column) * NODE,
                    row: columns.row(entry, &of_column),
                    begins: (entry == of_column.start).then_some(column),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::numbers::number;

    /// Five touches for each entry of a column that is taken, of which three the first time, and six for each feature.
    #[test]
    fn all_entries_are_gone_over_as_often() {
        let mut descent = Descent::new(256 << 20, &[]);
        let mut random = Random::new(3);
        let rounds = 2 * descent.long_parts + descent.columns.count() - descent.long;
        let touches: usize = (0..rounds).map(|_| descent.next(&mut random).len()).sum();
        let entries = descent.columns.of(descent.columns.count() - 1).end;
        let expected = number(5 * entries + 6 * descent.columns.count());
        let ratio = number(touches as u64) / expected;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
    }
}
