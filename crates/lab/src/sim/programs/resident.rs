//! A program that fills its memory and then uses it, all or a part, with a rest after each sweep.

use std::time::Duration;

use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::Using;

/// Bytes from one visit of [`Resident::strides`] to the next: the paper's 32 x 1024.
const STEP: u64 = 32 << 10;
/// Between two sweeps of the MEGA paper's programs.
const A_SECOND: Duration = Duration::from_secs(1);

/// The program.
pub(in super::super) struct Resident {
    using: Using,
    rest: Duration,
}

impl Resident {
    /// With so much memory, by pieces of so many bytes. It sweeps over it, and rests after each sweep.
    pub(in super::super) fn new(bytes: u64, piece: u64, rest: Duration) -> Self {
        Resident {
            using: Using::all(bytes, piece),
            rest,
        }
    }

    /// The same with first pieces of other sizes.
    pub(in super::super) fn beginning_with(self, first: &[u64]) -> Self {
        let using = self.using.beginning_with(first);
        Resident { using, ..self }
    }

    /// It fills memory by chunks and then uses every so many-th chunk only, once a second (MEGA, section 4.2).
    pub(in super::super) fn sparse(bytes: u64, chunk: u64, every: usize) -> Self {
        Resident {
            using: Using::all(bytes, chunk).every(every),
            rest: A_SECOND,
        }
    }

    /// It visits its memory in steps of 32 KiB, once a second: one page in eight (MEGA, section 4.2).
    pub(in super::super) fn strides(bytes: u64) -> Self {
        Resident {
            using: Using::all(bytes, bytes).in_steps_of(STEP),
            rest: A_SECOND,
        }
    }
}

impl Program for Resident {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        Ok(if self.using.go_on(memory)? {
            Work::Rests(self.rest)
        } else {
            Work::GoesOn
        })
    }
}
