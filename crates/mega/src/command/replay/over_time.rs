//! Tables of what was at a few times under each policy.

use mega_core::table::Table;

use super::quantity::{Quantity, quantities};
use crate::report::{PointReport, ReplayReport};

/// Parts into which the time is cut: there is a column for the end of each, and for the beginning.
const PARTS: u32 = 5;

/// A table for each quantity.
pub(super) fn tables(report: &ReplayReport) -> String {
    let times = times(report);
    let table = |quantity: Quantity| {
        let title = format!("{} over time", quantity.name);
        format!("\n{title}\n{}", table(report, &quantity, &times))
    };
    quantities(report).map(table).collect()
}

/// The times of the columns, in seconds: from the first point to the last. None where there is no point.
fn times(report: &ReplayReport) -> Vec<f64> {
    let points = || report.policies.iter().flat_map(|policy| &policy.points);
    let seconds = || points().map(|point| point.seconds);
    let (Some(begin), Some(end)) = (seconds().reduce(f64::min), seconds().reduce(f64::max)) else {
        return Vec::new();
    };
    if begin >= end {
        return vec![end];
    }
    let between = |part| begin + (end - begin) * f64::from(part) / f64::from(PARTS);
    // The last is the last point's exactly: rounded down, it would lie before that.
    (0..PARTS).map(between).chain([end]).collect()
}

fn table(report: &ReplayReport, quantity: &Quantity, times: &[f64]) -> Table {
    let whole = times.last().is_none_or(|end| *end >= 10.0);
    let heading = |time: &f64| match whole {
        true => format!("{time:.0} s"),
        false => format!("{time:.2} s"),
    };
    let headings: Vec<String> = times.iter().map(heading).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&[&["policy"], headings.as_slice()].concat());
    let mut row = |name: &str, points: &[PointReport], value: fn(&PointReport) -> Option<f64>| {
        let cell = |time: &f64| {
            let value = at(points, *time).and_then(value);
            value.map_or_else(|| "-".to_owned(), quantity.unit)
        };
        let cells = times.iter().map(cell);
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    if let (Some(first), Some(recorded)) = (report.policies.first(), quantity.recorded) {
        row("as recorded", &first.points, recorded);
    }
    for policy in &report.policies {
        row(&policy.policy, &policy.points, quantity.value);
    }
    table
}

/// How it was at that time: at the last point until then.
fn at(points: &[PointReport], time: f64) -> Option<&PointReport> {
    let count = points.partition_point(|point| point.seconds <= time);
    points.get(count.checked_sub(1)?)
}
