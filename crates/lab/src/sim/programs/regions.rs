//! A program that uses one page of each region: where faults take huge pages, memory at the granularity of regions.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::Sweep;

/// The program: it sweeps over its memory and rests, again and again.
pub(in super::super) struct Regions {
    bytes: u64,
    rest: Duration,
    sweep: Option<Sweep>,
}

impl Regions {
    pub(in super::super) fn new(bytes: u64, rest: Duration) -> Self {
        Regions {
            bytes,
            rest,
            sweep: None,
        }
    }
}

impl Program for Regions {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let sweep = self.sweep.get_or_insert_with(|| {
            let start = memory.map(self.bytes, Advice::None);
            // A huge page is touched once: the sweep goes on behind it.
            Sweep::new(vec![(start, self.bytes)], BASE_PAGE_SIZE)
        });
        Ok(if sweep.go_on(memory)? {
            Work::Rests(self.rest)
        } else {
            Work::GoesOn
        })
    }
}
