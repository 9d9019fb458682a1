//! First touches of pages, each timed.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::access::mark;
use super::report::FirstTouch;
use crate::error::Error;
use crate::mapping::{Area, WORDS_PER_PAGE, cycles};

/// The times of first touches, in nanoseconds.
pub(super) struct FirstTouches(Histogram<u64>);

impl FirstTouches {
    /// None yet.
    pub(super) fn new() -> Result<Self, Error> {
        Histogram::new(3)
            .map(FirstTouches)
            .map_err(|e| Error::Failed(format!("making a histogram: {e}")))
    }

    /// How many were timed.
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Their percentiles.
    pub(super) fn summary(&self) -> FirstTouch {
        FirstTouch::of(&self.0)
    }

    /// Touches an area page by page, timing each touch.
    pub(super) fn grow(&mut self, area: &mut Area, seed: u64) -> Result<(), Error> {
        let pages = area.pages();
        self.timed(pages, |touches| {
            for page in 0..pages {
                touches.push(area.timed_store(page * WORDS_PER_PAGE, mark(seed, page)));
            }
        })
    }

    /// Has `work` push the cycles that each touch took, at most `most` of them, and takes them in.
    pub(super) fn timed(
        &mut self,
        most: usize,
        work: impl FnOnce(&mut Vec<u64>),
    ) -> Result<(), Error> {
        // Written before, so that its own faults are not among those timed.
        let mut touches: Vec<u64> = vec![1; most];
        touches.clear();
        let (cycles_before, time_before) = (cycles(), Instant::now());
        work(&mut touches);
        let ns_per_cycle = nanoseconds_per_cycle(cycles_before, time_before);
        for touch in touches {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss
            )]
            let ns = (touch as f64 * ns_per_cycle) as u64;
            self.0
                .record(ns)
                .map_err(|e| Error::Failed(format!("recording a first touch of {ns} ns: {e}")))?;
        }
        Ok(())
    }
}

/// How long a cycle of the time stamp counter takes, from what both clocks show since a moment before. Waits
/// until that is ten milliseconds, for an error well under one percent.
#[allow(clippy::cast_precision_loss)]
fn nanoseconds_per_cycle(cycles_before: u64, time_before: Instant) -> f64 {
    while time_before.elapsed() < Duration::from_millis(10) {
        std::hint::spin_loop();
    }
    let passed = cycles().wrapping_sub(cycles_before).max(1);
    time_before.elapsed().as_nanos() as f64 / passed as f64
}

#[cfg(test)]
mod tests {
    use super::super::access::{map, sum, sum_of_touched};
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn every_page_is_touched_and_timed() {
        let mut area = map(HUGE_PAGE).unwrap();
        let mut touches = FirstTouches::new().unwrap();
        touches.grow(&mut area, 3).unwrap();
        assert_eq!(touches.count(), 512);
        assert!(touches.summary().max_ns > 0);
        assert_eq!(sum(&area), sum_of_touched(&area, 1, 3));
    }
}
