//! The memory that is touched: regions mapped by base pages and by huge pages in turn, side by side.
//!
//! All of it is first in huge pages, and then every second region is split where it lies. So both halves lie in the same
//! stretches of physical memory. That matters: what a page walk costs under a hypervisor depends on how it backs the frames,
//! by more than what base and huge pages differ by.
//!
//! Many base pages of a program lie apart, though, all over memory. When all is measured so, single pages of what was split are given back,
//! and other memory takes their frames: a chain of touches over 256 MiB of it takes 290 ns, and 210 where frames are neighbours (Intel
//! Xeon, model 207, under a hypervisor).

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

/// Of so many pages of what was split one is given back.
const APART: u64 = 4;

/// By so many pages, modulo their number, lies the one that is touched next: the golden ratio of 2^32, made odd (Knuth, volume 3, section
/// 6.4).
const FAR_APART: u64 = 0x9e37_79b1;

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

    /// Bytes of base pages apart that are to be had of `size` bytes in each layout.
    pub(super) fn apart_of(size: u64) -> u64 {
        size / APART
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

    /// Base pages whose frames lie apart, as many as are to be had: those of every second region, as in the other layouts. What was split
    /// is no layout any more.
    pub(super) fn apart(&self) -> Result<Apart, Error> {
        let size = Self::apart_of(self.size);
        let start = self.memory.range().start;
        let split = (start..start + Self::bytes(self.size)).step_by(2 * HUGE_PAGE_SIZE as usize);
        for region in split {
            let step = (APART * BASE_PAGE_SIZE) as usize;
            for page in (region..region + HUGE_PAGE_SIZE).step_by(step) {
                let given_back = self.memory.discard(page..page + BASE_PAGE_SIZE);
                given_back.map_err(refused)?;
            }
        }
        let memory = OwnMemory::new((Self::bytes(size) / HUGE_PAGE_SIZE) as usize);
        let memory = memory.map_err(refused)?;
        memory
            .advise(memory.range(), Advice::NoHuge)
            .map_err(refused)?;
        let start = memory.range().start;
        let pages = size / BASE_PAGE_SIZE;
        // Frames come in the order in which they were given back. An odd factor goes through all pages, a power of two of them, and so the
        // frames of each region and of the smaller working sets come from all of memory.
        for page in (0..pages).map(|number| number.wrapping_mul(FAR_APART) % pages) {
            let address = page * BASE_PAGE_SIZE;
            let of_region = address % HUGE_PAGE_SIZE;
            memory.write(start + Self::bytes(address - of_region) + of_region);
        }
        Ok(Apart(memory))
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

/// Base pages whose frames lie apart.
pub(super) struct Apart(OwnMemory);

impl Apart {
    /// A working set of `size` bytes, a power of two.
    pub(super) fn half(&self, size: u64) -> Half<'_> {
        Half {
            all: self.0.words(Layouts::bytes(size)),
            first: 0,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::LiveKernel;

    const MIB: u64 = 1 << 20;
    const PAGE: usize = BASE_PAGE_SIZE as usize / size_of::<u64>();

    /// The first word of each page.
    fn pages(half: Half<'_>) -> impl Iterator<Item = u64> {
        (0..half.len())
            .step_by(PAGE)
            .map(move |word| half.read(word))
    }

    #[test]
    fn a_quarter_of_the_split_pages_is_given_back_and_all_others_are_touched() {
        let mut layouts = Layouts::map(32 * MIB).unwrap();
        if !layouts.grow(&LiveKernel, 32 * MIB).unwrap() {
            eprintln!("no free blocks: there is nothing to split");
            return;
        }
        let apart = layouts.apart().unwrap();
        let half = apart.half(8 * MIB);
        assert_eq!(half.len() as u64 * 8, 8 * MIB);
        assert!(pages(half).all(|word| word == 1));
        let [split, huge] = layouts.halves(32 * MIB);
        assert!(pages(huge).all(|word| word == 1));
        let given_back = pages(split).map(|word| u64::from(word == 0)).sum::<u64>();
        assert_eq!(given_back * BASE_PAGE_SIZE, 8 * MIB);
    }
}
