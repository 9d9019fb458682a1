//! Predicted against measured, as a picture: what is said rightly lies on the diagonal.

use super::results::ProgramResult;
use crate::svg::{Anchor, FAINT, INK, Picture, Style, style};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// What lies within these points of the diagonal is near.
const NEAR: f64 = 0.05;
const GRID: &str = "#e2e4e7";
const POINT: &str = "#0072b2";

/// The axes: both from the same lowest share to the same highest.
struct Axes {
    low: f64,
    high: f64,
}

impl Axes {
    fn over(programs: &[ProgramResult]) -> Self {
        let ends = programs
            .iter()
            .flat_map(|program| [program.predicted.value, program.measured.value]);
        let (low, high) = ends.fold((0.0_f64, 0.1_f64), |(low, high), end| {
            (low.min(end), high.max(end))
        });
        let tenth = |share: f64| (share * 10.0).ceil() / 10.0;
        Axes {
            low: -tenth(-low),
            high: tenth(high),
        }
    }

    fn part(&self, share: f64) -> f64 {
        (share.clamp(self.low, self.high) - self.low) / (self.high - self.low)
    }

    fn x(&self, measured: f64) -> f64 {
        LEFT + self.part(measured) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, predicted: f64) -> f64 {
        HEIGHT - BOTTOM - self.part(predicted) * (HEIGHT - TOP - BOTTOM)
    }

    fn at(&self, measured: f64, predicted: f64) -> (f64, f64) {
        (self.x(measured), self.y(predicted))
    }
}

pub(super) fn draw(programs: &[ProgramResult]) -> String {
    let axes = Axes::over(programs);
    let mut picture = Picture::new(WIDTH);
    picture.text(
        LEFT,
        24.0,
        style(14, true, INK),
        "CPU time that huge pages save: predicted against measured",
    );
    grid(&mut picture, &axes);
    for program in programs {
        mark(&mut picture, &axes, program);
    }
    picture.finish(HEIGHT)
}

fn grid(picture: &mut Picture, axes: &Axes) {
    let right = Style {
        anchor: Anchor::End,
        ..style(11, false, FAINT)
    };
    let mut share = axes.low;
    while share <= axes.high + 1e-9 {
        picture.line(axes.at(share, axes.low), axes.at(share, axes.high), GRID);
        picture.line(axes.at(axes.low, share), axes.at(axes.high, share), GRID);
        let label = format!("{:.0} %", 100.0 * share);
        picture.text(LEFT - 6.0, axes.y(share) + 4.0, right, &label);
        picture.text(axes.x(share) + 10.0, HEIGHT - BOTTOM + 18.0, right, &label);
        share += 0.1;
    }
    picture.text(
        LEFT,
        HEIGHT - 14.0,
        style(12, false, FAINT),
        "measured; up: predicted; the lines beside the diagonal: 5 points",
    );
    picture.line(
        axes.at(axes.low, axes.low),
        axes.at(axes.high, axes.high),
        FAINT,
    );
    let end = axes.high - NEAR;
    picture.line(
        axes.at(axes.low, axes.low + NEAR),
        axes.at(end, axes.high),
        GRID,
    );
    picture.line(
        axes.at(axes.low + NEAR, axes.low),
        axes.at(axes.high, end),
        GRID,
    );
}

/// A cross as large as both intervals, and a point.
fn mark(picture: &mut Picture, axes: &Axes, program: &ProgramResult) {
    let (predicted, measured) = (program.predicted, program.measured);
    picture.line(
        axes.at(measured.low, predicted.value),
        axes.at(measured.high, predicted.value),
        FAINT,
    );
    picture.line(
        axes.at(measured.value, predicted.low),
        axes.at(measured.value, predicted.high),
        FAINT,
    );
    let (x, y) = axes.at(measured.value, predicted.value);
    picture.rectangle(x - 3.0, y - 3.0, 6.0, 6.0, POINT);
    picture.text(x + 6.0, y - 4.0, style(11, false, INK), &program.name);
}
