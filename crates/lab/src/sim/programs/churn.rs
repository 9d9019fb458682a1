//! A program that allocates, goes over what it has, and frees all of it, again and again (MEGA, section 4.2).

use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::Using;

/// The program; it exits after its rounds.
pub(in super::super) struct Churn {
    bytes: u64,
    rounds: u32,
    using: Using,
}

impl Churn {
    pub(in super::super) fn new(bytes: u64, rounds: u32) -> Self {
        Churn {
            bytes,
            rounds,
            using: Using::all(bytes, bytes),
        }
    }
}

impl Program for Churn {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if !self.using.go_on(memory)? {
            return Ok(Work::GoesOn);
        }
        self.using.unmap(memory);
        self.using = Using::all(self.bytes, self.bytes);
        self.rounds = self.rounds.saturating_sub(1);
        Ok(if self.rounds == 0 {
            Work::Exits
        } else {
            Work::GoesOn
        })
    }
}
