//! The result as a table for the terminal.

use mega_core::bytes;

use super::chart::METRICS;
use super::summary::Summary;
use crate::columns::{Side, align};

/// Draws it: a line per metric, a column per mode.
pub(super) fn draw(summary: &Summary) -> String {
    let mut rows = vec![header(summary)];
    for metric in &METRICS {
        let mut row = vec![metric.title.to_owned()];
        row.extend(summary.modes.iter().map(|mode| metric.label(mode)));
        rows.push(row);
    }
    format!(
        "{} used at random, and {} of which one page in eight was touched once; {}\n\n{}",
        bytes::format(summary.size_bytes),
        bytes::format(summary.size_bytes),
        summary.runs(),
        align(&rows, &[Side::Left, Side::Right]).join("\n")
    )
}

fn header(summary: &Summary) -> Vec<String> {
    let mut header = vec![String::new()];
    header.extend(summary.modes.iter().map(|mode| mode.mode.name().to_owned()));
    header
}
