//! One touch of every page of some ranges, one after the other.

use mega_core::{BASE_PAGE_SIZE, PageSize};
use mega_sim::Memory;
use mega_sim::kernel::Fault;

use super::AT_ONCE;

/// A sweep over ranges that were filled before.
#[derive(Clone, Debug)]
pub(in super::super) struct Sweep {
    /// First addresses and bytes.
    ranges: Vec<(u64, u64)>,
    /// Bytes from one touch to the next.
    step: u64,
    range: usize,
    offset: u64,
}

impl Sweep {
    pub(in super::super) fn new(ranges: Vec<(u64, u64)>, step: u64) -> Self {
        Sweep {
            ranges,
            step: step.max(BASE_PAGE_SIZE),
            range: 0,
            offset: 0,
        }
    }

    /// Touches some more; whether it is through. It begins anew afterwards.
    pub(in super::super) fn go_on(&mut self, memory: &mut Memory<'_>) -> Result<bool, Fault> {
        for _ in 0..AT_ONCE {
            let Some(&(start, bytes)) = self.ranges.get(self.range) else {
                self.range = 0;
                return Ok(true);
            };
            if self.offset >= bytes {
                (self.range, self.offset) = (self.range + 1, 0);
                continue;
            }
            let address = start + self.offset;
            let size = memory.touch(address)?;
            // A larger page has one Accessed bit: it is set.
            let next = match size {
                PageSize::Base => self.offset + self.step,
                larger => (address / larger.bytes() + 1) * larger.bytes() - start,
            };
            self.offset = next.next_multiple_of(self.step);
        }
        Ok(false)
    }
}
