//! The memory that is touched: regions mapped by base pages and by huge pages in turn, side by side.
//!
//! All of it is first in huge pages, and then every second region is split where it lies. So both halves lie in the same
//! stretches of physical memory. That matters: what a page walk costs under a hypervisor depends on how it backs the frames,
//! by more than what base and huge pages differ by.

#![allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};

use crate::Error;
use crate::doctor::own_sizes;
use crate::kernel::Kernel;
use crate::kernel::own_memory::{Advice, OwnMemory};

/// Words in a region.
const REGION: usize = HUGE_PAGE_SIZE as usize / size_of::<u64>();

/// What is read beside the touches, where anything is: more than caches keep for a program.
const WORK: u64 = 64 << 20;

/// Memory in both layouts, which grows from one working set to the next.
pub(super) struct Layouts {
    memory: OwnMemory,
    work: OwnMemory,
    /// Bytes that are there in each layout.
    size: u64,
}

/// The words of one layout: those of every second region.
#[derive(Clone, Copy)]
pub(super) struct Half<'a> {
    all: &'a [AtomicU64],
    /// 0, or the words of a region.
    first: usize,
}

impl Layouts {
    /// Bytes that a working set takes in both layouts together, and what is read beside it.
    pub(super) fn needed(size: u64) -> u64 {
        Self::bytes(size) + WORK
    }

    fn bytes(size: u64) -> u64 {
        2 * size
    }

    /// Maps as much as a working set of `most` bytes takes. No page is there yet.
    pub(super) fn map(most: u64) -> Result<Self, Error> {
        let regions = Self::bytes(most) / HUGE_PAGE_SIZE;
        let memory = in_huge_pages(regions as usize)?;
        let work = in_huge_pages((WORK / HUGE_PAGE_SIZE) as usize)?;
        for address in work.range().step_by(BASE_PAGE_SIZE as usize) {
            work.write(address);
        }
        let size = 0;
        Ok(Layouts { memory, work, size })
    }

    /// Touches first what a working set of `size` bytes needs beyond what is there, and splits half of it. Returns whether
    /// all of it came in huge pages; where it did not, no free block was found.
    pub(super) fn grow(&mut self, kernel: &dyn Kernel, size: u64) -> Result<bool, Error> {
        let start = self.memory.range().start;
        let new = start + Self::bytes(self.size)..start + Self::bytes(size);
        // No page may hold only zeros: the kernel would give it back at the split.
        for address in new.clone().step_by(BASE_PAGE_SIZE as usize) {
            self.memory.write(address);
        }
        if !Self::is_huge(kernel, &new)? {
            // A fault gives up sooner than a collapse, which reclaims and compacts. Where that fails too, the look says so.
            let _ = self.memory.advise(new.clone(), Advice::Collapse);
            if !Self::is_huge(kernel, &new)? {
                return Ok(false);
            }
        }
        for region in new.step_by(2 * HUGE_PAGE_SIZE as usize) {
            let second_page = region + BASE_PAGE_SIZE..region + 2 * BASE_PAGE_SIZE;
            self.memory
                .advise(second_page, Advice::Cold)
                .map_err(refused)?;
            // khugepaged would join it again.
            self.memory
                .advise(region..region + HUGE_PAGE_SIZE, Advice::NoHuge)
                .map_err(refused)?;
        }
        self.size = size;
        Ok(true)
    }

    /// Whether huge pages map all of what was touched last.
    fn is_huge(kernel: &dyn Kernel, new: &Range<u64>) -> Result<bool, Error> {
        let first = new.start..new.start + HUGE_PAGE_SIZE;
        let found = own_sizes(kernel, &first).map_err(|source| Error::Io {
            attempt: "read /proc/self/smaps".to_owned(),
            source,
        })?;
        Ok(found.huge >= new.end - new.start)
    }

    /// The base pages of a working set of `size` bytes, a power of two, and its huge pages.
    pub(super) fn halves(&self, size: u64) -> [Half<'_>; 2] {
        let all = self.memory.words(Self::bytes(size));
        [0, REGION].map(|first| Half { all, first })
    }

    /// Words that are read beside the touches, as many as a power of two.
    pub(super) fn work(&self) -> &[AtomicU64] {
        self.work.words(WORK)
    }
}

impl Half<'_> {
    /// How many words it has, a power of two.
    pub(super) fn len(&self) -> usize {
        self.all.len() / 2
    }

    /// One of its words.
    #[inline]
    pub(super) fn read(&self, index: usize) -> u64 {
        let in_region = index & (REGION - 1);
        let index = (index - in_region) * 2 + self.first + in_region;
        self.all[index].load(Ordering::Relaxed)
    }
}

/// No page is there yet. Where no block is free, base pages come: work on these disturbs both layouts alike.
fn in_huge_pages(regions: usize) -> Result<OwnMemory, Error> {
    let memory = OwnMemory::new(regions).map_err(refused)?;
    let advised = memory.advise(memory.range(), Advice::Huge);
    advised.map_err(refused)?;
    Ok(memory)
}

fn refused(source: std::io::Error) -> Error {
    Error::Io {
        attempt: "prepare memory for a calibration".to_owned(),
        source,
    }
}
