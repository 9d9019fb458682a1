//! Memory that a program fills and then sweeps over, all of it or a part.

use mega_core::BASE_PAGE_SIZE;
use mega_sim::Memory;
use mega_sim::kernel::Fault;

use super::{Filling, Sweep};

/// What is filled, and what of it is swept over then.
#[derive(Clone, Debug)]
pub(super) struct Using {
    filling: Filling,
    /// One piece in this many is swept over.
    every: usize,
    /// Bytes from one touch of a sweep to the next.
    step: u64,
    /// Once all is filled.
    sweep: Option<Sweep>,
}

impl Using {
    /// All of `bytes`, by pieces of `piece` bytes.
    pub(super) fn all(bytes: u64, piece: u64) -> Self {
        Using {
            filling: Filling::new(bytes, piece),
            every: 1,
            step: BASE_PAGE_SIZE,
            sweep: None,
        }
    }

    /// With first pieces of other sizes.
    pub(super) fn beginning_with(self, first: &[u64]) -> Self {
        let filling = self.filling.beginning_with(first);
        Using { filling, ..self }
    }

    /// One piece in this many alone.
    pub(super) fn every(self, every: usize) -> Self {
        Using { every, ..self }
    }

    /// One touch in this many bytes.
    pub(super) fn in_steps_of(self, step: u64) -> Self {
        Using { step, ..self }
    }

    /// Touches some more; whether a sweep is through. The next one begins then.
    pub(super) fn go_on(&mut self, memory: &mut Memory<'_>) -> Result<bool, Fault> {
        if let Some(sweep) = &mut self.sweep {
            return sweep.go_on(memory);
        }
        if self.filling.go_on(memory)? {
            let pieces = self.filling.pieces().step_by(self.every);
            self.sweep = Some(Sweep::new(pieces.collect(), self.step));
        }
        Ok(false)
    }

    /// Unmaps all that is mapped.
    pub(super) fn unmap(&self, memory: &mut Memory<'_>) {
        for (start, bytes) in self.filling.pieces() {
            memory.unmap(start, bytes);
        }
    }
}
