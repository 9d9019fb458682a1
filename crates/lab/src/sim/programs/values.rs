//! A program that stores values of one size one after the other, as Redis does with large strings: each lies in memory of its
//! own.

use mega_core::BASE_PAGE_SIZE;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

/// The program; it ends once it has them all, and keeps them.
pub(in super::super) struct Values {
    left: u64,
    bytes: u64,
}

impl Values {
    pub(in super::super) fn new(count: u64, bytes: u64) -> Self {
        Values { left: count, bytes }
    }
}

impl Program for Values {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if self.left == 0 {
            return Ok(Work::Finished);
        }
        self.left -= 1;
        let start = memory.map(self.bytes, Advice::None);
        for page in 0..self.bytes.div_ceil(BASE_PAGE_SIZE) {
            memory.touch(start + page * BASE_PAGE_SIZE)?;
        }
        Ok(Work::GoesOn)
    }
}
