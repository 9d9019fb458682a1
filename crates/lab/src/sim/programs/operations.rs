//! A program that fills its memory and then does so many operations over it, one right after the other.

use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Accesses, Filling, Pattern};

/// Operations before others have their turn.
const TOGETHER: u64 = 16;

/// The program. It keeps its memory when it is done.
pub(in super::super) struct Operations {
    bytes: u64,
    filling: Filling,
    pattern: Pattern,
    seed: u64,
    /// Cycles that an operation takes beside its touches.
    cycles: u64,
    left: u64,
    /// Once all is filled: the operations, and the first address of the memory.
    at_work: Option<(Accesses, u64)>,
}

impl Operations {
    /// It has so many bytes, by pieces of `piece` bytes.
    pub(in super::super) fn new(
        bytes: u64,
        piece: u64,
        pattern: Pattern,
        (count, cycles): (u64, u64),
        seed: u64,
    ) -> Self {
        Operations {
            bytes,
            filling: Filling::new(bytes, piece),
            pattern,
            seed,
            cycles,
            left: count,
            at_work: None,
        }
    }
}

impl Program for Operations {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some((accesses, start)) = &mut self.at_work else {
            if self.filling.go_on(memory)? {
                // Mappings follow each other downwards, so they lie in one piece.
                let first = self.filling.pieces().map(|(start, _)| start).min();
                let accesses = self.pattern.over(self.bytes, self.seed);
                self.at_work = Some((accesses, first.unwrap_or(0)));
            }
            return Ok(Work::GoesOn);
        };
        for _ in 0..TOGETHER.min(self.left) {
            for offset in accesses.next() {
                memory.touch(*start + offset)?;
            }
            memory.compute(self.cycles);
            self.left -= 1;
        }
        Ok(if self.left == 0 {
            Work::Finished
        } else {
            Work::GoesOn
        })
    }
}
