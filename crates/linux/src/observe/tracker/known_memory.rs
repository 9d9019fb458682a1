//! Memory of the tracker's own whose state is known page by page, for the self-check.

use std::io;
use std::ops::Range;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, Region};

use crate::kernel::own_memory::{Advice, OwnMemory};

/// What is done to the pages of one region.
struct Plan {
    written: fn(u16) -> bool,
    /// Read without ever being written, so that they map the kernel's page of zeros.
    only_read: fn(u16) -> bool,
    /// Read again once all Accessed bits are clear.
    read_again: fn(u16) -> bool,
    huge: bool,
}

/// One region for every case that a walker has to tell apart.
const PLANS: [Plan; 6] = [
    Plan {
        written: |_| true,
        only_read: |_| false,
        read_again: |page| page % 7 == 0,
        huge: false,
    },
    Plan {
        written: |page| page % 3 == 0,
        only_read: |_| false,
        read_again: |page| page == 9,
        huge: false,
    },
    Plan {
        written: |_| false,
        only_read: |_| false,
        read_again: |_| false,
        huge: false,
    },
    Plan {
        written: |page| page == 511,
        only_read: |_| false,
        read_again: |page| page == 511,
        huge: false,
    },
    Plan {
        written: |_| true,
        only_read: |_| false,
        read_again: |page| page == 100,
        huge: true,
    },
    Plan {
        written: |page| page < 10,
        only_read: |page| page >= 10,
        read_again: |_| false,
        huge: false,
    },
];

/// What is known of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) start: u64,
    /// Base pages with a page of their own.
    pub(super) mapped: u16,
    /// Base pages that map the page of zeros.
    pub(super) zero: u16,
    /// Base pages that [`KnownMemory::read_again`] reads; 512 in a huge page.
    pub(super) read_again: u16,
    pub(super) page_size: PageSize,
}

/// A mapping with one region for each plan.
pub(super) struct KnownMemory {
    memory: OwnMemory,
    regions: Vec<Known>,
}

impl KnownMemory {
    /// Maps the memory and brings every page into its state.
    ///
    /// # Errors
    /// As `mmap`.
    pub(super) fn new() -> io::Result<KnownMemory> {
        let memory = OwnMemory::new(PLANS.len())?;
        let regions = Region::wholly_inside(memory.range().start, memory.range().end);
        let regions = PLANS
            .iter()
            .zip(regions)
            .map(|(plan, region)| prepare(&memory, plan, region))
            .collect();
        Ok(KnownMemory { memory, regions })
    }

    /// What is known of each region, in address order.
    pub(super) fn regions(&self) -> &[Known] {
        &self.regions
    }

    /// All of it.
    pub(super) fn range(&self) -> Range<u64> {
        self.memory.range()
    }

    /// Clears all Accessed bits and flushes the translations. Not by `clear_refs`: that is a kernel file, and
    /// would concern the rest of this process too.
    ///
    /// # Errors
    /// As `madvise`.
    pub(super) fn clear_accessed(&self) -> io::Result<()> {
        self.memory.advise(self.range(), Advice::Cold)
    }

    /// Empties the LRU caches of all CPUs. Clearing empties that of its own alone, and passes over pages that were touched
    /// a moment ago on a CPU that this thread has left since.
    pub(super) fn drain_lru_caches(&self) {
        for (plan, known) in PLANS.iter().zip(&self.regions) {
            if plan.huge {
                let region = known.start..known.start + HUGE_PAGE_SIZE;
                // It is huge already: the call does nothing else. Without THP there is nothing to do it with.
                let _ = self.memory.advise(region, Advice::Collapse);
            }
        }
    }

    /// Reads the pages that are to be found accessed.
    pub(super) fn read_again(&self) {
        for (plan, known) in PLANS.iter().zip(&self.regions) {
            for page in (0..PAGES_PER_REGION).filter(|page| (plan.read_again)(*page)) {
                self.memory
                    .read(known.start + u64::from(page) * BASE_PAGE_SIZE);
            }
        }
    }
}

fn prepare(memory: &OwnMemory, plan: &Plan, region: Region) -> Known {
    let range = region.start()..region.end();
    // A kernel without THP refuses either advice, and makes no huge page anyway.
    let advice = if plan.huge {
        Advice::Huge
    } else {
        Advice::NoHuge
    };
    let _ = memory.advise(range.clone(), advice);
    let (mut mapped, mut zero, mut read_again) = (0, 0, 0);
    for page in 0..PAGES_PER_REGION {
        let address = region.start() + u64::from(page) * BASE_PAGE_SIZE;
        if (plan.written)(page) {
            memory.write(address);
            mapped += 1;
        } else if (plan.only_read)(page) {
            memory.read(address);
            zero += 1;
        }
        read_again += u16::from((plan.read_again)(page));
    }
    // Done last: collapse also drains the LRU caches of all CPUs, without which the kernel's clearing of
    // Accessed bits passes over pages that were touched a moment ago.
    let huge = plan.huge && memory.advise(range, Advice::Collapse).is_ok();
    Known {
        start: region.start(),
        mapped,
        zero,
        read_again: if huge { PAGES_PER_REGION } else { read_again },
        page_size: if huge { PageSize::Huge } else { PageSize::Base },
    }
}
