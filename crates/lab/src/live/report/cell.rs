//! One metric in one mode, as every table and the chart write it.

use std::fmt;

use super::ratio;
use crate::live::mode::Mode;
use crate::live::results::MetricResult;

/// What stands where a mode has no value.
pub(super) const ABSENT: &str = "-";

/// A median and, where there is one, its ratio to base pages.
pub(super) struct Cell {
    pub(super) value: String,
    pub(super) ratio: Option<String>,
}

impl Cell {
    /// Of a metric in a mode; `None` where the mode has no value of it.
    pub(super) fn of(metric: &MetricResult, mode: &Mode) -> Option<Self> {
        let result = metric.of(mode)?;
        Some(Cell {
            value: metric.unit.write(result.value.median),
            ratio: result.ratio_to_base.map(ratio::write),
        })
    }

    /// The text of a metric in a mode, or [`ABSENT`].
    pub(super) fn text(metric: &MetricResult, mode: &Mode) -> String {
        Cell::of(metric, mode).map_or_else(|| ABSENT.to_owned(), |cell| cell.to_string())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)?;
        match &self.ratio {
            Some(ratio) => write!(f, " ({ratio})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_cell_is_a_median_and_a_ratio() {
        let results = example::three_rounds();
        let text = |metric: usize, mode| Cell::text(&results.metrics[metric], &mode);
        assert_eq!(text(0, Mode::Base), "12.00 M/s");
        assert_eq!(text(0, Mode::Thp), "18.00 M/s (1.50x)");
        assert_eq!(text(1, Mode::Thp), "512 MiB (~1.02x, 0.97 to 1.06)");
        assert_eq!(text(2, Mode::Thp), ABSENT);
    }
}
