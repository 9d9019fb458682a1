//! A program that fills its memory and then uses all of it.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Sweep};

/// The program.
pub(in super::super) struct Resident {
    filling: Filling,
    sweep: Option<Sweep>,
    rest: Duration,
}

impl Resident {
    /// With so much memory, by pieces of so many bytes. It sweeps over it, and rests after each sweep.
    pub(in super::super) fn new(bytes: u64, piece: u64, rest: Duration) -> Self {
        Resident {
            filling: Filling::new(bytes, piece),
            sweep: None,
            rest,
        }
    }
}

impl Program for Resident {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(sweep) = &mut self.sweep else {
            if self.filling.go_on(memory)? {
                let all = self.filling.pieces().collect();
                self.sweep = Some(Sweep::new(all, BASE_PAGE_SIZE));
            }
            return Ok(Work::GoesOn);
        };
        Ok(if sweep.go_on(memory)? {
            Work::Rests(self.rest)
        } else {
            Work::GoesOn
        })
    }
}
