//! `random`: updates random words all over dense memory, far past the TLB's reach, as HPC Challenge's `RandomAccess`
//! does. Each thread has a part of the memory.

use std::time::Instant;

use super::access::{map, ready, sum, sum_of_touched, touch, weight};
use super::arguments::{Common, Parallel};
use super::report::{Done, Reporter};
use super::slices::{self, Work, in_threads, until};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::Area;
use crate::random::{Random, below, mix};

/// Updates between two looks at the clock.
const BATCH: u64 = 1 << 14;

pub(super) fn run(
    parallel: &Parallel,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let common = &parallel.common;
    run_over(common.size(), common, parallel.threads, reporter, stop)
}

/// The same over `bytes`.
pub(super) fn run_over(
    bytes: usize,
    common: &Common,
    threads: usize,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(bytes)?;
    touch(&mut area, 1, common.seed);
    ready("random", &area, common, reporter)?;
    update(&mut area, threads, common.seed, reporter, stop)
}

/// Updates an area, of which every page was touched with the seed, until `stop`, then checks its sum.
pub(super) fn update(
    area: &mut Area,
    threads: usize,
    seed: u64,
    reporter: &Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let before = sum_of_touched(area, 1, seed);
    let mut updates = Updates::new(area, threads, seed);
    let done = slices::run(&mut updates, threads, reporter, stop)?;
    let added = updates.added();
    Ok(done.checked(sum(area), before.wrapping_add(added)))
}

/// Adds random values to random words.
pub(super) struct Updates<'a> {
    words: &'a mut [u64],
    streams: Vec<Stream>,
}

/// What one thread adds. In cache lines of its own, as the next one is another thread's; processors fetch them in pairs.
#[repr(align(128))]
struct Stream {
    random: Random,
    /// By how much the sum of all words, each weighed by its place, must have grown.
    added: u64,
}

impl<'a> Updates<'a> {
    /// Updates by up to that many threads.
    pub(super) fn new(area: &'a mut Area, threads: usize, seed: u64) -> Self {
        let stream = |thread| Stream {
            random: Random::new(mix(seed.wrapping_add(thread))),
            added: 0,
        };
        Updates {
            words: area.words_mut(),
            streams: (0..threads as u64).map(stream).collect(),
        }
    }

    /// By how much [`sum`] must have grown.
    pub(super) fn added(&self) -> u64 {
        let add = |sum: u64, stream: &Stream| sum.wrapping_add(stream.added);
        self.streams.iter().fold(0, add)
    }
}

impl Work for Updates<'_> {
    fn work(&mut self, threads: usize, end: Instant) -> u64 {
        let share = self.words.len().div_ceil(threads);
        let parts = self.words.chunks_mut(share).zip(&mut self.streams);
        in_threads(parts.enumerate(), |(part, (words, stream))| {
            until(end, || stream.update(words, part * share))
        })
    }
}

impl Stream {
    /// A batch of updates of `words`, before which there are `before` others.
    fn update(&mut self, words: &mut [u64], before: usize) -> u64 {
        for _ in 0..BATCH {
            let value = self.random.word();
            let index = below(value, words.len());
            words[index] = words[index].wrapping_add(value);
            let weighed = value.wrapping_mul(weight(before + index));
            self.added = self.added.wrapping_add(weighed);
        }
        BATCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn updates_add_up_and_a_lost_one_shows() {
        let mut area = map(2 * HUGE_PAGE).unwrap();
        touch(&mut area, 1, 9);
        let before = sum(&area);
        let mut updates = Updates::new(&mut area, 2, 9);
        let done = slices::run(
            &mut updates,
            2,
            &Reporter::new("test", 1, true),
            &mut Stop::new(Some(0.02), false),
        )
        .unwrap();
        let after = before.wrapping_add(updates.added());
        assert!(done.operations > 0);
        assert_eq!(sum(&area), after);
        area.words_mut()[1000] ^= 1;
        assert_ne!(sum(&area), after);
    }
}
