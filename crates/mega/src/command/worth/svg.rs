//! The curve of what is made huge against what that gains, as a picture.

use std::fmt::Write;

use mega_core::bytes;

use crate::report::WorthReport;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;
const PLOT_WIDTH: f64 = 540.0;
const PLOT_HEIGHT: f64 = 290.0;
const COLOURS: [&str; 6] = [
    "#1f5fa8", "#c2571a", "#2e8b57", "#8a4fa3", "#a8861f", "#666666",
];

/// One curve for each process.
pub(super) fn draw(reports: &[WorthReport]) -> String {
    let mut body = String::new();
    axes(&mut body);
    for (report, colour) in reports.iter().zip(COLOURS.iter().cycle()) {
        line(&mut body, report, colour);
    }
    for (number, (report, colour)) in reports.iter().zip(COLOURS.iter().cycle()).enumerate() {
        legend(&mut body, report, colour, number);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn x(share: f64) -> f64 {
    LEFT + share.clamp(0.0, 1.0) * PLOT_WIDTH
}

fn y(share: f64) -> f64 {
    TOP + (1.0 - share.clamp(0.0, 1.0)) * PLOT_HEIGHT
}

fn axes(body: &mut String) {
    // Writing to a string does not fail.
    let _ = writeln!(
        body,
        r#"<text x="{LEFT}" y="24" font-weight="600">What huge pages gain, the regions touched most first</text>"#
    );
    for percent in [0, 25, 50, 75, 100] {
        let share = f64::from(percent) / 100.0;
        let (x, y) = (x(share), y(share));
        let (right, bottom) = (LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT);
        let _ = writeln!(
            body,
            r##"<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>"##
        );
        let _ = writeln!(
            body,
            r#"<text x="{}" y="{}" text-anchor="end">{percent} %</text>"#,
            LEFT - 8.0,
            y + 4.0
        );
        let _ = writeln!(
            body,
            r#"<text x="{x}" y="{}" text-anchor="middle">{percent} %</text>"#,
            bottom + 18.0
        );
    }
    let _ = writeln!(
        body,
        r#"<text x="{}" y="{}" text-anchor="middle">share of its base-mapped memory made huge (up: share of the gain)</text>"#,
        LEFT + PLOT_WIDTH / 2.0,
        HEIGHT - 16.0
    );
}

fn line(body: &mut String, report: &WorthReport, colour: &str) {
    let points: Vec<String> = report
        .worth
        .curve
        .iter()
        .map(|point| format!("{:.1},{:.1}", x(point.promoted), y(point.gain)))
        .collect();
    let _ = writeln!(
        body,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
        points.join(" ")
    );
}

fn legend(body: &mut String, report: &WorthReport, colour: &str, number: usize) {
    #[allow(clippy::cast_precision_loss, reason = "a few lines")]
    let y = TOP + PLOT_HEIGHT - 12.0 - 16.0 * number as f64;
    let worth = &report.worth;
    let _ = writeln!(
        body,
        r#"<text x="{}" y="{y}" text-anchor="end" fill="{colour}">{} ({}): {:.0} % of its time, {} on base pages</text>"#,
        LEFT + PLOT_WIDTH - 8.0,
        escaped(&report.name),
        report.pid,
        worth.saved_share.value * 100.0,
        bytes::format(worth.promotable),
    );
}

/// A process names itself as it likes.
fn escaped(name: &str) -> String {
    name.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use mega_core::MemoryObservation;

    use super::super::obstacles::tests::worth;
    use super::*;
    use crate::report::{Memory, VERSION};

    #[test]
    fn each_process_has_a_curve_and_its_name() {
        let report = WorthReport {
            version: VERSION,
            pid: 7,
            name: "a<b".to_owned(),
            seconds: 1.0,
            worth: worth(),
            obstacles: Vec::new(),
            memory: Memory::from(&MemoryObservation::default()),
            host_page: None,
            runs_guest: false,
        };
        let picture = draw(&[report.clone(), report]);
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert_eq!(picture.matches("<polyline").count(), 2);
        // All of it gains all: the upper right corner.
        assert!(picture.contains("600.0,50.0"), "{picture}");
        assert!(picture.contains("a&lt;b (7): 31 %") && !picture.contains("a<b"));
    }
}
