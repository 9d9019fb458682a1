//! A program that fills its memory and then uses one page of each region: where faults take huge pages, memory at the granularity of regions.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Sweep};

/// The program: once its memory is filled it sweeps over that and rests, again and again.
pub(in super::super) struct Regions {
    filling: Filling,
    rest: Duration,
    sweep: Option<Sweep>,
}

impl Regions {
    pub(in super::super) fn new(bytes: u64, rest: Duration) -> Self {
        Regions {
            filling: Filling::new(bytes, bytes),
            rest,
            sweep: None,
        }
    }
}

impl Program for Regions {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(sweep) = &mut self.sweep else {
            if self.filling.go_on(memory)? {
                // A huge page is touched once: the sweep goes on behind it.
                let ranges = self.filling.pieces().collect();
                self.sweep = Some(Sweep::new(ranges, BASE_PAGE_SIZE));
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
