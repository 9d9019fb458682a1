//! The heat map of a recording as SVG.

use mega_record::overview::heat::{COLUMNS, HeatMap, Row, Shown};

use super::Info;
use crate::svg::{Anchor, FAINT, INK, Picture, Style, style};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 120.0;
const TOP: f64 = 64.0;
const CELL: f64 = 12.0;
/// What was not accessed, and what was: little, more, most and nearly all.
const COLD: &str = "#e6ecf2";
const SHADES: [&str; 4] = ["#fdd49e", "#fc8d59", "#e34a33", "#b30000"];
const HUGE: &str = "#5b7fa6";
const HUGE_IDLE: &str = "#b9c9da";
const PROMOTED: &str = "#00805f";
const DEMOTED: &str = "#1f2328";
const FAILED: &str = "#d01c8b";
const EMPTIED: &str = "#0969da";
const MAPPED: &str = "#6639ba";
const GIVEN_UP: &str = "#9a6700";
const UNKNOWN: &str = "#d8d8d8";

pub(super) fn draw(info: &Info) -> String {
    let mut picture = Picture::new(WIDTH);
    picture.text(16.0, 24.0, style(15, true, INK), &info.header.subject);
    let Some(heat) = &info.heat else {
        picture.text(16.0, 44.0, style(12, false, FAINT), "nothing was mapped");
        return picture.finish(64.0);
    };
    let about = format!(
        "memory of process {} over {:.0} s: addresses from top to bottom, time from left to right",
        heat.pid, info.seconds
    );
    picture.text(16.0, 44.0, style(12, false, FAINT), &about);
    let bottom = cells(&mut picture, heat);
    let bottom = compacted(&mut picture, heat, bottom);
    let end = Style {
        anchor: Anchor::End,
        ..style(11, false, FAINT)
    };
    picture.text(LEFT, bottom + 14.0, style(11, false, FAINT), "0 s");
    picture.text(
        right(),
        bottom + 14.0,
        end,
        &format!("{:.0} s", info.seconds),
    );
    legend(&mut picture, bottom + 34.0, &SHOWN);
    let mut y = bottom + 34.0;
    let more = [
        (info.header.policy.is_some(), DONE.as_slice()),
        (info.compaction.tried() > 0, COMPACTED.as_slice()),
        (info.header.calls, CALLED.as_slice()),
    ];
    for (_, entries) in more.into_iter().filter(|(is_there, _)| *is_there) {
        y += 20.0;
        legend(&mut picture, y, entries);
    }
    picture.finish(y + 22.0)
}

#[allow(clippy::cast_precision_loss, reason = "a small number")]
fn right() -> f64 {
    LEFT + COLUMNS as f64 * CELL
}

/// Returns where they end.
fn cells(picture: &mut Picture, heat: &HeatMap) -> f64 {
    let mut y = TOP;
    for row in &heat.rows {
        let label = format!("{:x}", row.start);
        let end = Style {
            anchor: Anchor::End,
            ..style(10, false, FAINT)
        };
        picture.text(LEFT - 6.0, y + CELL - 2.0, end, &label);
        runs(picture, heat.shown(row), y);
        marks(picture, row, y);
        y += CELL;
    }
    y
}

/// A row of its own for what compaction did, below the others where it did anything. Returns where that ends.
fn compacted(picture: &mut Picture, heat: &HeatMap, bottom: f64) -> f64 {
    if heat
        .compacted
        .iter()
        .all(|cell| cell.emptied + cell.failed == 0)
    {
        return bottom;
    }
    let y = bottom + 4.0;
    let end = Style {
        anchor: Anchor::End,
        ..style(10, false, FAINT)
    };
    picture.text(LEFT - 6.0, y + CELL - 2.0, end, "compaction");
    let mut x = LEFT;
    for cell in &heat.compacted {
        for (count, at, colour) in [(cell.emptied, 1.0, EMPTIED), (cell.failed, 9.0, FAILED)] {
            if count > 0 {
                picture.rectangle(x + at, y + 2.0, 2.0, CELL - 4.0, colour);
            }
        }
        x += CELL;
    }
    y + CELL
}

/// Neighbours of one colour are one rectangle.
fn runs(picture: &mut Picture, shown: impl Iterator<Item = Shown>, y: f64) {
    let colours: Vec<_> = shown.map(colour).collect();
    let mut x = LEFT;
    for alike in colours.chunk_by(|one, next| one == next) {
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let width = alike.len() as f64 * CELL;
        if let Some(colour) = alike.first().copied().flatten() {
            picture.rectangle(x, y, width, CELL, colour);
        }
        x += width;
    }
}

/// A bar in each cell in which the manager or the program did something.
fn marks(picture: &mut Picture, row: &Row, y: f64) {
    let mut x = LEFT;
    for cell in &row.cells {
        // What the program did itself lies across the cell, above and below.
        if cell.mapped_anew > 0 {
            picture.rectangle(x + 1.0, y + 1.0, CELL - 2.0, 2.0, MAPPED);
        }
        if cell.given_up > 0 {
            picture.rectangle(x + 1.0, y + CELL - 3.0, CELL - 2.0, 2.0, GIVEN_UP);
        }
        let marks = [
            (cell.promoted, PROMOTED),
            (cell.demoted, DEMOTED),
            (cell.failed, FAILED),
        ];
        for (place, (count, colour)) in (0..).zip(marks) {
            if count > 0 {
                let x = x + 1.0 + f64::from(place) * 4.0;
                picture.rectangle(x, y + 2.0, 2.0, CELL - 4.0, colour);
            }
        }
        x += CELL;
    }
}

/// The colour of what is shown, as "#rrggbb"; `None` for white.
pub(super) fn colour(shown: Shown) -> Option<&'static str> {
    match shown {
        Shown::Nothing => None,
        Shown::Unknown => Some(UNKNOWN),
        Shown::Blind(true) => Some(HUGE),
        Shown::Blind(false) => Some(HUGE_IDLE),
        Shown::Used(share) if share <= 0.0 => Some(COLD),
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 4"
        )]
        Shown::Used(share) => Some(SHADES[((share * 4.0) as usize).min(SHADES.len() - 1)]),
    }
}

const SHOWN: [(&str, &str); 8] = [
    (COLD, "not accessed"),
    (SHADES[0], "accessed"),
    (SHADES[1], ""),
    (SHADES[2], ""),
    (SHADES[3], "all of it"),
    (HUGE_IDLE, "huge, not accessed"),
    (HUGE, "huge, accessed: which base pages is hidden"),
    (UNKNOWN, "not known"),
];
const DONE: [(&str, &str); 3] = [
    (PROMOTED, "promoted"),
    (DEMOTED, "demoted"),
    (FAILED, "failed"),
];
const COMPACTED: [(&str, &str); 2] = [
    (EMPTIED, "blocks or chunks emptied"),
    (FAILED, "tried in vain"),
];
const CALLED: [(&str, &str); 2] = [
    (MAPPED, "mapped anew (mmap)"),
    (GIVEN_UP, "given up (munmap, MADV_DONTNEED)"),
];

fn legend(picture: &mut Picture, y: f64, entries: &[(&str, &str)]) {
    let mut x = LEFT;
    for (colour, text) in entries {
        picture.rectangle(x, y - 9.0, CELL, CELL, colour);
        picture.text(x + 16.0, y, style(11, false, INK), text);
        #[allow(clippy::cast_precision_loss, reason = "a short text")]
        let width = text.len() as f64 * 6.0;
        x += if text.is_empty() { 16.0 } else { width + 28.0 };
    }
}
