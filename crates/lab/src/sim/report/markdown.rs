//! The report on one experiment, and the page on all, as Markdown.

use std::fmt::Write;

use super::terminal::{cells, settings};
use super::{CHART, Explained, Report};
use crate::sim::findings::{Happened, Table};
use crate::sim::verdict::written;

/// What holds of every experiment.
const MODEL: &str = "These numbers come from a model of a machine, not from a machine. What it leaves out moves them: a simulated core waits for each of its touches and overlaps nothing, each program has a core of its own, faults and copies cost the same each time, files and swap are not there. The page `docs/simulator.md` of mega says more.";

/// Draws one experiment.
pub(super) fn draw(report: &Report) -> String {
    format!(
        "# {}\n\n{}\n{MODEL}\n",
        report.title,
        section(report, CHART)
    )
}

/// Draws all of them, one after the other.
pub(super) fn page(reports: &[Report]) -> String {
    let mut text = String::from("# Experiments on a simulated machine\n\n");
    text += "Each number of the simulation stands beside that of the paper.\n\n";
    text += "| experiment | the paper | agrees |\n|---|---|---:|\n";
    for report in reports {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "| [{}](#{}) | {} | {} of {} |",
            report.title, report.experiment, report.source, report.agreeing, report.compared
        );
    }
    let _ = writeln!(text, "\n{MODEL}");
    for report in reports {
        let chart = format!("{}/{CHART}", report.experiment);
        let _ = writeln!(
            text,
            "\n## <a id=\"{}\"></a>{}\n\n{}",
            report.experiment,
            report.title,
            section(report, &chart)
        );
    }
    text
}

fn section(report: &Report, chart: &str) -> String {
    let mut text = format!(
        "{}: {}\n\nBy `{}`: {}.\n\n![{}]({chart})\n",
        report.source,
        report.about,
        report.command(),
        settings(report),
        report.title
    );
    for table in &report.findings.tables {
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n{}", table_of(table));
    }
    let _ = writeln!(text, "\n{}.", capital(&report.summary()));
    text += &explained(&report.disagreements);
    if !report.inputs.is_empty() {
        let _ = writeln!(
            text,
            "\nNot compared, since these numbers of the paper were put in:"
        );
        text += &explained(&report.inputs);
    }
    if let Some(standing) = report.standing() {
        let _ = writeln!(text, "\n{}.", capital(&standing));
    }
    for sentence in &report.behind_the_best {
        let _ = writeln!(text, "\n- {sentence}");
    }
    if let Some(tables) = report.not_judged() {
        let _ = writeln!(text, "\n{}.", capital(&tables));
    }
    if !report.findings.happened.is_empty() {
        let happened = happened(&report.findings.happened);
        let heading = happened_in(&report.findings.tables);
        let _ = writeln!(text, "\n{heading}:\n\n{happened}");
    }
    text
}

/// Each reason, and beneath it the comparisons that it is about.
fn explained(all: &[Explained]) -> String {
    let mut text = String::new();
    for one in all {
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n- {}", one.why);
        for sentence in &one.comparisons {
            let _ = writeln!(text, "  - {sentence}");
        }
    }
    text
}

/// What the counts are about.
fn happened_in(tables: &[Table]) -> String {
    let others = tables.iter().filter(|table| !table.is_counted);
    let others: Vec<&str> = others.map(|table| table.title.as_str()).collect();
    if others.is_empty() {
        "What happened".to_owned()
    } else {
        format!("What happened, without the runs of: {}", others.join("; "))
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

fn table_of(table: &Table) -> String {
    let mut lines = vec![
        line(std::iter::once(table.title.as_str()).chain(table.systems.iter().map(String::as_str))),
        format!("|---|{}", "---:|".repeat(table.systems.len())),
    ];
    for row in table.rows.iter().flat_map(|row| cells(table, row)) {
        lines.push(line(row.iter().map(|cell| cell.trim())));
    }
    lines.join("\n")
}

fn happened(all: &[Happened]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flat_map(|happened| &happened.counts) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let systems = all.iter().map(|happened| happened.system.as_str());
    let mut lines = vec![
        line(std::iter::once("").chain(systems)),
        format!("|---|{}", "---:|".repeat(all.len())),
    ];
    for name in names {
        let cell = |happened: &Happened| {
            let count = happened.counts.iter().find(|(other, _)| *other == name);
            count.map_or("-".to_owned(), |(_, count)| written(*count))
        };
        let cells: Vec<String> = all.iter().map(cell).collect();
        lines.push(line(
            std::iter::once(name).chain(cells.iter().map(String::as_str)),
        ));
    }
    lines.join("\n")
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.fold(String::from("|"), |line, cell| format!("{line} {cell} |"))
}
