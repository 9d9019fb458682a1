//! `stride`: visits in steps of 32 KiB from the first word on, then in the same steps from the second one on, and so on
//! (MEGA, section 4.2, table 6): one page in eight is used at a time, and hardly any TLB entry twice.

use std::time::Instant;

use super::access::{map, ready, sum, sum_of_touched, touch, weight};
use super::arguments::Common;
use super::report::{Done, Reporter};
use super::slices::{self, Work, until};
use super::stop::Stop;
use crate::error::Error;

/// Words between two visits: 32 KiB.
const STEP: usize = (32 << 10) / 8;
/// Visits between two looks at the clock.
const BATCH: u64 = 1 << 14;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(common.size())?;
    touch(&mut area, 1, common.seed);
    ready("stride", &area, common, reporter)?;
    let before = sum_of_touched(&area, 1, common.seed);
    let mut visits = Visits::new(area.words_mut());
    let done = slices::run(&mut visits, 1, reporter, stop)?;
    let expected = before.wrapping_add(visits.added);
    Ok(done.checked(sum(&area), expected))
}

/// Adds one to each word visited.
struct Visits<'a> {
    words: &'a mut [u64],
    /// The word visited next.
    next: usize,
    /// By how much the sum of all words, each weighed by its place, must have grown.
    added: u64,
}

impl<'a> Visits<'a> {
    fn new(words: &'a mut [u64]) -> Self {
        Visits {
            words,
            next: 0,
            added: 0,
        }
    }

    fn visit(&mut self) {
        let word = &mut self.words[self.next];
        *word = word.wrapping_add(1);
        self.added = self.added.wrapping_add(weight(self.next));
        self.next += STEP;
        if self.next >= self.words.len() {
            self.next = (self.next + 1) % STEP;
        }
    }
}

impl Work for Visits<'_> {
    /// In one thread, however many there are to be.
    fn work(&mut self, _threads: usize, end: Instant) -> u64 {
        until(end, || {
            (0..BATCH).for_each(|_| self.visit());
            BATCH
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn every_word_is_visited_once_in_turn() {
        let mut area = map(HUGE_PAGE).unwrap();
        let mut visits = Visits::new(area.words_mut());
        for _ in 0..65 {
            visits.visit();
        }
        assert_eq!(visits.words[..3], [1, 1, 0]);
        assert_eq!(visits.words[STEP..STEP + 2], [1, 0]);
        for _ in 65..HUGE_PAGE / 8 {
            visits.visit();
        }
        let added = visits.added;
        assert!(area.words().iter().all(|word| *word == 1));
        assert_eq!(sum(&area), added);
        area.words_mut()[9] = 0;
        assert_ne!(sum(&area), added);
    }
}
