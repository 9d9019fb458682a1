//! A program with a hot part: it goes over a tenth of its memory twenty times a second, and over all of it every few seconds; less often
//! where it has so much that passes take long, since it rests as long after each.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Pass};

/// The hot part is one in so many of a program's pages.
pub(super) const HOT: u64 = 10;
/// Between two passes over it: what memory is far too seldom for to be anybody's working set, and enough for it to be used in every
/// look of a manager.
pub(super) const BETWEEN: Duration = Duration::from_millis(50);

/// The program.
pub(in super::super) struct Busy {
    filling: Filling,
    /// Passes over the hot part for each over all.
    for_each: u32,
    /// Once all is filled.
    passes: Option<Passes>,
}

/// What it goes over.
struct Passes {
    all: Pass,
    hot: Pass,
    /// Passes over the hot part that are left before the next one over all.
    left: u32,
}

impl Busy {
    /// With so much memory, by pieces of so many bytes. It goes over all of it about once in a time, or less often.
    pub(in super::super) fn new(bytes: u64, piece: u64, all: Duration) -> Self {
        let for_each = all.as_nanos() / BETWEEN.as_nanos();
        Busy {
            filling: Filling::new(bytes, piece),
            for_each: u32::try_from(for_each).unwrap_or(u32::MAX).max(1),
            passes: None,
        }
    }
}

/// The ranges of the first bytes of some pieces.
pub(super) fn first(pieces: &[(u64, u64)], mut bytes: u64) -> Vec<(u64, u64)> {
    let mut taken = Vec::new();
    for &(start, size) in pieces {
        let part = size.min(bytes);
        bytes -= part;
        if part > 0 {
            taken.push((start, part));
        }
    }
    taken
}

impl Program for Busy {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(passes) = &mut self.passes else {
            if self.filling.go_on(memory)? {
                let mut pieces: Vec<(u64, u64)> = self.filling.pieces().collect();
                pieces.sort_unstable();
                let all: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
                let hot = (all / HOT).next_multiple_of(BASE_PAGE_SIZE);
                self.passes = Some(Passes {
                    hot: Pass::new(first(&pieces, hot).into_iter()),
                    all: Pass::new(pieces.into_iter()),
                    left: 0,
                });
            }
            return Ok(Work::GoesOn);
        };
        if passes.left == 0 {
            if passes.all.go_on(memory)? {
                passes.left = self.for_each;
            }
            return Ok(Work::GoesOn);
        }
        if passes.hot.go_on(memory)? {
            passes.left -= 1;
            return Ok(Work::Rests(BETWEEN));
        }
        Ok(Work::GoesOn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_pieces() {
        let pieces = [(100, 10), (200, 10), (300, 10)];
        assert_eq!(first(&pieces, 15), [(100, 10), (200, 5)]);
        assert_eq!(first(&pieces, 10), [(100, 10)]);
        assert_eq!(first(&pieces, 99), pieces);
    }
}
