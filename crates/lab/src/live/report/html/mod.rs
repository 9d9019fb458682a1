//! The page on all experiments: one HTML file that needs nothing else, and no script.

mod element;
mod section;

use super::{goal, machine, ratio};
use crate::live::results::{GoalResult, Results};
use crate::markup::escape;
use element::{facts, goal_cells, link, paragraph, table};

const STYLE: &str = include_str!("page.css");

/// Draws it: the machine, what was missed, all goals, and a section for each experiment.
pub(super) fn draw(all: &[Results]) -> String {
    let sections: String = all
        .iter()
        .map(|results| section::draw(results, is_elsewhere(all, results)))
        .collect();
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>mega lab live</title>\n\
         <style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n{}{}{}{sections}</main>\n</body>\n</html>\n",
        head(all),
        losses(all),
        goals(all)
    )
}

/// Whether an experiment was run by another commit or on another machine than the first one, of which the page's head
/// tells.
fn is_elsewhere(all: &[Results], results: &Results) -> bool {
    all.first()
        .is_some_and(|first| !machine::is_same(&first.machine, &results.machine))
}

fn head(all: &[Results]) -> String {
    let experiments = match all.len() {
        1 => "One experiment".to_owned(),
        count => format!("{count} experiments"),
    };
    let about = format!(
        "{experiments} with huge pages, each in every mode side by side, by <code>mega lab live</code>."
    );
    let machine = all
        .first()
        .map(|first| facts(&machine::facts(&first.machine)));
    let elsewhere = if all.iter().any(|results| is_elsewhere(all, results)) {
        paragraph(
            "Some experiments were run by another commit or on another machine: their sections say which.",
        )
    } else {
        String::new()
    };
    let links: String = all
        .iter()
        .map(|results| format!("<li>{}</li>\n", link_to(results)))
        .collect();
    format!(
        "<header>\n<h1>Huge pages, measured</h1>\n<p>{about}</p>\n{}{elsewhere}<nav><ul>\n{links}</ul></nav>\n</header>\n",
        machine.unwrap_or_default()
    )
}

/// The goals that were missed.
fn losses(all: &[Results]) -> String {
    let missed: Vec<Vec<String>> = all
        .iter()
        .flat_map(|results| goal::missed(results).map(move |goal| row(results, goal)))
        .collect();
    let body = if missed.is_empty() {
        paragraph("No goal that was measured was missed.")
    } else {
        table(&HEADER, &missed, None)
    };
    format!("<section class=\"losses\">\n<h2>Where mega loses</h2>\n{body}</section>\n")
}

/// Every goal.
fn goals(all: &[Results]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|results| results.goals.iter().map(move |goal| row(results, goal)))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let notes: String = ratio::notes(all)
        .iter()
        .map(|note| paragraph(note))
        .collect();
    format!(
        "<section>\n<h2>All goals</h2>\n{}{notes}</section>\n",
        table(&HEADER, &rows, None)
    )
}

const HEADER: [&str; 4] = ["experiment", "goal", "found", "verdict"];

fn row(results: &Results, goal: &GoalResult) -> Vec<String> {
    let mut cells = vec![link_to(results)];
    cells.extend(goal_cells(results, goal));
    cells
}

fn link_to(results: &Results) -> String {
    link(
        &format!("#{}", results.experiment),
        &escape(&results.experiment),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{example, well_formed};
    use super::*;

    #[test]
    fn the_machine_and_the_losses_come_first() {
        let mut other = example::one_round();
        other.experiment = "sparse".into();
        let page = draw(&[example::three_rounds(), other]);
        well_formed::check(&page).unwrap();
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("no {part}"));
        assert!(at("Example Processor") < at("Where mega loses"));
        assert!(at("Where mega loses") < at("All goals"));
        assert!(at("All goals") < at("<section id=\"gups\">"));
        assert!(at("<section id=\"gups\">") < at("<section id=\"sparse\">"));
        assert!(page.contains("href=\"gups/results.csv\""));
        assert!(!page.contains("<script") && !page.contains("@import"));
    }

    #[test]
    fn another_machine_is_told_where_it_counts() {
        let mut other = example::one_round();
        other.machine.cpu = "Another Processor".into();
        let page = draw(&[example::three_rounds(), other]);
        assert!(page.contains("by another commit or on another machine"));
        assert_eq!(
            page.matches("<dd>Another Processor, 2 logical CPUs")
                .count(),
            1
        );
    }

    #[test]
    fn nothing_is_a_page_too() {
        let page = draw(&[]);
        well_formed::check(&page).unwrap();
        assert!(page.contains("No goal that was measured was missed."));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_a_well_formed_page(text: String) {
            let page = draw(&[example::with_text(&text)]);
            proptest::prop_assert_eq!(well_formed::check(&page), Ok(()));
        }
    }
}
