//! The results as a picture: a group of bars for each metric, one bar for each mode.

use super::cell::{ABSENT, Cell};
use super::{machine, ratio, settings};
use crate::live::goal::MEGA;
use crate::live::mode::Mode;
use crate::live::results::{MetricResult, Results, Spread};
use crate::svg::{Anchor, FAINT, INK, Picture, Style, style};
use crate::wrap::wrap;

const WIDTH: f64 = 840.0;
const MARGIN: f64 = 24.0;
/// Where bars start: the names of the modes stand before it.
const LEFT: f64 = 180.0;
/// The longest bar; its label needs about 230 beside it.
const LONGEST: f64 = 390.0;
const BAR: f64 = 17.0;
const BAR_STEP: f64 = 22.0;
const LINE: f64 = 17.0;
/// Between two metrics.
const GAP: f64 = 22.0;
/// Half the height of a whisker's ends.
const CAP: f64 = 4.0;
/// Characters that fit into a line: of small text, of a metric's title beside which way is better, of the head.
const SMALL: usize = 112;
const TITLE: usize = 80;
const HEAD: usize = 72;

/// Draws all metrics.
pub(super) fn draw(results: &Results) -> String {
    let mut picture = Picture::new(WIDTH);
    let mut y = draw_head(&mut picture, results);
    for metric in &results.metrics {
        y = draw_metric(&mut picture, y, metric, &results.modes) + GAP;
    }
    y = draw_foot(&mut picture, y, results);
    picture.finish(y + MARGIN / 2.0)
}

/// Each part is drawn from a height on, and gives the height below it.
fn draw_head(picture: &mut Picture, results: &Results) -> f64 {
    let title = format!("{}: {}", results.experiment, results.title);
    let mut y = 20.0;
    for line in wrap(&title, HEAD) {
        y += 20.0;
        picture.text(MARGIN, y, style(17, true, INK), &line);
    }
    draw_small(picture, y + 4.0, &settings::line(results)) + GAP
}

fn draw_metric(picture: &mut Picture, top: f64, metric: &MetricResult, modes: &[Mode]) -> f64 {
    let better = Style {
        anchor: Anchor::End,
        ..style(12, false, FAINT)
    };
    picture.text(WIDTH - MARGIN, top + LINE, better, metric.better.words());
    let mut y = top;
    for line in wrap(&metric.title, TITLE) {
        y += LINE;
        picture.text(MARGIN, y, style(14, true, INK), &line);
    }
    y += 9.0;
    let scale = scale(metric);
    for mode in modes {
        draw_mode(picture, y, metric, mode, scale);
        y += BAR_STEP;
    }
    y
}

fn draw_mode(picture: &mut Picture, y: f64, metric: &MetricResult, mode: &Mode, scale: f64) {
    let is_mega = mode == MEGA;
    let baseline = y + 13.0;
    let name = Style {
        anchor: Anchor::End,
        ..style(13, is_mega, INK)
    };
    picture.text(LEFT - 10.0, baseline, name, &mode.to_string());
    let (Some(result), Some(cell)) = (metric.of(mode), Cell::of(metric, mode)) else {
        picture.text(LEFT, baseline, style(13, false, FAINT), ABSENT);
        return;
    };
    // A hairline shows where a bar of nothing would start.
    let length = (result.value.median * scale).max(1.0);
    picture.rectangle(LEFT, y, length, BAR, colour(mode));
    let end = draw_whisker(picture, y + BAR / 2.0, result.value, scale).max(LEFT + length);
    let label = style(13, is_mega, INK);
    picture.text(end + 8.0, baseline, label, &cell.to_string());
}

/// Draws a line from the lowest to the highest round, and gives its right end.
fn draw_whisker(picture: &mut Picture, y: f64, value: Spread, scale: f64) -> f64 {
    if value.low >= value.high {
        return LEFT;
    }
    let (low, high) = (LEFT + value.low * scale, LEFT + value.high * scale);
    picture.line((low, y), (high, y), INK);
    for x in [low, high] {
        picture.line((x, y - CAP), (x, y + CAP), INK);
    }
    high
}

/// The pixels of one unit, so that the highest round has the longest bar; 0 where all is 0.
fn scale(metric: &MetricResult) -> f64 {
    let highest = metric.modes.iter().map(|result| result.value.high);
    let most = highest.fold(0.0, f64::max);
    if most > 0.0 { LONGEST / most } else { 0.0 }
}

fn draw_foot(picture: &mut Picture, top: f64, results: &Results) -> f64 {
    let mut y = top - GAP / 2.0;
    if results.settings.rounds > 1 {
        y = draw_small(
            picture,
            y,
            "lines over the bars: from the lowest to the highest round",
        );
    }
    for note in ratio::notes(std::slice::from_ref(results)) {
        y = draw_small(picture, y, &note);
    }
    draw_small(picture, y, &machine::line(&results.machine))
}

fn draw_small(picture: &mut Picture, top: f64, text: &str) -> f64 {
    let mut y = top;
    for line in wrap(text, SMALL) {
        y += LINE;
        picture.text(MARGIN, y, style(12, false, FAINT), &line);
    }
    y
}

fn colour(mode: &Mode) -> &'static str {
    match mode {
        Mode::Base => "#9aa4af",
        Mode::Thp => "#d9822b",
        Mode::Khugepaged => "#e3b04b",
        Mode::KhugepagedDefaults => "#efd08f",
        Mode::Mega(_) if mode == MEGA => "#2f82c8",
        Mode::Mega(_) => "#a3c7e6",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{example, well_formed};
    use super::*;

    #[test]
    fn every_mode_has_a_bar_or_is_absent() {
        let results = example::three_rounds();
        let picture = draw(&results);
        well_formed::check(&picture).unwrap();
        let told: usize = results
            .metrics
            .iter()
            .map(|metric| metric.modes.len())
            .sum();
        // One rectangle is the background.
        assert_eq!(picture.matches("<rect").count(), told + 1);
        let absent = results.metrics.len() * results.modes.len() - told;
        assert_eq!(picture.matches(">-</text>").count(), absent);
        assert!(picture.contains("512 MiB (~1.02x, 0.97 to 1.06)"));
    }

    #[test]
    fn one_round_has_no_whiskers() {
        assert!(draw(&example::three_rounds()).contains("<line"));
        assert!(!draw(&example::one_round()).contains("<line"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_a_well_formed_picture(text: String) {
            let picture = draw(&example::with_text(&text));
            proptest::prop_assert_eq!(well_formed::check(&picture), Ok(()));
        }
    }
}
