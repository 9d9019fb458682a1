//! A program that visits its memory in steps of 32 KiB (MEGA, section 4.2): one page in eight.

use std::time::Duration;

use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Sweep};

/// Bytes from one visit to the next: the paper's 32 x 1024.
pub(in super::super) const STEP: u64 = 32 << 10;

/// The program: it sweeps over its memory once a second.
pub(in super::super) struct Strides {
    filling: Filling,
    sweep: Option<Sweep>,
}

impl Strides {
    pub(in super::super) fn new(bytes: u64) -> Self {
        Strides {
            filling: Filling::new(bytes, bytes),
            sweep: None,
        }
    }
}

impl Program for Strides {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(sweep) = &mut self.sweep else {
            if self.filling.go_on(memory)? {
                self.sweep = Some(Sweep::new(self.filling.pieces().collect(), STEP));
            }
            return Ok(Work::GoesOn);
        };
        Ok(if sweep.go_on(memory)? {
            Work::Rests(Duration::from_secs(1))
        } else {
            Work::GoesOn
        })
    }
}
