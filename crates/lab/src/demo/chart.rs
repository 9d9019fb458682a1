//! The result as a picture: a group of bars per metric, one bar per mode.

use mega_core::bytes;

use super::mode::Mode;
use super::summary::{ModeSummary, Summary};
use crate::svg::{Anchor, FAINT, INK, Picture, Style, style};

const WIDTH: f64 = 760.0;
const HEAD: f64 = 84.0;
const GROUP: f64 = 118.0;
const FOOT: f64 = 16.0;
const BAR: f64 = 20.0;
const BAR_STEP: f64 = 25.0;
const LEFT: f64 = 120.0;
const LONGEST: f64 = 420.0;

/// One thing that is compared.
pub(super) struct Metric {
    /// What it is.
    pub(super) title: &'static str,
    /// Which way is better.
    better: &'static str,
    value: fn(&ModeSummary) -> f64,
    /// Against base pages; `None` where that says nothing.
    ratio: Option<fn(&ModeSummary) -> f64>,
    write: fn(f64) -> String,
}

/// All that is compared, in the order in which it is shown.
pub(super) const METRICS: [Metric; 5] = [
    Metric {
        title: "random updates per second",
        better: "more is better",
        value: |mode| mode.updates_per_second,
        ratio: Some(|mode| mode.ratio_to_base.updates_per_second),
        write: |value| format!("{:.1} M/s", value / 1e6),
    },
    Metric {
        title: "resident memory",
        better: "less is better",
        value: |mode| mode.resident_bytes,
        ratio: Some(|mode| mode.ratio_to_base.resident_bytes),
        write: write_bytes,
    },
    Metric {
        title: "of it in huge pages",
        better: "",
        value: |mode| mode.huge_bytes,
        ratio: None,
        write: write_bytes,
    },
    Metric {
        title: "first touch of a page, 99.9th percentile",
        better: "less is better",
        value: |mode| mode.first_touch_p99_9_ns,
        ratio: Some(|mode| mode.ratio_to_base.first_touch_p99_9_ns),
        write: |value| format!("{:.1} us", value / 1e3),
    },
    Metric {
        title: "CPU used by the manager, of one core",
        better: "less is better",
        value: |mode| mode.manager_cpu_share,
        ratio: None,
        write: |value| format!("{:.2} %", value * 100.0),
    },
];

impl Metric {
    /// A mode's value and its ratio to base pages.
    pub(super) fn label(&self, mode: &ModeSummary) -> String {
        let value = (self.write)((self.value)(mode));
        match self.ratio {
            Some(ratio) if mode.mode != Mode::Base => {
                let ratio = ratio(mode);
                let decimals = if ratio < 10.0 { 2 } else { 0 };
                format!("{value} ({ratio:.decimals$}x)")
            }
            _ => value,
        }
    }
}

/// Draws all metrics.
pub(super) fn draw(summary: &Summary) -> String {
    let mut y = HEAD;
    let mut picture = Picture::new(WIDTH);
    draw_head(&mut picture, summary);
    for metric in &METRICS {
        draw_metric(&mut picture, y, metric, summary);
        y += GROUP;
    }
    picture.finish(y + FOOT)
}

fn draw_head(picture: &mut Picture, summary: &Summary) {
    let size = bytes::format(summary.size_bytes);
    picture.text(
        24.0,
        34.0,
        style(18, true, INK),
        "One program with base pages, with THP always and under mega",
    );
    let subtitle = format!(
        "{size} used at random and {size} touched sparsely; {}; in brackets: against base pages",
        summary.runs()
    );
    picture.text(24.0, 56.0, style(12, false, FAINT), &subtitle);
}

fn draw_metric(picture: &mut Picture, top: f64, metric: &Metric, summary: &Summary) {
    picture.text(24.0, top + 14.0, style(14, true, INK), metric.title);
    let better = Style {
        anchor: Anchor::End,
        ..style(12, false, FAINT)
    };
    picture.text(WIDTH - 24.0, top + 14.0, better, metric.better);
    let values = summary.modes.iter().map(metric.value);
    let most = values.fold(0.0, f64::max);
    let mut y = top + 24.0;
    for mode in &summary.modes {
        let length = if most > 0.0 {
            LONGEST * (metric.value)(mode) / most
        } else {
            0.0
        };
        let name = Style {
            anchor: Anchor::End,
            ..style(13, false, INK)
        };
        picture.text(LEFT - 10.0, y + 15.0, name, mode.mode.name());
        // A hairline shows where a bar of nothing would start.
        picture.rectangle(LEFT, y, length.max(1.0), BAR, colour(mode.mode));
        let label = style(13, mode.mode == Mode::Mega, INK);
        picture.text(LEFT + length + 8.0, y + 15.0, label, &metric.label(mode));
        y += BAR_STEP;
    }
}

fn colour(mode: Mode) -> &'static str {
    match mode {
        Mode::Base => "#9aa4af",
        Mode::ThpAlways => "#d9822b",
        Mode::Mega => "#1f6fb2",
    }
}

// A median of byte counts is a byte count.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn write_bytes(value: f64) -> String {
    bytes::format(value as u64)
}
