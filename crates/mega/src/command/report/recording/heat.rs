//! A heat map as inline SVG, in the page's colours.

use std::fmt::Write;

use mega_record::overview::heat::{COLUMNS, HeatMap, Row, Shown};

use crate::command::report::page::escaped;

const WIDTH: usize = 960;
const LEFT: usize = 110;
const CELL: usize = 13;
const BOTTOM: usize = 22;

/// Classes of the style sheet, and what they stand for.
pub(super) const LEGEND: [(&str, &str); 8] = [
    ("heat-cold", "not accessed"),
    ("heat-1", "below a quarter accessed"),
    ("heat-2", "below half"),
    ("heat-3", "below three quarters"),
    ("heat-4", "up to all of it"),
    ("heat-huge-idle", "huge, not accessed"),
    (
        "heat-huge",
        "huge, accessed (which base pages were is hidden)",
    ),
    ("heat-unknown", "not known"),
];

/// What was done, in the same way.
pub(super) const MARKS: [(&str, &str); 3] = [
    ("mark-promoted", "promoted"),
    ("mark-demoted", "demoted"),
    ("mark-failed", "failed"),
];

/// Draws one; `number` tells it from others on the page.
pub(super) fn draw(heat: &HeatMap, number: usize, title: &str, seconds: f64) -> String {
    let floor = heat.rows.len() * CELL;
    let mut svg = format!(
        "<svg role=\"img\" aria-labelledby=\"h{number}-t h{number}-d\" viewBox=\"0 0 {WIDTH} {}\" xmlns=\"http://www.w3.org/2000/svg\">\n\
         <title id=\"h{number}-t\">{}</title>\n\
         <desc id=\"h{number}-d\">Addresses from top to bottom, time from left to right.</desc>\n",
        floor + BOTTOM,
        escaped(title)
    );
    for (place, row) in heat.rows.iter().enumerate() {
        draw_row(&mut svg, heat, row, place * CELL);
        draw_marks(&mut svg, row, place * CELL);
    }
    let base = floor + 15;
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        r#"<text x="{LEFT}" y="{base}">0 s</text><text x="{}" y="{base}" text-anchor="end">{seconds:.0} s</text>"#,
        LEFT + COLUMNS * CELL
    );
    svg + "</svg>\n"
}

/// Neighbours that look alike are one rectangle.
fn draw_row(svg: &mut String, heat: &HeatMap, row: &Row, y: usize) {
    let _ = writeln!(
        svg,
        r#"<text x="{}" y="{}" text-anchor="end">{:x}</text>"#,
        LEFT - 6,
        y + CELL - 2,
        row.start
    );
    let mut x = LEFT;
    let classes: Vec<_> = heat.shown(row).map(|shown| class(&shown)).collect();
    for run in classes.chunk_by(|one, next| one == next) {
        let width = run.len() * CELL;
        if let Some(class) = run.first().copied().flatten() {
            let _ = writeln!(
                svg,
                r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{CELL}"/>"#
            );
        }
        x += width;
    }
}

/// A bar in each cell in which the manager did something.
fn draw_marks(svg: &mut String, row: &Row, y: usize) {
    for (column, cell) in row.cells.iter().enumerate() {
        let marks = [cell.promoted, cell.demoted, cell.failed];
        for (place, (count, (class, _))) in marks.into_iter().zip(MARKS).enumerate() {
            if count > 0 {
                let x = LEFT + column * CELL + 1 + place * 4;
                let _ = writeln!(
                    svg,
                    r#"<rect class="{class}" x="{x}" y="{}" width="2" height="{}"/>"#,
                    y + 2,
                    CELL - 4
                );
            }
        }
    }
}

fn class(shown: &Shown) -> Option<&'static str> {
    match shown {
        Shown::Nothing => None,
        Shown::Unknown => Some("heat-unknown"),
        Shown::Blind(true) => Some("heat-huge"),
        Shown::Blind(false) => Some("heat-huge-idle"),
        Shown::Used(share) if *share <= 0.0 => Some("heat-cold"),
        Shown::Used(share) if *share < 0.25 => Some("heat-1"),
        Shown::Used(share) if *share < 0.5 => Some("heat-2"),
        Shown::Used(share) if *share < 0.75 => Some("heat-3"),
        Shown::Used(_) => Some("heat-4"),
    }
}
