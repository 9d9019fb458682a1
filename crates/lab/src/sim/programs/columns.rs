//! The columns of a large sparse matrix. How many entries they have follows Zipf's law with an exponent of 1, and in which rows these
//! stand is drawn. Nothing is stored: all is computed where it is asked for, the same each time.

use std::ops::Range;

use crate::random::mix;
use crate::sim::numbers::number;

/// The difference between a harmonic number and the logarithm, for large ones (Euler's constant).
const EULER: f64 = 0.577_215_664_901_532_9;

/// The columns, the longest one first. Their entries are counted through all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    rows: u64,
    columns: u64,
    entries: u64,
    /// The sum of the law's weights.
    whole: f64,
}

impl Columns {
    /// Each number is 1 at least.
    pub(super) fn new(rows: u64, columns: u64, entries: u64) -> Self {
        Columns {
            rows,
            columns,
            entries,
            whole: harmonic(columns),
        }
    }

    /// How many there are.
    pub(super) fn count(self) -> u64 {
        self.columns
    }

    /// The entries of a column.
    pub(super) fn of(self, column: u64) -> Range<u64> {
        self.start(column)..self.start(column + 1)
    }

    /// The column that an entry is in.
    pub(super) fn column(self, entry: u64) -> u64 {
        self.first_that_is_not(|column| self.of(column).end <= entry)
    }

    /// How many columns have so many entries or more, but for a few whose length rounding decides.
    pub(super) fn as_long_as(self, length: u64) -> u64 {
        self.first_that_is_not(|column| {
            let entries = self.of(column);
            entries.end - entries.start >= length
        })
    }

    /// Where first ones are so and all others are not: the first of the others.
    fn first_that_is_not(self, is_so: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.columns);
        while low < high {
            let middle = u64::midpoint(low, high);
            if is_so(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The row of an entry of a column. A column's entries stand in the order of their rows, each in its own part of all rows.
    pub(super) fn row(self, entry: u64, column: &Range<u64>) -> u64 {
        let within = number(mix(entry) >> 11) / number(1 << 53);
        let length = column.end.saturating_sub(column.start).max(1);
        let place = (number(entry - column.start) + within) / number(length) * number(self.rows);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // one of the rows
        (place as u64).min(self.rows - 1)
    }

    /// Entries before a column.
    fn start(self, column: u64) -> u64 {
        let part = harmonic(column) / self.whole;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // at most the entries
        let start = (number(self.entries) * part) as u64;
        start
    }
}

/// The sum of 1 / k for k from 1 to `last`, within 0.2 %.
fn harmonic(last: u64) -> f64 {
    if last == 0 {
        return 0.0;
    }
    let middle = number(last) + 0.5;
    middle.ln() + EULER + 1.0 / (24.0 * middle * middle)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As many as kdd2012 has for each row.
    fn columns(rows: u64) -> Columns {
        Columns::new(rows, (rows * 10 / 27).max(1), rows * 11)
    }

    proptest! {
        #[test]
        fn columns_follow_each_other_and_have_all_entries(rows in 3u64..100_000) {
            let columns = columns(rows);
            let mut end = 0;
            for column in 0..columns.count() {
                let entries = columns.of(column);
                prop_assert_eq!(entries.start, end);
                prop_assert!(entries.end > entries.start, "{} has none", column);
                end = entries.end;
            }
            prop_assert!(end.abs_diff(rows * 11) <= 1);
        }

        #[test]
        fn an_entry_is_in_its_column_and_in_some_row(rows in 3u64..1 << 30, part in 0.0..1.0) {
            let columns = columns(rows);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let entry = (number(rows * 11 - 1) * part) as u64;
            let column = columns.column(entry);
            let entries = columns.of(column);
            prop_assert!(entries.contains(&entry));
            let row = columns.row(entry, &entries);
            prop_assert!(row < rows);
            if entry > entries.start {
                prop_assert!(columns.row(entry - 1, &entries) <= row);
            }
        }
    }

    /// The second column has half as many entries as the first one, and so on.
    #[test]
    fn lengths_follow_the_law() {
        let columns = columns(149_639_105);
        let length = |column| {
            let entries = columns.of(column);
            number(entries.end - entries.start)
        };
        for place in [2, 3, 10, 1000, 100_000] {
            let ratio = length(0) / length(place - 1) / number(place);
            assert!((0.97..1.03).contains(&ratio), "{place}: {ratio}");
        }
        let long = columns.as_long_as(256);
        assert!(length(long - 1) >= 256.0 && length(long) < 256.0);
    }
}
