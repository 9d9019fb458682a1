//! Elements of the page. This escapes what is called text, and takes what is called HTML as it is.

use crate::live::report::goal;
use crate::live::results::{GoalResult, Results, Verdict};
use crate::markup::escape;

/// A paragraph of text.
pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// A link to a place, around HTML.
pub(super) fn link(to: &str, html: &str) -> String {
    format!("<a href=\"{}\">{html}</a>", escape(to))
}

/// Names and what is known of them, as texts.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let facts: String = facts
        .iter()
        .map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(fact)))
        .collect();
    format!("<dl>\n{facts}</dl>\n")
}

/// A picture in SVG, and in a text what it shows.
pub(super) fn figure(text: &str, svg: &str) -> String {
    format!(
        "<figure role=\"img\" aria-label=\"chart: {}\">\n{svg}</figure>\n",
        escape(text)
    )
}

/// A table of HTML, of which one row may be marked.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], marked: Option<usize>) -> String {
    let header: String = header
        .iter()
        .map(|cell| format!("<th>{cell}</th>"))
        .collect();
    let rows: String = rows
        .iter()
        .enumerate()
        .map(|(number, row)| {
            let class = if marked == Some(number) {
                " class=\"marked\""
            } else {
                ""
            };
            let cells: String = row.iter().map(|cell| format!("<td>{cell}</td>")).collect();
            format!("<tr{class}>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A goal's text, what was found, and the verdict, as HTML.
pub(super) fn goal_cells(results: &Results, goal: &GoalResult) -> Vec<String> {
    let class = match goal.verdict {
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::NotMeasured => "unmeasured",
    };
    vec![
        escape(&goal.text),
        escape(&goal::found(goal, results).unwrap_or_default()),
        format!("<span class=\"{class}\">{}</span>", goal::verdict(goal)),
    ]
}
