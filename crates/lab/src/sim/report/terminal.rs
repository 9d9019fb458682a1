//! The findings as text: for each case ours, the paper's, and both as ratios to one system.

use super::sentences::significant;
use super::{Explained, Report};
use crate::columns::{Side, align};
use crate::sim::findings::{Row, Table};
use crate::sim::verdict::ratio;
use crate::wrap::wrap;

/// Characters of a line of text.
const WIDTH: usize = 110;
/// Before what belongs to the line above.
const INDENT: &str = "  ";
/// Where there is no number.
const ABSENT: &str = "-";

/// Draws one experiment.
pub(in super::super) fn draw(report: &Report) -> String {
    let mut lines = vec![format!(
        "{}: {} ({})",
        report.experiment, report.title, report.source
    )];
    lines.push(settings(report));
    for table in &report.findings.tables {
        lines.push(String::new());
        lines.extend(table_lines(table));
    }
    lines.push(String::new());
    lines.push(report.summary());
    lines.extend(explained(&report.disagreements));
    if !report.inputs.is_empty() {
        lines.push("not compared, since these numbers of the paper were put in:".to_owned());
        lines.extend(explained(&report.inputs));
    }
    lines.extend(report.standing());
    for sentence in &report.behind_the_best {
        lines.extend(wrap(&format!("- {sentence}"), WIDTH));
    }
    if let Some(tables) = report.not_judged() {
        lines.extend(wrap(&tables, WIDTH));
    }
    lines.join("\n") + "\n"
}

/// Each reason, and beneath it the comparisons that it is about.
fn explained(all: &[Explained]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in all {
        lines.extend(wrap(&format!("- {}", one.why), WIDTH));
        for sentence in &one.comparisons {
            let wrapped = wrap(&format!("- {sentence}"), WIDTH - INDENT.len());
            lines.extend(wrapped.iter().map(|line| format!("{INDENT}{line}")));
        }
    }
    lines
}

/// The machine and the scale.
pub(super) fn settings(report: &Report) -> String {
    if report.command.is_some() {
        return format!(
            "a simulated machine with {}; seed {}",
            mega_core::bytes::format(report.findings.memory_bytes),
            report.seed
        );
    }
    format!(
        "a simulated machine with {}, 1/{} of the paper's; seed {}",
        mega_core::bytes::format(report.findings.memory_bytes),
        report.scale,
        report.seed
    )
}

fn table_lines(table: &Table) -> Vec<String> {
    let heading = std::iter::once(table.title.clone()).chain(table.systems.iter().cloned());
    let mut rows = vec![heading.collect::<Vec<_>>()];
    rows.extend(table.rows.iter().flat_map(|row| cells(table, row)));
    align(&rows, &[Side::Left, Side::Right])
}

/// The lines of one case: ours, and where there are such numbers the ratios and the paper's.
pub(super) fn cells(table: &Table, row: &Row) -> Vec<Vec<String>> {
    let numbers = |name: &str, numbers: &[Option<f64>]| {
        let cell = |number: &Option<f64>| {
            number.map_or(ABSENT.to_owned(), |number| table.unit.write(number))
        };
        let cells = numbers.iter().map(cell);
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let ratios = |before: &str, numbers: &[Option<f64>]| {
        let reference = table.reference?;
        let name = format!("{before}times {}", table.systems[reference]);
        let cells: Vec<String> = (0..numbers.len())
            .map(|system| {
                let ratio = ratio(numbers, system, Some(reference));
                ratio.map_or(ABSENT.to_owned(), significant)
            })
            .collect();
        let is_any = cells.iter().any(|cell| cell != ABSENT);
        is_any.then(|| std::iter::once(name).chain(cells).collect())
    };
    let mut lines: Vec<Vec<String>> = vec![numbers(&row.name, &row.ours)];
    lines.extend(ratios("    ", &row.ours));
    if row.is_relative(table.reference) {
        lines.extend(ratios("  the paper, ", &row.paper));
    } else if row.paper.iter().any(Option::is_some) {
        lines.push(numbers("  the paper", &row.paper));
        lines.extend(ratios("    ", &row.paper));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::metric::Unit;

    #[test]
    fn each_number_stands_beside_the_papers() {
        let table = Table {
            title: "free blocks".to_owned(),
            unit: Unit::Count,
            systems: vec!["thp".into(), "ingens".into(), "mega".into()],
            reference: Some(1),
            better: crate::live::metric::Better::Neither,
            is_course: false,
            is_counted: true,
            rows: vec![
                Row::beside(
                    "after a minute",
                    vec![Some(9.0), Some(100.0), Some(300.0)],
                    vec![None, Some(50.0), Some(282.0)],
                ),
                Row::ours("later", vec![Some(1.0), None, Some(2.0)]),
            ],
        };
        assert_eq!(
            table_lines(&table),
            [
                "free blocks          thp  ingens  mega",
                "after a minute      9.00     100   300",
                "    times ingens  0.0900    1.00  3.00",
                "  the paper            -   50.00   282",
                "    times ingens       -    1.00  5.64",
                "later               1.00       -  2.00",
            ]
        );
    }
}
