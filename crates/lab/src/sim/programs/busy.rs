//! A program with a hot part: it goes over a tenth of its memory twenty times a second, and over all of it every few seconds; less often
//! where it has so much that passes take long, since it rests as long after each.

use std::cell::Cell;
use std::rc::Rc;
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
    /// How many passes over the hot part each one stands for.
    stands_for: Rc<Cell<u64>>,
    /// Once all is filled.
    passes: Option<Passes>,
}

/// What it goes over.
struct Passes {
    all: Pass,
    hot: Pass,
    /// Passes over the hot part that are left before the next one over all.
    left: u32,
    /// Rows of the hot part that this pass went over, and how many they stand for.
    rows: u64,
    stand_for: u64,
}

impl Busy {
    /// With so much memory, by pieces of so many bytes. It goes over all of it about once in a time, or less often.
    pub(in super::super) fn new(bytes: u64, piece: u64, all: Duration) -> Self {
        let for_each = all.as_nanos() / BETWEEN.as_nanos();
        Busy {
            filling: Filling::new(bytes, piece),
            for_each: u32::try_from(for_each).unwrap_or(u32::MAX).max(1),
            stands_for: Rc::new(Cell::new(1)),
            passes: None,
        }
    }

    /// The same, and where it can be said that of so many passes over the hot part one is done, and the others take as long. The core
    /// counts those that are done.
    pub(in super::super) fn standing_for(mut self, passes: u64) -> (Self, Rc<Cell<u64>>) {
        self.stands_for = Rc::new(Cell::new(passes.max(1)));
        let told = Rc::clone(&self.stands_for);
        (self, told)
    }
}

impl Passes {
    /// A pass over the hot part is through: for how many it stood.
    fn end_hot(&mut self) -> u32 {
        let stood = (self.stand_for / self.rows.max(1)).max(1);
        (self.rows, self.stand_for) = (0, 0);
        let stood = u32::try_from(stood).unwrap_or(u32::MAX).min(self.left);
        self.left -= stood;
        stood
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
                    rows: 0,
                    stand_for: 0,
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
            return Ok(Work::Rests(BETWEEN * passes.end_hot()));
        }
        passes.rows += 1;
        // The last ones before a pass over all may be fewer.
        let wanted = self.stands_for.get().min(u64::from(passes.left));
        passes.stand_for += memory.repeat(wanted);
        Ok(Work::GoesOn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::hardware;
    use crate::sim::scale::Scale;
    use crate::sim::system::BASE;
    use crate::sim::testbed::Testbed;

    /// Touches in passes over all, and over the hot part, in some seconds.
    fn touches(stands_for: u64) -> u64 {
        let hardware = hardware::trident_server();
        let mut bed = Testbed::new(BASE, &[512 << 20], Scale::new(1), hardware).unwrap();
        let busy = Busy::new(BYTES, BYTES, BETWEEN * FOR_EACH);
        let (busy, _) = busy.standing_for(stands_for);
        let pid = bed.start(busy);
        bed.run_for(Duration::from_secs(20));
        bed.without_fault(pid, "a busy program").unwrap();
        bed.machine.counts(pid).unwrap().touches
    }

    const BYTES: u64 = 256 << 20;
    const FOR_EACH: u32 = 80;

    /// So in the same time there are as many passes over all, and one part of those over the hot part.
    #[test]
    fn passes_that_stand_for_others_take_as_long() {
        let [each, some] = [touches(1), touches(8)];
        let of_all = |hot: u64| HOT + hot;
        let expected = each * of_all(u64::from(FOR_EACH) / 8) / of_all(FOR_EACH.into());
        assert!(
            some.abs_diff(expected) * 10 < expected,
            "{some}, {expected} expected"
        );
    }

    #[test]
    fn the_first_bytes_of_pieces() {
        let pieces = [(100, 10), (200, 10), (300, 10)];
        assert_eq!(first(&pieces, 15), [(100, 10), (200, 5)]);
        assert_eq!(first(&pieces, 10), [(100, 10)]);
        assert_eq!(first(&pieces, 99), pieces);
    }
}
