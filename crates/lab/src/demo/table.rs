//! The result as a table for the terminal.

use super::chart::METRICS;
use super::summary::Summary;
use crate::bytes;

/// Draws it: a line per metric, a column per mode.
pub(super) fn draw(summary: &Summary) -> String {
    let mut rows = vec![header(summary)];
    for metric in &METRICS {
        let mut row = vec![metric.title.to_owned()];
        row.extend(summary.modes.iter().map(|mode| metric.label(mode)));
        rows.push(row);
    }
    format!(
        "{} used at random, and {} of which one page in eight was touched once; medians of {} runs\n\n{}",
        bytes::format(summary.size_bytes),
        bytes::format(summary.size_bytes),
        summary.rounds,
        align(&rows)
    )
}

fn header(summary: &Summary) -> Vec<String> {
    let mut header = vec![String::new()];
    header.extend(summary.modes.iter().map(|mode| mode.mode.name().to_owned()));
    header
}

/// Pads every column to its widest cell: the first to the left, the others to the right.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let widths = rows.iter().filter_map(|row| row.get(column));
            widths.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut lines = Vec::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                line.push_str(&format!("{cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "bcd".into()],
            vec!["ef".into(), "g".into()],
        ];
        assert_eq!(align(&rows), "a   bcd\nef    g");
    }
}
