//! What a workload says about itself: two JSON lines, or two lines of text.

use std::io::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::bytes;
use crate::error::Error;
use crate::mapping::Area;
use crate::resident::{self, Resident};

/// How the pages of an area are used after `ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accessed {
    /// All of them, again and again.
    #[serde(rename = "every page")]
    EveryPage,
    /// None.
    #[serde(rename = "none")]
    None,
}

/// One piece of the workload's memory, and the truth about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaReport {
    /// What the workload calls it.
    pub name: String,
    /// Its first address, 2 MiB-aligned.
    pub start: u64,
    /// Its size in bytes, a multiple of 2 MiB.
    pub bytes: u64,
    /// Base pages it wrote to, evenly spread over the regions: those with a physical page, as long as no huge
    /// page maps any of the area.
    pub mapped_pages: u64,
    /// Of `bytes`, the base pages that hold only zeros, with a physical page or without.
    pub zero_pages: u64,
    /// How it is used from now on.
    pub accessed: Accessed,
}

impl AreaReport {
    /// The report on an area of which `touched` base pages hold something.
    #[must_use]
    pub fn new(name: &str, area: &Area, touched: usize, accessed: Accessed) -> Self {
        AreaReport {
            name: name.into(),
            start: area.start(),
            bytes: area.bytes() as u64,
            mapped_pages: touched as u64,
            zero_pages: (area.pages() - touched) as u64,
            accessed,
        }
    }
}

/// Its memory is as it says, and the timed run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Its process.
    pub pid: u32,
    /// Which workload.
    pub workload: String,
    /// The seed it runs with.
    pub seed: u64,
    /// All of its memory that matters.
    pub areas: Vec<AreaReport>,
}

/// Time of first touches of base pages, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstTouch {
    /// Touches timed.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl FirstTouch {
    /// Summarises a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |percentile| histogram.value_at_percentile(percentile);
        FirstTouch {
            count: histogram.len(),
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p99_9_ns: at(99.9),
            p99_99_ns: at(99.99),
            max_ns: histogram.max(),
        }
    }
}

/// The timed run is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Seconds from `ready` to the end of the run.
    pub seconds: f64,
    /// Updates, passes or whatever the workload counts.
    pub operations: u64,
    /// Over the whole run.
    pub operations_per_second: f64,
    /// Over its last quarter.
    pub steady_operations_per_second: f64,
    /// Operations per second in each tenth of a second or longer, in order.
    pub operations_per_second_over_time: Vec<(f64, f64)>,
    /// A sum over all words and where they stand, as 16 hexadecimal digits.
    pub checksum: String,
    /// Whether the memory holds what was written there.
    pub verified: bool,
    /// Bytes in memory before it ended.
    pub resident_bytes: u64,
    /// Bytes in huge pages before it ended.
    pub huge_bytes: u64,
    /// Time of first touches, where they were timed.
    pub first_touch: Option<FirstTouch>,
}

impl Done {
    /// A run of `elapsed` that did `operations` and whose memory held what was written.
    pub(super) fn new(elapsed: Duration, operations: u64) -> Result<Self, Error> {
        let Resident {
            resident_bytes,
            huge_bytes,
        } = resident::of_self()?;
        let rate = rate(operations, elapsed);
        Ok(Done {
            seconds: elapsed.as_secs_f64(),
            operations,
            operations_per_second: rate,
            steady_operations_per_second: rate,
            verified: true,
            resident_bytes,
            huge_bytes,
            ..Done::default()
        })
    }

    /// The same, with the checksum found and whether it is the one expected.
    pub(super) fn checked(mut self, found: u64, expected: u64) -> Self {
        self.checksum = format!("{found:016x}");
        self.verified = found == expected;
        self
    }
}

/// Operations per second; 0 for no time at all.
#[allow(clippy::cast_precision_loss)]
pub(super) fn rate(operations: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    operations as f64 / elapsed.as_secs_f64()
}

/// One line of a workload's standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first.
    Ready(Ready),
    /// The last.
    Done(Done),
}

/// Prints a workload's events.
pub(super) struct Reporter {
    workload: &'static str,
    seed: u64,
    json: bool,
}

impl Reporter {
    pub(super) fn new(workload: &'static str, seed: u64, json: bool) -> Self {
        Reporter {
            workload,
            seed,
            json,
        }
    }

    /// Says that the memory is as `areas` tell.
    pub(super) fn ready(&self, areas: Vec<AreaReport>) -> Result<(), Error> {
        let ready = Ready {
            pid: std::process::id(),
            workload: self.workload.into(),
            seed: self.seed,
            areas,
        };
        let text = ready_text(&ready);
        self.print(&Event::Ready(ready), &text)
    }

    /// Says what the run came to.
    pub(super) fn done(&self, done: Done) -> Result<(), Error> {
        let text = done_text(&done);
        self.print(&Event::Done(done), &text)
    }

    fn print(&self, event: &Event, text: &str) -> Result<(), Error> {
        let mut line = if self.json {
            serde_json::to_string(event).map_err(|e| Error::Failed(e.to_string()))?
        } else {
            text.into()
        };
        line.push('\n');
        let mut out = std::io::stdout().lock();
        // With its end of line in one piece: children write to the same pipe.
        out.write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|e| Error::io("writing to standard output", e))
    }
}

fn ready_text(ready: &Ready) -> String {
    let mut text = format!("{}: pid {}", ready.workload, ready.pid);
    for area in &ready.areas {
        text.push_str(&format!(
            "; {} at {:#x}, {} with {} touched",
            area.name,
            area.start,
            bytes::format(area.bytes),
            bytes::format(area.mapped_pages * 4096),
        ));
    }
    text
}

fn done_text(done: &Done) -> String {
    let mut text = format!(
        "{} operations in {:.2} s, {:.0} a second, {:.0} in the last quarter; resident {}, huge {}; data {}",
        done.operations,
        done.seconds,
        done.operations_per_second,
        done.steady_operations_per_second,
        bytes::format(done.resident_bytes),
        bytes::format(done.huge_bytes),
        if done.verified { "right" } else { "WRONG" },
    );
    if let Some(touch) = done.first_touch {
        text.push_str(&format!(
            "; first touch {} ns median, {} ns at 99.9 %, {} ns at most",
            touch.p50_ns, touch.p99_9_ns, touch.max_ns
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart_by_name() {
        let line = serde_json::to_string(&Event::Done(Done::default())).unwrap();
        assert!(
            line.starts_with(r#"{"event":"done","seconds":0.0"#),
            "{line}"
        );
        assert_eq!(
            serde_json::from_str::<Event>(&line).unwrap(),
            Event::Done(Done::default())
        );
    }
}
