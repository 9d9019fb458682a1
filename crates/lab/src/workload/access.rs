//! The ways in which workloads use memory.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::report::rate;
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE, PAGE, WORDS_PER_PAGE, cycles};
use crate::random::{Random, below, mix};

/// Of a sparse area, one base page in this many is touched.
pub(super) const SPARSE: usize = 8;
/// Of a `zeros` area, one base page in this many is not zero.
pub(super) const NOT_ZERO: usize = 4;
/// Updates between two looks at the clock.
const BATCH: u64 = 1 << 14;
/// The shortest time over which a rate is given.
const WINDOW: Duration = Duration::from_millis(100);

/// Maps `bytes`, or says what failed.
pub(super) fn map(bytes: usize) -> Result<Area, Error> {
    Area::map(bytes).map_err(|e| Error::io(format!("mapping {bytes} bytes of memory"), e))
}

/// The word that the first touch of a page stores at its start; never zero.
fn mark(seed: u64, page: usize) -> u64 {
    mix(seed ^ page as u64) | 1
}

/// Touches one page in `step` from the first on; returns how many that were.
pub(super) fn touch(area: &mut Area, step: usize, seed: u64) -> usize {
    let mut touched = 0;
    for page in (0..area.pages()).step_by(step) {
        area.words_mut()[page * WORDS_PER_PAGE] = mark(seed, page);
        touched += 1;
    }
    touched
}

/// Touches page by page, timing each; the histogram is in nanoseconds.
pub(super) fn grow(area: &mut Area, seed: u64) -> Result<Histogram<u64>, Error> {
    let pages = area.pages();
    let mut touches: Vec<u64> = Vec::with_capacity(pages);
    // Fault the buffer in before, so that its faults are not among those timed.
    touches.resize(pages, 1);
    let (cycles_before, time_before) = (cycles(), Instant::now());
    for (page, touch) in touches.iter_mut().enumerate() {
        *touch = area.timed_store(page * WORDS_PER_PAGE, mark(seed, page));
    }
    let ns_per_cycle = nanoseconds_per_cycle(cycles_before, time_before);
    let mut histogram =
        Histogram::new(3).map_err(|e| Error::Failed(format!("making a histogram: {e}")))?;
    for touch in touches {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let ns = (touch as f64 * ns_per_cycle) as u64;
        histogram
            .record(ns)
            .map_err(|e| Error::Failed(format!("recording a first touch of {ns} ns: {e}")))?;
    }
    Ok(histogram)
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

/// The weight of a word in [`sum`]: odd, and different for every place, so that a word that moved shows.
fn weight(word: usize) -> u64 {
    (word as u64).wrapping_mul(2).wrapping_add(1)
}

/// The sum of all words, each weighed by its place.
pub(super) fn sum(area: &Area) -> u64 {
    sum_of_pages(area, 1)
}

/// The same over one page in `step` only: the others are not read, and so not mapped if they were not.
pub(super) fn sum_of_pages(area: &Area, step: usize) -> u64 {
    area.words()
        .chunks(WORDS_PER_PAGE)
        .enumerate()
        .step_by(step)
        .fold(0, |sum: u64, (page, words)| {
            let first = page * WORDS_PER_PAGE;
            words.iter().enumerate().fold(sum, |sum, (index, word)| {
                sum.wrapping_add(word.wrapping_mul(weight(first + index)))
            })
        })
}

/// What [`sum`] must be after one page in `step` was touched.
pub(super) fn sum_of_touched(area: &Area, step: usize, seed: u64) -> u64 {
    (0..area.pages()).step_by(step).fold(0, |sum: u64, page| {
        sum.wrapping_add(mark(seed, page).wrapping_mul(weight(page * WORDS_PER_PAGE)))
    })
}

/// What random updates came to.
pub(super) struct Updates {
    pub(super) count: u64,
    pub(super) elapsed: Duration,
    /// By how much [`sum`] must have grown.
    pub(super) added: u64,
    /// Updates per second over the last quarter of the run.
    pub(super) steady: f64,
    /// Seconds since the start, and updates per second since the entry before.
    pub(super) over_time: Vec<(f64, f64)>,
}

/// Adds random values to random words until `stop`.
pub(super) fn update_at_random(area: &mut Area, seed: u64, stop: &mut Stop) -> Updates {
    let mut random = Random::new(mix(seed));
    let words = area.words_mut();
    let (mut count, mut added) = (0, 0_u64);
    // When each window ended, and the updates until then.
    let mut windows = vec![(Duration::ZERO, 0)];
    stop.start();
    let mut window_end = WINDOW;
    while !stop.reached() {
        for _ in 0..BATCH {
            let value = random.word();
            let index = below(value, words.len());
            words[index] = words[index].wrapping_add(value);
            added = added.wrapping_add(value.wrapping_mul(weight(index)));
        }
        count += BATCH;
        let now = stop.elapsed();
        if now >= window_end {
            windows.push((now, count));
            window_end = now + WINDOW;
        }
    }
    let elapsed = stop.elapsed();
    windows.push((elapsed, count));
    Updates {
        count,
        elapsed,
        added,
        steady: steady(&windows),
        over_time: over_time(&windows),
    }
}

/// Updates per second from the last window that ended before three quarters of the time to the end.
fn steady(windows: &[(Duration, u64)]) -> f64 {
    let Some((elapsed, count)) = windows.last() else {
        return 0.0;
    };
    let (since, before) = windows
        .iter()
        .rev()
        .find(|(time, _)| *time <= *elapsed * 3 / 4)
        .copied()
        .unwrap_or_default();
    rate(count - before, *elapsed - since)
}

fn over_time(windows: &[(Duration, u64)]) -> Vec<(f64, f64)> {
    windows
        .windows(2)
        .filter_map(|pair| match pair {
            [(from, before), (to, after)] if to > from => {
                Some((to.as_secs_f64(), rate(after - before, *to - *from)))
            }
            _ => None,
        })
        .collect()
}

/// Reads and writes one word of every page of the first `bytes`, again and again until `stop`; returns the
/// passes made. Adds one and takes it away again in turn: after an even number of passes the content is as
/// before, so it makes one more if need be.
pub(super) fn sweep(area: &mut Area, bytes: usize, stop: &Stop) -> u64 {
    let mut passes = 0_u64;
    while !passes.is_multiple_of(2) || !stop.reached() {
        let change = if passes.is_multiple_of(2) {
            1
        } else {
            u64::MAX
        };
        for page in area.words_mut()[..bytes / 8].chunks_mut(WORDS_PER_PAGE) {
            page[0] = std::hint::black_box(page[0]).wrapping_add(change);
        }
        passes += 1;
    }
    passes
}

/// Half of an area, in whole huge pages, at least one.
pub(super) fn half(area: &Area) -> usize {
    (area.bytes() / 2).next_multiple_of(HUGE_PAGE)
}

/// Base pages in `bytes`.
pub(super) fn pages(bytes: usize) -> u64 {
    (bytes / PAGE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_tells_a_word_that_moved() {
        let mut area = map(HUGE_PAGE).unwrap();
        touch(&mut area, 1, 3);
        assert_eq!(sum(&area), sum_of_touched(&area, 1, 3));
        area.words_mut().swap(0, 512);
        assert_ne!(sum(&area), sum_of_touched(&area, 1, 3));
    }

    #[test]
    fn random_updates_add_up() {
        let mut area = map(HUGE_PAGE).unwrap();
        touch(&mut area, 1, 9);
        let before = sum(&area);
        let updates = update_at_random(&mut area, 9, &mut Stop::new(Some(0.01), false));
        assert!(updates.count > 0);
        assert_eq!(sum(&area), before.wrapping_add(updates.added));
    }

    #[test]
    fn the_steady_rate_is_that_of_the_last_quarter() {
        let at = Duration::from_secs;
        let windows = [(at(0), 0), (at(6), 600), (at(8), 900)];
        assert!((steady(&windows) - 150.0).abs() < 1e-9);
        assert!((steady(&windows[..1])).abs() < 1e-9);
        assert_eq!(over_time(&windows), [(6.0, 100.0), (8.0, 150.0)]);
    }

    #[test]
    fn a_sweep_leaves_the_content() {
        let mut area = map(2 * HUGE_PAGE).unwrap();
        touch(&mut area, 2, 5);
        let before = sum(&area);
        assert!(sweep(&mut area, HUGE_PAGE, &Stop::new(Some(0.005), false)) > 0);
        assert_eq!(sum(&area), before);
    }
}
