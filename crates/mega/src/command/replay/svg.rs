//! Each quantity over time under each policy, as a picture.

use std::fmt::Write;

use super::quantity::{Quantity, quantities};
use crate::report::{PointReport, ReplayReport};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 80.0;
const PLOT_WIDTH: f64 = 650.0;
const PLOT_HEIGHT: f64 = 150.0;
/// Where the first plot begins, and how far below it the next one does.
const FIRST_TOP: f64 = 70.0;
const STEP: f64 = 206.0;
const COLOURS: [&str; 6] = [
    "#1f5fa8", "#c2571a", "#2e8b57", "#8a4fa3", "#a8861f", "#c0392b",
];
/// The recording itself.
const RECORDED: &str = "#777777";

/// The plots, one below the other, and whose lines they have.
pub(super) fn draw(report: &ReplayReport) -> String {
    let mut body = String::new();
    title(&mut body, report);
    let mut top = FIRST_TOP;
    for shown in quantities(report) {
        plot(&mut body, report, &shown, top);
        top += STEP;
    }
    let height = top - 4.0;
    legend(&mut body, report, height - 18.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn plot(body: &mut String, report: &ReplayReport, shown: &Quantity, top: f64) {
    let points = || report.policies.iter().flat_map(|policy| &policy.points);
    let of_recording = shown.recorded.iter();
    let values = of_recording.chain([&shown.value]);
    let values = values.flat_map(|value| points().filter_map(value));
    let plot = Plot {
        top,
        seconds: points().map(|point| point.seconds).fold(0.0, f64::max),
        most: shown.most.unwrap_or(values.fold(0.0, f64::max)),
    };
    plot.axes(body, shown.name, &shown.unit);
    if let (Some(first), Some(recorded)) = (report.policies.first(), shown.recorded) {
        plot.line(body, &first.points, RECORDED, &recorded);
    }
    for (policy, colour) in report.policies.iter().zip(COLOURS.iter().cycle()) {
        plot.line(body, &policy.points, colour, &shown.value);
    }
}

fn title(body: &mut String, report: &ReplayReport) {
    // Writing to a string does not fail.
    let _ = writeln!(
        body,
        r#"<text x="{LEFT}" y="24" font-weight="600">{}, replayed</text>
<text x="{LEFT}" y="42">Open loop: a program that huge pages make faster would have done more.</text>"#,
        escaped(&report.recording.subject)
    );
}

/// One of the plots: a value over time.
struct Plot {
    top: f64,
    /// What its right and its upper edge stand for.
    seconds: f64,
    most: f64,
}

impl Plot {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + part(seconds, self.seconds) * PLOT_WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - part(value, self.most)) * PLOT_HEIGHT
    }

    fn axes(&self, body: &mut String, what: &str, unit: &dyn Fn(f64) -> String) {
        let (right, bottom) = (LEFT + PLOT_WIDTH, self.top + PLOT_HEIGHT);
        let _ = writeln!(
            body,
            r#"<text x="{LEFT}" y="{}">{what}</text>"#,
            self.top - 8.0
        );
        for quarter in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let y = self.top + (1.0 - quarter) * PLOT_HEIGHT;
            let x = LEFT + quarter * PLOT_WIDTH;
            let _ = writeln!(
                body,
                r##"<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>
<text x="{}" y="{}" text-anchor="end">{}</text>
<text x="{x}" y="{}" text-anchor="middle">{:.0} s</text>"##,
                LEFT - 8.0,
                y + 4.0,
                unit(self.most * quarter),
                bottom + 18.0,
                self.seconds * quarter
            );
        }
    }

    fn line(
        &self,
        body: &mut String,
        points: &[PointReport],
        colour: &str,
        value: &dyn Fn(&PointReport) -> Option<f64>,
    ) {
        let points = points.iter();
        // Where nothing is known there is no line to draw, nor where it ends at 0.
        let points: Vec<String> = points
            .map(|point| (point.seconds, value(point).unwrap_or(0.0)))
            .map(|(seconds, value)| format!("{:.1},{:.1}", self.x(seconds), self.y(value)))
            .collect();
        let dashes = if colour == RECORDED {
            r#" stroke-dasharray="5 4""#
        } else {
            ""
        };
        let _ = writeln!(
            body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>"#,
            points.join(" ")
        );
    }
}

fn legend(body: &mut String, report: &ReplayReport, y: f64) {
    let names = report.policies.iter().map(|policy| policy.policy.as_str());
    let names = names.zip(COLOURS.iter().copied().cycle());
    let mut x = LEFT;
    for (name, colour) in std::iter::once(("as recorded", RECORDED)).chain(names) {
        let _ = writeln!(
            body,
            r#"<text x="{x}" y="{y}" fill="{colour}" font-weight="600">{name}</text>"#
        );
        #[allow(clippy::cast_precision_loss, reason = "a short name")]
        let width = name.len() as f64 * 8.0 + 16.0;
        x += width;
    }
}

fn part(value: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (value / whole).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// A command is written as its user likes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
