//! `chunks`: memory in pieces of 32 MiB. It touches all of it, and then uses one piece in six at random again and again
//! (MEGA, section 4.2, table 4).

use std::time::Instant;

use super::access::{advise, map, sum, sum_of_touched, touch, weight};
use super::arguments::Common;
use super::report::{Accessed, AreaReport, Done, Reporter};
use super::slices::{self, Work, until};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE};
use crate::random::{Random, below, mix};

/// One piece in this many is used.
const USED: usize = 6;
/// The largest piece.
const PIECE: usize = 32 << 20;
/// Updates between two looks at the clock.
const BATCH: u64 = 1 << 14;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut pieces = pieces(common.size())?;
    let mut reports = Vec::with_capacity(pieces.len());
    for (number, area) in pieces.iter_mut().enumerate() {
        let touched = touch(area, 1, common.seed);
        advise(area, common)?;
        let (name, accessed) = if number % USED == 0 {
            ("used", Accessed::EveryPage)
        } else {
            ("idle", Accessed::None)
        };
        reports.push(AreaReport::new(name, area, touched, accessed));
    }
    reporter.ready(reports)?;
    let before = total(
        pieces
            .iter()
            .map(|area| sum_of_touched(area, 1, common.seed)),
    );
    let mut updates = Updates::new(&mut pieces, common.seed);
    let done = slices::run(&mut updates, 1, reporter, stop)?;
    let expected = before.wrapping_add(updates.added);
    Ok(done.checked(total(pieces.iter().map(sum)), expected))
}

/// Pieces of 32 MiB, or of less where those would not be six, that are at most `bytes` together.
fn pieces(bytes: usize) -> Result<Vec<Area>, Error> {
    let piece = (bytes / USED).min(PIECE) / HUGE_PAGE * HUGE_PAGE;
    let piece = piece.max(HUGE_PAGE);
    (0..(bytes / piece).max(1)).map(|_| map(piece)).collect()
}

fn total(sums: impl Iterator<Item = u64>) -> u64 {
    sums.fold(0, u64::wrapping_add)
}

/// Adds random values to random words of the pieces in use.
struct Updates<'a> {
    used: Vec<&'a mut [u64]>,
    random: Random,
    /// By how much the sums of all pieces together must have grown.
    added: u64,
}

impl<'a> Updates<'a> {
    fn new(pieces: &'a mut [Area], seed: u64) -> Self {
        Updates {
            used: pieces
                .iter_mut()
                .step_by(USED)
                .map(Area::words_mut)
                .collect(),
            random: Random::new(mix(seed)),
            added: 0,
        }
    }

    fn update(&mut self) {
        let value = self.random.word();
        let piece = below(value, self.used.len());
        let words = &mut *self.used[piece];
        // Mixed again, as the piece follows from the high bits already.
        let index = below(mix(value), words.len());
        words[index] = words[index].wrapping_add(value);
        self.added = self.added.wrapping_add(value.wrapping_mul(weight(index)));
    }
}

impl Work for Updates<'_> {
    /// In one thread, however many there are to be.
    fn work(&mut self, _threads: usize, end: Instant) -> u64 {
        until(end, || {
            (0..BATCH).for_each(|_| self.update());
            BATCH
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_piece_in_six_is_used() {
        let mut pieces = pieces(7 * HUGE_PAGE + 5).unwrap();
        assert_eq!(pieces.len(), 7);
        let mut updates = Updates::new(&mut pieces, 3);
        assert!(updates.work(1, Instant::now() + Duration::from_millis(5)) > 0);
        let added = updates.added;
        assert_eq!(total(pieces.iter().map(sum)), added);
        let used: Vec<usize> = (0..7).filter(|piece| sum(&pieces[*piece]) != 0).collect();
        assert_eq!(used, [0, 6]);
        pieces[6].words_mut()[5] ^= 2;
        assert_ne!(total(pieces.iter().map(sum)), added);
    }

    #[test]
    fn pieces_are_no_larger_than_the_papers() {
        let large = pieces(224 << 20).unwrap();
        assert_eq!((large.len(), large[0].bytes()), (7, PIECE));
        let small = pieces(1).unwrap();
        assert_eq!((small.len(), small[0].bytes()), (1, HUGE_PAGE));
    }
}
