//! What a workload says about itself: JSON lines, or lines of text. Two, and one for each rest.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::Sender;
use std::time::Duration;

use hdrhistogram::Histogram;
use mega_core::bytes;
use serde::{Deserialize, Serialize};

use super::rates::{Rates, rate};
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

/// It has done its last slice for now, and rests until it is told to work or to end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resting {
    /// Seconds since `ready`: stretches of work that begin later were done after this rest.
    pub seconds: f64,
}

/// Times of many like things, such as first touches of base pages, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstTouch {
    /// How many were timed.
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

/// What several threads came to over the same memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllThreads {
    /// How many.
    pub threads: usize,
    /// Of all of them together, in each slice of the run that was theirs.
    pub operations_per_second_over_time: Rates,
}

/// The timed run is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Seconds from `ready` to the end of the run.
    pub seconds: f64,
    /// Updates, passes or whatever the workload counts; where one thread and several took turns, those of the one.
    pub operations: u64,
    /// Over the whole run.
    pub operations_per_second: f64,
    /// Over its last quarter.
    pub steady_operations_per_second: f64,
    /// In each twentieth of a second or longer.
    pub operations_per_second_over_time: Rates,
    /// What several threads came to, where they took turns with one.
    pub all_threads: Option<AllThreads>,
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
    /// Time of mapping and unmapping memory beside the work, where it was taken.
    pub map_time: Option<FirstTouch>,
}

impl Done {
    /// A run of `elapsed` that did `operations` and whose memory held what was written.
    pub(super) fn new(elapsed: Duration, operations: u64) -> Result<Self, Error> {
        let Resident {
            resident_bytes,
            huge_bytes,
            ..
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

    /// Operations per second over the last `span` of the run, in whole entries of
    /// `operations_per_second_over_time`; of the last one where `span` is shorter, of the whole run where there is none.
    #[must_use]
    pub fn rate_over_last(&self, span: Duration) -> f64 {
        self.rate_since(self.seconds - span.as_secs_f64())
    }

    /// The same of all threads together; `None` where one worked alone.
    #[must_use]
    pub fn all_threads_rate_over_last(&self, span: Duration) -> Option<f64> {
        self.all_threads_rate_since(self.seconds - span.as_secs_f64())
    }

    /// Operations per second over the entries of `operations_per_second_over_time` that begin `from` seconds after `ready`
    /// or later; of the last one where none does, of the whole run where there is none.
    #[must_use]
    pub fn rate_since(&self, from: f64) -> f64 {
        self.operations_per_second_over_time
            .since(from)
            .unwrap_or(self.operations_per_second)
    }

    /// The same of all threads together; `None` where one worked alone.
    #[must_use]
    pub fn all_threads_rate_since(&self, from: f64) -> Option<f64> {
        self.all_threads
            .as_ref()?
            .operations_per_second_over_time
            .since(from)
    }

    /// This, with the checksum found and whether it is the one expected.
    pub(super) fn checked(mut self, found: u64, expected: u64) -> Self {
        self.checksum = format!("{found:016x}");
        self.verified &= found == expected;
        self
    }

    /// This, with whether the results were right besides.
    pub(super) fn and(mut self, right: bool) -> Self {
        self.verified &= right;
        self
    }
}

/// One line of a workload's standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first.
    Ready(Ready),
    /// Any number of times in between, where it is told to rest.
    Resting(Resting),
    /// The last.
    Done(Done),
}

/// Sends on the events that a program prints, as far as they are understood, until its output ends or nobody listens.
pub(crate) fn forward_events(output: impl Read, events: &Sender<Event>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(event) = serde_json::from_str(&line) else {
            continue;
        };
        if events.send(event).is_err() {
            return;
        }
    }
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

    /// Says that it rests from now on, so long after `ready`.
    pub(super) fn resting(&self, elapsed: Duration) -> Result<(), Error> {
        let seconds = elapsed.as_secs_f64();
        let text = format!("resting, {seconds:.2} s after it was ready");
        self.print(&Event::Resting(Resting { seconds }), &text)
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
    let all = Duration::from_secs_f64(done.seconds);
    if let (Some(threads), Some(rate)) = (&done.all_threads, done.all_threads_rate_over_last(all)) {
        text.push_str(&format!(
            "; {rate:.0} a second in {} threads",
            threads.threads
        ));
    }
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
