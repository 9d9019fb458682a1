//! The report for the terminal.

use std::fmt::Write;

use super::panel::Panel;
use super::{goal, panel, ratio, settings};
use crate::columns::{Side, align};
use crate::live::results::{GoalResult, Paper, Results, Verdict};
use crate::wrap::wrap;

/// Characters in a line, where no single column needs more.
const WIDTH: usize = 100;

const BOLD_RED: &str = "\x1b[1;31m";
const GREEN: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// Draws it: what was missed first.
pub(in crate::live) fn draw(results: &Results, colours: bool) -> String {
    let mut text = String::new();
    let title = format!("{}: {}", results.experiment, results.title);
    push_wrapped(&mut text, &title);
    push_wrapped(&mut text, &settings::line(results));
    push_goals(&mut text, goal::missed(results), results, colours);
    for block in panel::blocks(panels(results), WIDTH) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n{}", block.join("\n"));
    }
    push_goals(&mut text, goal::others(results), results, colours);
    if let Some(paper) = &results.paper {
        push_paper(&mut text, paper);
    }
    let notes = ratio::notes(std::slice::from_ref(results));
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        push_wrapped(&mut text, &note);
    }
    text
}

/// The names of the modes, and a panel for each metric.
fn panels(results: &Results) -> Vec<Panel> {
    let metrics = results.metrics.iter();
    std::iter::once(Panel::modes(&results.modes))
        .chain(metrics.map(|metric| Panel::metric(metric, &results.modes)))
        .collect()
}

fn push_goals<'a>(
    text: &mut String,
    goals: impl Iterator<Item = &'a GoalResult>,
    results: &Results,
    colours: bool,
) {
    let mut before = "\n";
    for goal in goals {
        let verdict = coloured(goal, colours);
        let _ = writeln!(text, "{before}{verdict}: {}", goal::line(goal, results));
        before = "";
    }
}

fn coloured(goal: &GoalResult, colours: bool) -> String {
    let words = goal::verdict(goal);
    match goal.verdict {
        Verdict::Missed if colours => format!("{BOLD_RED}{words}{RESET}"),
        Verdict::Met if colours => format!("{GREEN}{words}{RESET}"),
        _ => words.to_owned(),
    }
}

fn push_paper(text: &mut String, paper: &Paper) {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(paper.systems.iter().cloned());
    for row in &paper.rows {
        let mut cells = vec![row.name.clone()];
        cells.extend(row.values.iter().cloned());
        rows.push(cells);
    }
    let table = align(&rows, &[Side::Left, Side::Right]);
    let _ = writeln!(text, "\nthe paper, {}:\n{}", paper.source, table.join("\n"));
}

fn push_wrapped(text: &mut String, long: &str) {
    for line in wrap(long, WIDTH) {
        let _ = writeln!(text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn what_was_missed_comes_before_the_table() {
        let text = draw(&example::three_rounds(), false);
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part}: {text}"))
        };
        assert!(at("missed by the median only: memory") < at("operations per second"));
        assert!(at("operations per second") < at("met: updates"));
        assert!(at("met: updates") < at("the paper, Example"));
        assert!(at("the paper") < at("~: the rounds differ"));
        assert!(text.contains("not measured: pauses"));
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn tables_fit_the_width() {
        for results in [example::three_rounds(), example::one_round()] {
            let text = draw(&results, false);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest.unwrap() <= WIDTH, "{text}");
        }
    }

    #[test]
    fn only_verdicts_are_coloured() {
        let text = draw(&example::three_rounds(), true);
        assert!(text.contains("\x1b[1;31mmissed\x1b[0m: pauses"));
        assert!(text.contains("\x1b[32mmet\x1b[0m: updates"));
        assert_eq!(text.matches(RESET).count(), 3);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_drawn(text: String) {
            draw(&example::with_text(&text), false);
        }
    }
}
