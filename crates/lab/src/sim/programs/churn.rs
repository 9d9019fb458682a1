//! A program that allocates, goes over what it has, and frees all of it, again and again (MEGA, section 4.2).

use mega_core::BASE_PAGE_SIZE;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Sweep};

/// The program; it exits after so many rounds.
pub(in super::super) struct Churn {
    bytes: u64,
    rounds: u32,
    filling: Filling,
    sweep: Option<Sweep>,
}

impl Churn {
    pub(in super::super) fn new(bytes: u64, rounds: u32) -> Self {
        Churn {
            bytes,
            rounds,
            filling: Filling::new(bytes, bytes),
            sweep: None,
        }
    }
}

impl Program for Churn {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(sweep) = &mut self.sweep else {
            if self.filling.go_on(memory)? {
                let all = self.filling.pieces().collect();
                self.sweep = Some(Sweep::new(all, BASE_PAGE_SIZE));
            }
            return Ok(Work::GoesOn);
        };
        if !sweep.go_on(memory)? {
            return Ok(Work::GoesOn);
        }
        for (start, bytes) in self.filling.pieces() {
            memory.unmap(start, bytes);
        }
        self.filling = Filling::new(self.bytes, self.bytes);
        self.sweep = None;
        self.rounds = self.rounds.saturating_sub(1);
        Ok(if self.rounds == 0 {
            Work::Exits
        } else {
            Work::GoesOn
        })
    }
}
