//! The tables as a picture: bars for cases, lines for courses. The paper's numbers are hollow.

use super::Report;
use super::terminal::settings;
use crate::sim::findings::{Row, Table};
use crate::sim::numbers::number;
use crate::svg::{Anchor, FAINT, INK, Picture, Style, style};
use crate::wrap::wrap;

const WIDTH: f64 = 840.0;
const MARGIN: f64 = 24.0;
/// Where bars and lines begin: names stand before it.
const LEFT: f64 = 190.0;
/// The longest bar; its label needs about 200 beside it.
const LONGEST: f64 = 400.0;
const BAR: f64 = 8.0;
const LINE: f64 = 17.0;
const GAP: f64 = 22.0;
/// A course's height, and its width.
const HIGH: f64 = 180.0;
const WIDE: f64 = 460.0;
/// Systems in order. They differ in lightness as well as in colour.
const COLOURS: [&str; 6] = [
    "#8c959f", "#0969da", "#bf8700", "#1a7f37", "#cf222e", "#8250df",
];

/// Draws all tables.
pub(super) fn draw(report: &Report) -> String {
    let mut picture = Picture::new(WIDTH);
    let mut y = 20.0;
    let title = format!("{} ({})", report.title, report.source);
    for line in wrap(&title, 78) {
        y += 20.0;
        picture.text(MARGIN, y, style(17, true, INK), &line);
    }
    y += LINE;
    picture.text(MARGIN, y, style(12, false, FAINT), &settings(report));
    y += GAP;
    for table in &report.findings.tables {
        y += LINE;
        picture.text(MARGIN, y, style(14, true, INK), &table.title);
        y += 9.0;
        y = if table.is_course {
            draw_course(&mut picture, y, table)
        } else {
            draw_bars(&mut picture, y, table)
        };
        y += GAP;
    }
    picture.finish(y)
}

fn colour(system: usize) -> &'static str {
    COLOURS[system % COLOURS.len()]
}

fn at_end(size: u32, colour: &'static str) -> Style {
    Style {
        anchor: Anchor::End,
        ..style(size, false, colour)
    }
}

/// The largest of all numbers that are drawn; 1 where there is none above 0.
fn largest(table: &Table) -> f64 {
    let cells = |row: &Row| {
        let paper = row.paper_beside_ours(table.reference);
        row.ours.iter().copied().chain(paper).collect::<Vec<_>>()
    };
    let all = table.rows.iter().flat_map(cells).flatten();
    let largest = all.filter(|number| number.is_finite()).fold(0.0, f64::max);
    if largest > 0.0 { largest } else { 1.0 }
}

fn draw_bars(picture: &mut Picture, top: f64, table: &Table) -> f64 {
    let scale = LONGEST / largest(table);
    let mut y = top;
    for row in &table.rows {
        y += LINE;
        picture.text(MARGIN, y, style(12, false, FAINT), &row.name);
        y += 4.0;
        let papers = row.paper_beside_ours(table.reference);
        for (system, name) in table.systems.iter().enumerate() {
            picture.text(LEFT - 8.0, y + 12.0, at_end(12, INK), name);
            let mut label = String::from("-");
            if let Some(ours) = row.ours.get(system).copied().flatten() {
                picture.rectangle(LEFT, y, (ours * scale).max(1.0), BAR, colour(system));
                label = table.unit.write(ours);
            }
            if let Some(paper) = papers.get(system).copied().flatten() {
                outline(picture, LEFT, y + BAR, (paper * scale).max(1.0), 6.0);
                label += &format!("; the paper {}", table.unit.write(paper));
            }
            let widest = row
                .ours
                .get(system)
                .into_iter()
                .chain(papers.get(system))
                .filter_map(|number| *number)
                .fold(0.0, f64::max);
            picture.text(
                LEFT + widest * scale + 8.0,
                y + 12.0,
                style(12, false, INK),
                &label,
            );
            y += LINE + 2.0;
        }
    }
    y
}

/// A hollow bar.
fn outline(picture: &mut Picture, x: f64, y: f64, width: f64, height: f64) {
    let corners = [
        (x, y),
        (x + width, y),
        (x + width, y + height),
        (x, y + height),
    ];
    for place in 0..corners.len() {
        let next = (place + 1) % corners.len();
        picture.line(corners[place], corners[next], FAINT);
    }
}

fn draw_course(picture: &mut Picture, top: f64, table: &Table) -> f64 {
    let bottom = top + HIGH;
    let step = WIDE / number(table.rows.len().saturating_sub(1).max(1) as u64);
    let scale = (HIGH - 10.0) / largest(table);
    let x = |place: usize| LEFT + number(place as u64) * step;
    picture.line((LEFT, bottom), (LEFT + WIDE, bottom), FAINT);
    let most = table.unit.write(largest(table));
    picture.text(LEFT - 8.0, top + 14.0, at_end(12, FAINT), &most);
    picture.text(LEFT - 8.0, bottom, at_end(12, FAINT), "0");
    for (system, name) in table.systems.iter().enumerate() {
        let points: Vec<(f64, f64)> = table
            .rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| {
                let ours = row.ours.get(system).copied().flatten()?;
                Some((x(place), bottom - ours * scale))
            })
            .collect();
        for pair in points.windows(2) {
            picture.line(pair[0], pair[1], colour(system));
        }
        for (place, row) in table.rows.iter().enumerate() {
            if let Some(paper) = row.paper.get(system).copied().flatten() {
                let y = bottom - paper * scale;
                outline(picture, x(place) - 3.0, y - 3.0, 6.0, 6.0);
            }
        }
        let y = top + 14.0 + number(system as u64) * LINE;
        let legend = LEFT + WIDE + 24.0;
        picture.rectangle(legend, y - 9.0, 14.0, 9.0, colour(system));
        picture.text(legend + 20.0, y, style(12, false, INK), name);
    }
    let mut y = bottom + LINE;
    for (place, row) in table.rows.iter().enumerate() {
        // Names of neighbours stand in two lines, so that they have room.
        let line = number(place as u64 % 2) * LINE;
        let middle = x(place) - 3.0 * number(row.name.chars().count() as u64);
        picture.text(
            middle,
            bottom + LINE + line,
            style(11, false, FAINT),
            &row.name,
        );
        y = y.max(bottom + LINE + line);
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::metric::Unit;

    fn table(is_course: bool) -> Table {
        Table {
            title: "a < b".to_owned(),
            unit: Unit::Count,
            systems: vec!["base".into(), "mega".into()],
            reference: None,
            better: crate::live::metric::Better::Neither,
            is_course,
            is_counted: true,
            rows: vec![
                Row::beside("x", vec![Some(1.0), None], vec![None, Some(4.0)]),
                Row::ours("y", vec![Some(2.0), Some(0.0)]),
            ],
        }
    }

    #[test]
    fn nothing_is_drawn_outside() {
        for is_course in [false, true] {
            let mut picture = Picture::new(WIDTH);
            let table = table(is_course);
            let y = if is_course {
                draw_course(&mut picture, 0.0, &table)
            } else {
                draw_bars(&mut picture, 0.0, &table)
            };
            let text = picture.finish(y);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert!(!text.contains("=\"-"), "{text}");
        }
    }

    #[test]
    fn the_longest_bar_is_the_largest_number() {
        assert_eq!(largest(&table(false)), 4.0);
        let mut empty = table(false);
        empty.rows.clear();
        assert_eq!(largest(&empty), 1.0);
    }
}
