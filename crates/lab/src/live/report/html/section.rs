//! What the page says about one experiment.

use super::element::{facts, figure, goal_cells, link, paragraph, table};
use crate::live::goal::MEGA;
use crate::live::mode::Mode;
use crate::live::report::cell::{ABSENT, Cell};
use crate::live::report::{CHART, CSV, JSON, REPORT, chart, machine, ratio, settings};
use crate::live::results::{MetricResult, Paper, Results};
use crate::markup::escape;

/// Draws it, with its machine where that is not the page's.
pub(super) fn draw(results: &Results, elsewhere: bool) -> String {
    let notes: String = ratio::notes(std::slice::from_ref(results))
        .iter()
        .map(|note| paragraph(note))
        .collect();
    let parts = [
        paragraph(&results.about),
        paragraph(&settings::line(results)),
        figure(&results.title, &chart::draw(results)),
        values(results),
        notes,
        results.paper.as_ref().map(paper).unwrap_or_default(),
        goals(results),
        repeat(results, elsewhere),
        files(results),
    ];
    format!(
        "<section id=\"{}\">\n<h2>{}: {}</h2>\n{}</section>\n",
        escape(&results.experiment),
        escape(&results.experiment),
        escape(&results.title),
        parts.concat()
    )
}

/// A row for each mode, a column for each metric.
fn values(results: &Results) -> String {
    let header: Vec<String> = std::iter::once("mode".to_owned())
        .chain(results.metrics.iter().map(heading))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |mode: &Mode| {
        let mut cells = vec![escape(&mode.to_string())];
        cells.extend(results.metrics.iter().map(|metric| value(metric, mode)));
        cells
    };
    let rows: Vec<Vec<String>> = results.modes.iter().map(row).collect();
    let mega = results.modes.iter().position(|mode| mode == MEGA);
    format!(
        "<div class=\"values\">\n{}</div>\n",
        table(&header, &rows, mega)
    )
}

fn heading(metric: &MetricResult) -> String {
    let title = escape(&metric.title);
    format!("{title} <small>{}</small>", metric.better.words())
}

fn value(metric: &MetricResult, mode: &Mode) -> String {
    let Some(Cell { value, ratio }) = Cell::of(metric, mode) else {
        return ABSENT.to_owned();
    };
    let value = escape(&value);
    match ratio {
        Some(ratio) => format!("{value} <small>({})</small>", escape(&ratio)),
        None => value,
    }
}

fn goals(results: &Results) -> String {
    if results.goals.is_empty() {
        return String::new();
    }
    let goals = results.goals.iter();
    let rows: Vec<Vec<String>> = goals.map(|goal| goal_cells(results, goal)).collect();
    let table = table(&["goal", "found", "verdict"], &rows, None);
    format!("<h3>Goals</h3>\n{table}")
}

fn paper(paper: &Paper) -> String {
    let systems: Vec<String> = paper.systems.iter().map(|name| escape(name)).collect();
    let header: Vec<&str> = std::iter::once("")
        .chain(systems.iter().map(String::as_str))
        .collect();
    let rows: Vec<Vec<String>> = paper
        .rows
        .iter()
        .map(|row| {
            let cells = std::iter::once(&row.name).chain(&row.values);
            cells.map(|cell| escape(cell)).collect()
        })
        .collect();
    format!(
        "<h3>The paper</h3>\n{}<div class=\"values\">\n{}</div>\n",
        paragraph(&paper.source),
        table(&header, &rows, None)
    )
}

/// The command that repeats it, and the machine.
fn repeat(results: &Results, elsewhere: bool) -> String {
    let machine = if elsewhere {
        facts(&machine::facts(&results.machine))
    } else {
        String::new()
    };
    format!(
        "<h3>Again</h3>\n<pre>{}</pre>\n{machine}",
        escape(&settings::command(results))
    )
}

fn files(results: &Results) -> String {
    let links = [JSON, CSV, REPORT, CHART]
        .map(|name| link(&format!("{}/{name}", results.experiment), name));
    format!("<p class=\"files\">{}</p>\n", links.join(" "))
}
