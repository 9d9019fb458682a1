//! The memory that is touched: the same size mapped by base pages, by base pages whose frames are scattered, and by huge
//! pages.

#![allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};

use crate::Error;
use crate::doctor::own_sizes;
use crate::kernel::Kernel;
use crate::observe::tracker::own_memory::{Advice, OwnMemory};

/// Up to this size base pages are also measured with scattered frames, in bytes: enough to see whether frames matter.
const MOST_SCATTERED: u64 = 512 << 20;

/// How memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// By base pages, touched first in order, as an array is.
    Base,
    /// By base pages, touched first in random order: their frames lie anywhere.
    Scattered,
    /// By huge pages.
    Huge,
}

/// Memory in every layout, which grows from one working set to the next.
pub(super) struct Layouts {
    base: OwnMemory,
    scattered: OwnMemory,
    huge: OwnMemory,
    /// Bytes that are there of each but `scattered`.
    size: u64,
}

impl Layouts {
    /// Bytes that a working set takes in all layouts together.
    pub(super) fn bytes(size: u64) -> u64 {
        2 * size + size.min(MOST_SCATTERED)
    }

    /// Maps as much as a working set of `most` bytes takes. No page is there yet.
    pub(super) fn map(most: u64) -> Result<Self, Error> {
        let map = |bytes: u64, advice| {
            let regions = usize::try_from(bytes.div_ceil(HUGE_PAGE_SIZE)).unwrap_or(usize::MAX);
            let memory = OwnMemory::new(regions)?;
            memory.advise(memory.range(), advice)?;
            Ok(memory)
        };
        let refused = |source| Error::Io {
            attempt: "map memory for a calibration".to_owned(),
            source,
        };
        Ok(Layouts {
            base: map(most, Advice::NoHuge).map_err(refused)?,
            scattered: map(most.min(MOST_SCATTERED), Advice::NoHuge).map_err(refused)?,
            huge: map(most, Advice::Huge).map_err(refused)?,
            size: 0,
        })
    }

    /// Touches first what a working set of `size` bytes needs beyond what is there. Returns whether all of `huge` lies in
    /// huge pages; where it does not, no free block was found.
    pub(super) fn grow(&mut self, kernel: &dyn Kernel, size: u64) -> Result<bool, Error> {
        touch_first(&self.base, self.size..size);
        touch_scattered(
            &self.scattered,
            self.size.min(MOST_SCATTERED)..size.min(MOST_SCATTERED),
        );
        let start = self.huge.range().start;
        for offset in (self.size..size).step_by(HUGE_PAGE_SIZE as usize) {
            self.huge.write(start + offset);
        }
        self.size = size;
        let first = start..start + HUGE_PAGE_SIZE;
        let found = own_sizes(kernel, &first).map_err(|source| Error::Io {
            attempt: "read /proc/self/smaps".to_owned(),
            source,
        })?;
        Ok(found.huge >= size)
    }

    /// The memory of a layout; `None` where a working set of `size` bytes is not measured in it.
    pub(super) fn memory(&self, layout: Layout, size: u64) -> Option<&OwnMemory> {
        match layout {
            Layout::Base => Some(&self.base),
            Layout::Scattered => (size <= MOST_SCATTERED).then_some(&self.scattered),
            Layout::Huge => Some(&self.huge),
        }
    }
}

fn touch_first(memory: &OwnMemory, offsets: std::ops::Range<u64>) {
    for offset in offsets.step_by(BASE_PAGE_SIZE as usize) {
        memory.write(memory.range().start + offset);
    }
}

fn touch_scattered(memory: &OwnMemory, offsets: std::ops::Range<u64>) {
    let pages = (offsets.end - offsets.start) / BASE_PAGE_SIZE;
    let mut order: Vec<u64> = (0..pages).collect();
    super::touching::Random::new().shuffle(&mut order);
    for page in order {
        memory.write(memory.range().start + offsets.start + page * BASE_PAGE_SIZE);
    }
}
