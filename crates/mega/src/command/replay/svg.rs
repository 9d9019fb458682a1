//! Coverage and resident memory over time under each policy, as a picture.

use std::fmt::Write;

use mega_core::bytes;

use crate::report::{PointReport, ReplayReport};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 80.0;
const PLOT_WIDTH: f64 = 650.0;
const PLOT_HEIGHT: f64 = 180.0;
/// Where the plots begin.
const TOPS: [f64; 2] = [70.0, 310.0];
const COLOURS: [&str; 6] = [
    "#1f5fa8", "#c2571a", "#2e8b57", "#8a4fa3", "#a8861f", "#c0392b",
];
/// The recording itself.
const RECORDED: &str = "#777777";

/// Two plots, one below the other, and whose lines they have.
pub(super) fn draw(report: &ReplayReport) -> String {
    let mut body = String::new();
    let points = || report.policies.iter().flat_map(|policy| &policy.points);
    let seconds = points().map(|point| point.seconds).fold(0.0, f64::max);
    let most = points()
        .map(|point| point.resident.max(point.recorded))
        .max();
    let most = bytes_of(most.unwrap_or(0));
    title(&mut body, report);
    let coverage = Plot {
        top: TOPS[0],
        seconds,
        most: 1.0,
    };
    let resident = Plot {
        top: TOPS[1],
        seconds,
        most,
    };
    coverage.axes(&mut body, "in huge pages", &|value| {
        format!("{:.0} %", value * 100.0)
    });
    resident.axes(&mut body, "resident", &|value| bytes::format(whole(value)));
    if let Some(first) = report.policies.first() {
        let recorded = |point: &PointReport| share(point.recorded_huge, point.recorded);
        coverage.line(&mut body, &first.points, RECORDED, &recorded);
        resident.line(&mut body, &first.points, RECORDED, &|point| {
            bytes_of(point.recorded)
        });
    }
    for (policy, colour) in report.policies.iter().zip(COLOURS.iter().cycle()) {
        coverage.line(&mut body, &policy.points, colour, &|point| {
            share(point.huge, point.resident)
        });
        resident.line(&mut body, &policy.points, colour, &|point| {
            bytes_of(point.resident)
        });
    }
    legend(&mut body, report);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
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
        value: &dyn Fn(&PointReport) -> f64,
    ) {
        let points = points.iter();
        let points: Vec<String> = points
            .map(|point| format!("{:.1},{:.1}", self.x(point.seconds), self.y(value(point))))
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

fn legend(body: &mut String, report: &ReplayReport) {
    let names = report.policies.iter().map(|policy| policy.policy.as_str());
    let names = names.zip(COLOURS.iter().copied().cycle());
    let mut x = LEFT;
    for (name, colour) in std::iter::once(("as recorded", RECORDED)).chain(names) {
        let y = HEIGHT - 18.0;
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

fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 {
        bytes_of(part) / bytes_of(whole)
    } else {
        0.0
    }
}

#[allow(clippy::cast_precision_loss, reason = "pixels need no more")]
fn bytes_of(bytes: u64) -> f64 {
    bytes as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, not negative"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

/// A command is written as its user likes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
