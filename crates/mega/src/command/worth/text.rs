//! What huge pages would gain, in words and in a plot of characters.

use std::fmt::Write;

use mega_core::bytes;
use mega_core::table::Table;
use mega_core::worth::{CurvePoint, Estimate, Worth};

use crate::report::gain::{percent, seconds, share};
use crate::report::{Obstacle, WorthReport, sizes_in_words};

/// Characters of the longest bar of the plot.
const BAR: usize = 40;
/// The shares of the memory that the plot shows.
const SHOWN: [f64; 6] = [0.05, 0.1, 0.25, 0.5, 0.75, 1.0];
/// The share of its CPU time below which a program would not notice what it gains.
const LITTLE: f64 = 0.02;
/// Mappings listed at most.
const MOST_MAPPINGS: usize = 10;

pub(super) fn in_words(report: &WorthReport) -> String {
    let worth = &report.worth;
    let mut text = format!(
        "process {} ({}), measured for {:.1} s, in which it used {:.0} % of a CPU\n\n",
        report.pid,
        report.name,
        report.seconds,
        worth.cpu_share * 100.0
    );
    text += &gain(worth);
    if !worth.rested() {
        text += &format!(
            "It touches {} pages of base-mapped memory a second of its CPU time, over {}.\n",
            count(worth.touches_per_second),
            bytes::format(worth.working_set)
        );
    }
    if worth.saved_share.high >= LITTLE {
        text += "The rate does not tell how far touches wait for each other: the low end is for touches that overlap.\n";
    }
    if let Some(giant) = worth.saved_by_giant_share {
        text += &format!(
            "Giant pages in place of its huge ones would save {}.\n",
            share(giant)
        );
    }
    if worth.saved_share.high >= LITTLE {
        text += &format!("\n{}", curve(worth));
    }
    text += &format!("\n{}", mappings(worth));
    if let Some(sizes) = sizes_in_words(report.host_page, report.runs_guest) {
        text += &format!("{sizes}\n");
    }
    text += &obstacles(&report.obstacles);
    text
}

/// The one sentence that all of it is for.
pub(in super::super) fn gain(worth: &Worth) -> String {
    if worth.rested() {
        return "It rested while it was measured: what huge pages would gain it shows only at work. Measure it again then.\n"
            .to_owned();
    }
    if worth.promotable == 0 {
        return "No memory of it could be made huge: it has no whole 2 MiB on base pages.\n"
            .to_owned();
    }
    if worth.saved_share.high < LITTLE {
        return format!(
            "Huge pages would gain it little or nothing: they would save {} of its CPU time.\n",
            share(worth.saved_share)
        );
    }
    if !worth.gains() {
        return format!(
            "Huge pages may gain it something or nothing: they would save {} of its CPU time. Measure for longer (--seconds), and calibrate while the machine is quiet, to be more sure.\n",
            share(worth.saved_share)
        );
    }
    let mut text = format!(
        "Huge pages would save {} of its CPU time: it would run {:.2} times as fast where it waits for nothing else.\n\
         {:.0} % of that comes from {} of the {} that could be made huge.\n",
        share(worth.saved_share),
        worth.speed_up.value,
        mega_core::worth::prediction::MOST * 100.0,
        bytes::format(worth.most),
        bytes::format(worth.promotable),
    );
    text += &format!(
        "Making them all huge costs {} of CPU here",
        seconds(worth.cost_cpu_seconds)
    );
    text += &match worth.payback_seconds {
        Some(payback) => format!(" and is paid back in {}.\n", seconds(payback)),
        None => ".\n".to_owned(),
    };
    text
}

/// A rate with its interval, in thousands or millions.
fn count(rate: Estimate) -> String {
    let (unit, name) = match rate.value {
        value if value >= 1e6 => (1e6, "million "),
        value if value >= 1e3 => (1e3, "thousand "),
        _ => (1.0, ""),
    };
    let scaled = rate.scaled(1.0 / unit);
    let decimals = if scaled.value < 10.0 { 2 } else { 1 };
    format!(
        "{:.decimals$} {name}({:.decimals$} to {:.decimals$})",
        scaled.value, scaled.low, scaled.high
    )
}

/// The share of the gain for shares of the memory, those touched most first.
fn curve(worth: &Worth) -> String {
    let mut text = String::from("Made huge, those touched most first, and what that gains:\n");
    for promoted in SHOWN {
        let gain = gain_of(&worth.curve, promoted);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "0 to BAR"
        )]
        let bar = (gain.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>4.0} %  {:<BAR$}  {:>3.0} %",
            promoted * 100.0,
            "#".repeat(bar),
            gain * 100.0
        );
    }
    text
}

/// The share of the gain that a share of the memory gives.
fn gain_of(curve: &[CurvePoint], promoted: f64) -> f64 {
    let mut before = CurvePoint {
        promoted: 0.0,
        gain: 0.0,
    };
    for point in curve {
        if point.promoted >= promoted {
            let width = point.promoted - before.promoted;
            let part = if width > 0.0 {
                (promoted - before.promoted) / width
            } else {
                1.0
            };
            return before.gain + part * (point.gain - before.gain);
        }
        before = *point;
    }
    before.gain
}

fn mappings(worth: &Worth) -> String {
    let mut sorted: Vec<_> = worth.mappings.iter().collect();
    sorted.sort_by(|one, other| other.saved_share.total_cmp(&one.saved_share));
    if sorted.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["addresses", "resident", "huge", "would save", "name"]);
    for mapping in sorted.iter().take(MOST_MAPPINGS) {
        table.row(vec![
            format!("{:x}-{:x}", mapping.range.start, mapping.range.end),
            bytes::format(mapping.resident),
            bytes::format(mapping.huge),
            format!("{} %", percent(mapping.saved_share)),
            mapping.name.clone(),
        ]);
    }
    let mut text = table.to_string();
    if sorted.len() > MOST_MAPPINGS {
        text += &format!("... and {} more\n", sorted.len() - MOST_MAPPINGS);
    }
    text
}

fn obstacles(obstacles: &[Obstacle]) -> String {
    let mut text = String::new();
    for obstacle in obstacles {
        let place = obstacle
            .start
            .map_or(String::new(), |start| format!(", from {start:x} on"));
        let _ = writeln!(
            text,
            "In the way of {}{place}: {}. What to do: {}.",
            bytes::format(obstacle.length),
            obstacle.why,
            obstacle.remedy
        );
    }
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use mega_core::MemoryObservation;

    use super::super::obstacles::tests::worth;
    use super::*;
    use crate::report::{HostPage, Memory, VERSION};

    /// Of a process that was measured for 3 s.
    pub(in super::super) fn report(worth: Worth) -> WorthReport {
        WorthReport {
            version: VERSION,
            pid: 7,
            name: "gups".to_owned(),
            seconds: 3.0,
            worth,
            obstacles: vec![Obstacle {
                start: Some(0x1000),
                length: 2 << 20,
                reason: "r",
                remedy: "do this".to_owned(),
                why: "so".to_owned(),
            }],
            memory: Memory::from(&MemoryObservation::default()),
            host_page: None,
            runs_guest: false,
        }
    }

    #[test]
    fn the_gain_is_told_in_one_sentence() {
        let text = in_words(&report(worth()));
        for part in [
            "Huge pages would save 31 % (27 to 35 %) of its CPU time: it would run 1.45 times as fast",
            "90 % of that comes from 1 GiB of the 4 GiB",
            "costs 4.1 s of CPU here and is paid back in 13 s",
            "31.0 million (31.0 to 31.0)",
            "the low end is for touches that overlap",
            "In the way of 2 MiB, from 1000 on: so. What to do: do this.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn whose_page_sizes_these_are_is_said_in_a_guest_and_of_one() {
        let mut report = report(worth());
        assert!(!in_words(&report).contains("page sizes"));
        report.host_page = Some(HostPage::Unknown);
        report.runs_guest = true;
        let text = in_words(&report);
        let both = "page sizes are this guest's, host unknown; page sizes are the host's behind a guest's memory, guest unknown\n";
        assert!(text.contains(both), "{text}");
    }

    #[test]
    fn nothing_to_gain_is_said_so() {
        let mut nothing = worth();
        nothing.saved_share = Estimate {
            value: 0.004,
            low: 0.0,
            high: 0.013,
        };
        let text = in_words(&report(nothing));
        assert!(
            text.contains("little or nothing: they would save 0.4 % (0.0 to 1.3 %)"),
            "{text}"
        );
        assert!(!text.contains("paid back") && !text.contains("overlap"));
        let mut unsure = worth();
        unsure.saved_share.low = 0.0;
        let text = in_words(&report(unsure));
        assert!(
            text.contains("something or nothing: they would save 31 % (0.0 to 35 %)"),
            "{text}"
        );
        let mut none = worth();
        none.promotable = 0;
        assert!(in_words(&report(none)).contains("no whole 2 MiB"));
        let mut resting = worth();
        resting.cpu_share = 0.0;
        let text = in_words(&report(resting));
        assert!(text.contains("It rested while it was measured"), "{text}");
        assert!(!text.contains("It touches"), "{text}");
    }

    #[test]
    fn the_curve_is_read_between_its_points() {
        let curve = worth().curve;
        assert!((gain_of(&curve, 0.125) - 0.45).abs() < 1e-9);
        assert!((gain_of(&curve, 1.0) - 1.0).abs() < 1e-9);
        assert!((gain_of(&[], 0.5)).abs() < 1e-9);
    }
}
