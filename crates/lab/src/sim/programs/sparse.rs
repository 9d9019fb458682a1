//! A program that fills its memory by chunks and then uses a part of them only (MEGA, section 4.2).

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Sweep};

/// The program: it uses every so many-th chunk, once a second.
pub(in super::super) struct Sparse {
    filling: Filling,
    every: usize,
    used: Option<Sweep>,
}

impl Sparse {
    pub(in super::super) fn new(bytes: u64, chunk: u64, every: usize) -> Self {
        Sparse {
            filling: Filling::new(bytes, chunk),
            every,
            used: None,
        }
    }
}

impl Program for Sparse {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(used) = &mut self.used else {
            if self.filling.go_on(memory)? {
                let chunks = self.filling.pieces().step_by(self.every);
                self.used = Some(Sweep::new(chunks.collect(), BASE_PAGE_SIZE));
            }
            return Ok(Work::GoesOn);
        };
        Ok(if used.go_on(memory)? {
            Work::Rests(Duration::from_secs(1))
        } else {
            Work::GoesOn
        })
    }
}
