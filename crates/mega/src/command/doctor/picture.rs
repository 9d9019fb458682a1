//! What touches cost on this machine, as a picture: the share of their time that huge pages save, by working set.

use std::fmt::Write;

use mega_core::bytes;
use mega_core::worth::{Calibration, Point, Touching};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;

/// Okabe and Ito's colours, which all can tell apart, and three greys.
const COLOURS: [&str; Touching::ALL.len()] = [
    "#0072b2", "#56b4e9", "#009e73", "#f0e442", "#e69f00", "#d55e00", "#cc79a7", "#000000",
    "#999999", "#666666", "#bbbbbb",
];

pub(super) fn draw(calibration: &Calibration) -> String {
    let sizes = calibration.working_sets();
    let across = Across::over(&sizes);
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        body,
        r#"<text x="{LEFT}" y="20" font-weight="600">Share of a touch's time that a huge page saves</text>
<text x="{LEFT}" y="36">{}, Linux {}</text>"#,
        escaped(&calibration.valid_for.processor),
        escaped(&calibration.valid_for.kernel),
    );
    for percent in [0, 20, 40, 60, 80] {
        let y = down(f64::from(percent) / 100.0);
        let _ = writeln!(
            body,
            r##"<path d="M{LEFT} {y:.1}H{:.1}" stroke="#dddddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{percent} %</text>"##,
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
    }
    for &size in &sizes {
        let _ = writeln!(
            body,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            across.at(size),
            HEIGHT - BOTTOM + 20.0,
            bytes::format(size)
        );
    }
    for (number, touching) in Touching::ALL.into_iter().enumerate() {
        line(&mut body, calibration, touching, &across, number);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// The horizontal axis: working sets by their logarithms.
struct Across {
    first: f64,
    span: f64,
}

impl Across {
    fn over(sizes: &[u64]) -> Self {
        let log = |size: Option<&u64>| size.map_or(0.0, |&size| (size as f64).log2());
        let first = log(sizes.first());
        Across {
            first,
            span: (log(sizes.last()) - first).max(1.0),
        }
    }

    fn at(&self, size: u64) -> f64 {
        let part = ((size as f64).log2() - self.first) / self.span;
        LEFT + 20.0 + part * (WIDTH - LEFT - RIGHT - 40.0)
    }
}

/// The vertical axis: a share, 80 % at the top.
fn down(share: f64) -> f64 {
    HEIGHT - BOTTOM - share.clamp(0.0, 0.8) / 0.8 * (HEIGHT - TOP - BOTTOM)
}

fn line(
    body: &mut String,
    calibration: &Calibration,
    touching: Touching,
    across: &Across,
    number: usize,
) {
    let colour = COLOURS[number % COLOURS.len()];
    let mut points: Vec<&Point> = calibration
        .points
        .iter()
        .filter(|point| point.touching == touching)
        .collect();
    points.sort_by_key(|point| point.working_set);
    let share = |ns: f64, point: &Point| down(ns / point.ns);
    let mut path = String::new();
    for point in &points {
        let x = across.at(point.working_set);
        let _ = write!(path, " {x:.1},{:.1}", share(point.saved.value, point));
        let _ = writeln!(
            body,
            r#"<path d="M{x:.1} {:.1}V{:.1}" stroke="{colour}" opacity="0.5"/>"#,
            share(point.saved.low, point),
            share(point.saved.high, point)
        );
    }
    let y = TOP + 10.0 + 18.0 * number as f64;
    let x = WIDTH - RIGHT + 10.0;
    let _ = writeln!(
        body,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>
<path d="M{x} {:.1}h18" stroke="{colour}" stroke-width="3"/><text x="{}" y="{y}">{}</text>"#,
        path.trim_start(),
        y - 4.0,
        x + 24.0,
        touching.name()
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
