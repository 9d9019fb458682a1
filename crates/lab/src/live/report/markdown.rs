//! The report as GitHub Markdown.

use std::fmt::Write;

use super::cell::Cell;
use super::{CHART, goal, machine, ratio, settings};
use crate::live::results::{Paper, Results};

/// Draws it: what was missed first. It shows the chart that is written beside it.
pub(super) fn draw(results: &Results) -> String {
    let mut text = format!("# {}\n\n", escape(&title(results)));
    push_paragraph(&mut text, &escape(&results.about));
    for goal in goal::missed(results) {
        let line = escape(&goal::line(goal, results));
        push_paragraph(&mut text, &format!("**{}**: {line}", goal::verdict(goal)));
    }
    push_paragraph(&mut text, &escape(&settings::line(results)));
    push_table(&mut text, &values(results));
    for note in ratio::notes(std::slice::from_ref(results)) {
        push_paragraph(&mut text, &escape(&note));
    }
    push_paragraph(&mut text, &format!("![The same as a chart]({CHART})"));
    if !results.goals.is_empty() {
        text.push_str("## Goals\n\n");
        push_table(&mut text, &goals(results));
    }
    if let Some(paper) = &results.paper {
        text.push_str("## The paper\n\n");
        push_paragraph(&mut text, &escape(&paper.source));
        push_table(&mut text, &paper_rows(paper));
    }
    text.push_str("## Machine and settings\n\n");
    push_table(&mut text, &machine_rows(results));
    push_paragraph(&mut text, "This repeats it:");
    push_paragraph(&mut text, &format!("    {}", settings::command(results)));
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn title(results: &Results) -> String {
    format!("{}: {}", results.experiment, results.title)
}

/// A row for each mode, a column for each metric.
fn values(results: &Results) -> Vec<Vec<String>> {
    let mut header = vec!["mode".to_owned()];
    header.extend(
        results
            .metrics
            .iter()
            .map(|metric| match metric.better.words() {
                "" => metric.title.clone(),
                better => format!("{}, {better}", metric.title),
            }),
    );
    let mut rows = vec![header];
    for mode in &results.modes {
        let mut row = vec![mode.to_string()];
        let metrics = results.metrics.iter();
        row.extend(metrics.map(|metric| Cell::text(metric, mode)));
        rows.push(row);
    }
    rows
}

fn goals(results: &Results) -> Vec<Vec<String>> {
    let header = ["goal", "found", "verdict"].map(str::to_owned).to_vec();
    let goals = results.goals.iter().map(|goal| {
        vec![
            goal.text.clone(),
            goal::found(goal, results).unwrap_or_default(),
            goal::verdict(goal).to_owned(),
        ]
    });
    std::iter::once(header).chain(goals).collect()
}

/// All goals of all experiments in one table: those that were missed first.
pub(super) fn summary(all: &[Results]) -> String {
    let header = ["experiment", "goal", "found", "verdict"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let missed = all
        .iter()
        .flat_map(|results| goal::missed(results).map(move |goal| (results, goal)));
    let others = all
        .iter()
        .flat_map(|results| goal::others(results).map(move |goal| (results, goal)));
    rows.extend(missed.chain(others).map(|(results, goal)| {
        vec![
            results.experiment.clone(),
            goal.text.clone(),
            goal::found(goal, results).unwrap_or_default(),
            goal::verdict(goal).to_owned(),
        ]
    }));
    let mut text = String::new();
    push_table(&mut text, &rows);
    for note in ratio::notes(all) {
        push_paragraph(&mut text, &escape(&note));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn paper_rows(paper: &Paper) -> Vec<Vec<String>> {
    let mut header = vec![String::new()];
    header.extend(paper.systems.iter().cloned());
    let rows = paper.rows.iter().map(|row| {
        let mut cells = vec![row.name.clone()];
        cells.extend(row.values.iter().cloned());
        cells
    });
    std::iter::once(header).chain(rows).collect()
}

fn machine_rows(results: &Results) -> Vec<Vec<String>> {
    let facts = machine::facts(&results.machine).into_iter();
    let rows = facts.map(|(name, fact)| vec![name.to_owned(), fact]);
    std::iter::once(vec![String::new(); 2])
        .chain(rows)
        .collect()
}

/// Pushes a table whose first row is its header.
fn push_table(text: &mut String, rows: &[Vec<String>]) {
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
        // Writing to a String does not fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", " --- |".repeat(row.len()));
        }
    }
    text.push('\n');
}

fn push_paragraph(text: &mut String, paragraph: &str) {
    let _ = writeln!(text, "{paragraph}\n");
}

/// A text in one line that says what it says: every character that Markdown or HTML would take for its own within a
/// line has a backslash before it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            escaped.push(' ');
            continue;
        }
        if r"\`*_[]<>&|~#".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn the_report_says_all() {
        let text = draw(&example::three_rounds());
        for part in [
            "# gups: random updates",
            "**missed**: pauses",
            "| thp | 18.00 M/s (1.50x) | 512 MiB (\\~1.02x, 0.97 to 1.06) | - | - |",
            "| updates: mega:adaptive at least 0.97x of thp | 1.20x | met |",
            "| throughput | 1.00x | 1.18x |",
            "| processor | Example Processor 9000 @ 3.10GHz, 2 logical CPUs |",
            "\n    mega lab live gups --size 512MiB --rounds 3 --seconds 3 ",
            "![The same as a chart](chart.svg)",
        ] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
    }

    /// Cells of a row: what stands between bars that no backslash escapes.
    fn cells(line: &str) -> usize {
        let mut escaped = false;
        let mut bars: usize = 0;
        for character in line.chars() {
            bars += usize::from(character == '|' && !escaped);
            escaped = character == '\\' && !escaped;
        }
        bars.saturating_sub(1)
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_a_cell(text in "[a|\\\\\n\r<&]*|\\PC*") {
            let mut table = String::new();
            push_table(&mut table, &[vec!["a".into(), "b".into()], vec![text, "c".into()]]);
            let lines: Vec<&str> = table.trim_end().split(['\n', '\r']).collect();
            proptest::prop_assert_eq!(lines.len(), 3);
            proptest::prop_assert_eq!(cells(lines[2]), 2);
        }

        #[test]
        fn no_text_keeps_a_special_character(text: String) {
            let escaped = escape(&text);
            let mut before = ' ';
            for character in escaped.chars() {
                let bare = before != '\\' && "<&|`".contains(character);
                proptest::prop_assert!(!bare, "{}", escaped);
                // A backslash that is itself escaped escapes nothing.
                before = if before == '\\' { ' ' } else { character };
            }
        }
    }
}
