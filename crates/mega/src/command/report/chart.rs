//! Values over time as inline SVG, in the page's colours. A picture has a title and a description; the page's tables have the values.

use std::fmt::Write;

use super::page::escaped;
use crate::utc;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// The least time that a picture spans, so that the first minutes are not stretched over all of it.
const LEAST_SPAN: u64 = 3600;

/// From when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    from: u64,
    to: u64,
    clock: Clock,
}

/// What times are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// Seconds since 1970.
    Utc,
    /// Milliseconds since a recording began.
    Recording,
}

impl Span {
    /// From the first to the last moment, an hour at least.
    pub(super) fn of(first: u64, last: u64) -> Self {
        let to = last.max(first);
        Span {
            from: first.min(to.saturating_sub(LEAST_SPAN)),
            to: to.max(LEAST_SPAN),
            clock: Clock::Utc,
        }
    }

    /// A recording of `length` milliseconds.
    pub(super) fn recorded(length: u64) -> Self {
        Span {
            from: 0,
            to: length.max(1),
            clock: Clock::Recording,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a day in pixels")]
    fn x(self, time: u64) -> f64 {
        let part = time.saturating_sub(self.from) as f64 / (self.to - self.from) as f64;
        LEFT + part.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Round times at which a label fits.
    fn ticks(self) -> impl Iterator<Item = u64> {
        /// Full hours, or the parts of one.
        const SECONDS: [u64; 7] = [300, 600, 900, 1800, 3600, 7200, 14400];
        const MILLISECONDS: [u64; 14] = [
            100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
            1_800_000, 3_600_000,
        ];
        const MOST: u64 = 9;
        let span = self.to - self.from;
        let steps: &[u64] = match self.clock {
            Clock::Utc => &SECONDS,
            Clock::Recording => &MILLISECONDS,
        };
        let longest = steps.last().copied().unwrap_or(1);
        let step = steps.iter().copied().find(|step| span / step <= MOST);
        // Whole numbers of the longest, where that is too short.
        let step = step.unwrap_or(match self.clock {
            Clock::Utc => longest,
            Clock::Recording => longest * (span / longest).div_ceil(MOST),
        });
        (self.from.div_ceil(step)..=self.to / step).map(move |number| number * step)
    }
}

impl Span {
    fn label(self, time: u64) -> String {
        match self.clock {
            Clock::Utc => utc::time_of_day(time).chars().take(5).collect(),
            Clock::Recording if !time.is_multiple_of(1000) => {
                format!("{}.{} s", time / 1000, time % 1000 / 100)
            }
            Clock::Recording if time < 600_000 => format!("{} s", time / 1000),
            Clock::Recording => format!("{} min", time / 60_000),
        }
    }
}

/// One value over time.
pub(super) struct Series<'a> {
    /// A class of the style sheet.
    pub(super) class: &'a str,
    /// From when to when a value held, in order.
    pub(super) values: Vec<(u64, u64, f64)>,
}

/// A picture.
pub(super) struct Chart<'a> {
    /// No other picture of the page has it.
    pub(super) id: String,
    pub(super) title: String,
    /// What a reader should see in it.
    pub(super) description: String,
    pub(super) span: Span,
    pub(super) height: f64,
    /// What the upper edge stands for.
    pub(super) most: f64,
    /// How a value is written.
    pub(super) unit: &'a dyn Fn(f64) -> String,
    /// Those below first.
    pub(super) areas: Vec<Series<'a>>,
    /// Times that are marked at the foot.
    pub(super) marks: Vec<(u64, u64)>,
}

impl Chart<'_> {
    pub(super) fn draw(&self) -> String {
        let (id, height) = (&self.id, self.height);
        let mut svg = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            r#"<svg role="img" aria-labelledby="{id}-t {id}-d" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">
<title id="{id}-t">{}</title>
<desc id="{id}-d">{}</desc>"#,
            escaped(&self.title),
            escaped(&self.description)
        );
        for area in &self.areas {
            let _ = writeln!(
                svg,
                r#"<path class="{}" d="{}"/>"#,
                area.class,
                self.path(area)
            );
        }
        self.axes(&mut svg);
        for &(from, to) in &self.marks {
            let (x, end) = (self.span.x(from), self.span.x(to));
            let _ = writeln!(
                svg,
                r#"<rect class="short" x="{x:.1}" y="{}" width="{:.1}" height="5"/>"#,
                self.floor() - 5.0,
                (end - x).max(2.0)
            );
        }
        svg += "</svg>\n";
        svg
    }

    fn floor(&self) -> f64 {
        self.height - BOTTOM
    }

    fn y(&self, value: f64) -> f64 {
        let part = if self.most > 0.0 {
            value / self.most
        } else {
            0.0
        };
        self.floor() - part.clamp(0.0, 1.0) * (self.floor() - TOP)
    }

    /// Steps, with gaps where nothing is known.
    fn path(&self, series: &Series<'_>) -> String {
        let mut path = String::new();
        let floor = self.floor();
        let mut open_to = None;
        for &(from, to, value) in &series.values {
            let (x, end, y) = (self.span.x(from), self.span.x(to), self.y(value));
            if open_to != Some(from) {
                if open_to.is_some() {
                    let _ = write!(path, "V{floor:.1}Z");
                }
                let _ = write!(path, "M{x:.1} {floor:.1}");
            }
            let _ = write!(path, "V{y:.1}H{end:.1}");
            open_to = Some(to);
        }
        if open_to.is_some() {
            let _ = write!(path, "V{floor:.1}Z");
        }
        path
    }

    fn axes(&self, svg: &mut String) {
        for part in [0.0, 0.5, 1.0] {
            let y = self.y(self.most * part);
            let _ = writeln!(
                svg,
                r#"<path class="grid" d="M{LEFT} {y:.1}H{}"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                escaped(&(self.unit)(self.most * part))
            );
        }
        for tick in self.span.ticks() {
            let x = self.span.x(tick);
            let _ = writeln!(
                svg,
                r#"<path class="grid" d="M{x:.1} {TOP}V{}"/><text x="{x:.1}" y="{}" text-anchor="middle">{}</text>"#,
                self.floor(),
                self.height - 6.0,
                self.span.label(tick)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chart(span: Span, values: Vec<(u64, u64, f64)>) -> Chart<'static> {
        Chart {
            id: "c1".to_owned(),
            title: "a < b".to_owned(),
            description: "more".to_owned(),
            span,
            height: 100.0,
            most: 2.0,
            unit: &|value| format!("{value}"),
            areas: vec![Series {
                class: "huge",
                values,
            }],
            marks: vec![(0, 1)],
        }
    }

    #[test]
    fn a_gap_in_time_is_a_gap_in_the_picture() {
        let span = Span::of(0, 7200);
        let drawn = chart(
            span,
            vec![(0, 600, 1.0), (600, 1200, 2.0), (3600, 7200, 1.0)],
        )
        .draw();
        assert_eq!(
            drawn.matches('M').count() - drawn.matches("class=\"grid\"").count(),
            2
        );
        assert!(
            drawn.contains("<title id=\"c1-t\">a &lt; b</title>"),
            "{drawn}"
        );
    }

    #[test]
    fn the_first_minutes_are_not_stretched() {
        let span = Span::of(100_000, 100_300);
        assert_eq!(
            span,
            Span {
                from: 96_700,
                to: 100_300,
                clock: Clock::Utc,
            }
        );
        assert!(span.ticks().count() <= 10);
    }

    #[test]
    fn a_recording_is_labelled_by_its_own_time() {
        let labels = |length: u64| -> Vec<String> {
            let span = Span::recorded(length);
            span.ticks().map(|tick| span.label(tick)).collect()
        };
        assert_eq!(
            labels(1000),
            ["0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1 s"]
        );
        assert_eq!(labels(65_000).last().map(String::as_str), Some("60 s"));
        assert_eq!(
            labels(7_200_000).last().map(String::as_str),
            Some("120 min")
        );
        for length in [0, 1, 99, 1 << 20, 1 << 30, 1 << 40] {
            assert!(labels(length).len() <= 11, "{length}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_drawn_beside_the_picture(first in 0..u64::MAX / 4, length in 0..200_000_u64, value in -1.0..10.0_f64) {
            let span = Span::of(first, first + length);
            let ticks: Vec<u64> = span.ticks().collect();
            prop_assert!(ticks.len() <= 16, "{}", ticks.len());
            for time in [first, first + length].into_iter().chain(ticks) {
                let x = span.x(time);
                prop_assert!((LEFT..=WIDTH - RIGHT).contains(&x), "{x}");
            }
            let y = chart(span, Vec::new()).y(value);
            prop_assert!((TOP..=100.0 - BOTTOM).contains(&y), "{y}");
        }
    }
}
