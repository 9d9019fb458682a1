//! A pass over all pages of some ranges, one row of pages after the other: for programs that go over so much, and so often, that
//! looking up each touch would take most of the simulation's time.

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};
use mega_sim::Memory;
use mega_sim::kernel::Fault;

/// The pass. It begins anew once it is through.
#[derive(Clone, Debug)]
pub(in super::super) struct Pass {
    /// First addresses and bytes.
    ranges: Vec<(u64, u64)>,
    range: usize,
    offset: u64,
}

impl Pass {
    /// Over ranges that were filled before, in the order of their addresses; those that touch become one.
    pub(in super::super) fn new(parts: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, bytes) in parts {
            match ranges.last_mut() {
                Some((first, before)) if *first + *before == start => *before += bytes,
                _ => ranges.push((start, bytes)),
            }
        }
        Pass {
            ranges,
            range: 0,
            offset: 0,
        }
    }

    /// Goes over the next row; whether it is through.
    pub(in super::super) fn go_on(&mut self, memory: &mut Memory<'_>) -> Result<bool, Fault> {
        let Some(&(start, bytes)) = self.ranges.get(self.range) else {
            self.range = 0;
            return Ok(true);
        };
        let address = start + self.offset;
        let region_end = (address / HUGE_PAGE_SIZE + 1) * HUGE_PAGE_SIZE;
        let end = region_end.min(start + bytes);
        memory.touch_row(address, (end - address) / BASE_PAGE_SIZE)?;
        self.offset = end - start;
        if self.offset >= bytes {
            (self.range, self.offset) = (self.range + 1, 0);
        }
        Ok(false)
    }
}
