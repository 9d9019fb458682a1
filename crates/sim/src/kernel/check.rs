//! What must hold between page tables and physical memory.

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, Region};

use super::page_cache::PageCache;
use super::shared_memory::{SharedMemory, mappers};
use super::{Kernel, Pid};
use crate::address_space::{Entry, SpanTable, offset_of};
use crate::physical::{BLOCK_ORDER, Broken, Frame, Owner};

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistent {
    /// Physical memory by itself.
    #[error(transparent)]
    Physical(#[from] Broken),
    /// A page table and the reverse mapping of a frame disagree.
    #[error("page tables and physical memory disagree: {0}")]
    Mapping(String),
}

impl Kernel {
    /// Looks through everything: each mapped page lies where it should, each movable page in use is mapped as often as is counted,
    /// and every other page in use is a page table or the kernel's own, as counted in `own`.
    ///
    /// # Errors
    ///
    /// When something does not hold.
    pub fn check(&self, own: u64) -> Result<(), Inconsistent> {
        self.memory.check()?;
        let mut tables = 0u64;
        // By frame.
        let mut mapped = vec![0u32; self.memory.blocks() as usize * 512];
        for (pid, process) in self.processes() {
            for (start, span) in process.space.spans() {
                tables += 1;
                self.check_giant(start, span)?;
                let regions = Region::wholly_inside(start, start + GIANT_PAGE_SIZE);
                for (region, entry) in regions.zip(span.regions.iter()) {
                    tables += self.check_entry(pid, region, entry, &mut mapped)?;
                }
            }
        }
        for (frame, page_size) in self.shared.iter().flat_map(SharedMemory::pages) {
            let first = frame.number() as usize;
            let pages = (page_size.bytes() / BASE_PAGE_SIZE) as usize;
            mapped[first..first + pages]
                .iter_mut()
                .for_each(|count| *count += 1);
        }
        for (page, frame) in self.cache.pages() {
            mapped[frame.number() as usize] += 1;
            let owner = Owner::new(PageCache::HOLDER, page);
            if self.memory.owner_of(frame) != Some(owner) {
                return Err(Inconsistent::Mapping(format!(
                    "{frame:?} is page {page} of the page cache and does not say so"
                )));
            }
        }
        let mapped = self.check_counts(&mapped)?;
        let (movable, unmovable) = self.memory.totals_in_use();
        if (movable, unmovable) != (mapped, tables + own) {
            return Err(Inconsistent::Mapping(format!(
                "{movable} movable and {unmovable} other pages are in use, {mapped} are mapped, {tables} are page tables, {own} are the kernel's own"
            )));
        }
        Ok(())
    }

    /// Each page is mapped as often as is counted. How many there are that something maps.
    fn check_counts(&self, mapped: &[u32]) -> Result<u64, Inconsistent> {
        let mut pages = 0;
        for (number, &mappings) in (0..).zip(mapped) {
            let counted = self.memory.mappings(Frame::new(number));
            if counted != mappings {
                return Err(Inconsistent::Mapping(format!(
                    "{mappings} entries map frame {number}, {counted} are counted"
                )));
            }
            pages += u64::from(mappings > 0);
        }
        Ok(pages)
    }

    /// Counts what an entry maps. The page tables it has.
    fn check_entry(
        &self,
        pid: Pid,
        region: Region,
        entry: &Entry,
        mapped: &mut [u32],
    ) -> Result<u64, Inconsistent> {
        let first = region.start() / BASE_PAGE_SIZE;
        match entry {
            Entry::None => Ok(0),
            Entry::Base(pages) => {
                let mut count = 0;
                for (place, frame) in pages.pages() {
                    count += 1;
                    mapped[frame.number() as usize] += 1;
                    self.check_owner(frame, pid, first + place as u64)?;
                    if !pages.protected.get(place) {
                        self.check_alone(frame)?;
                    }
                }
                if count != pages.mapped() {
                    return Err(Inconsistent::Mapping(format!(
                        "{region:?} has {count} pages"
                    )));
                }
                Ok(1)
            }
            Entry::Huge(page) => {
                self.check_owner(page.frame, pid, first)?;
                if !page.protected {
                    self.check_alone(page.frame)?;
                }
                if page.frame.offset() != 0 {
                    return Err(Inconsistent::Mapping(format!("{region:?} is not aligned")));
                }
                let first = page.frame.number() as usize;
                mapped[first..first + 512]
                    .iter_mut()
                    .for_each(|count| *count += 1);
                Ok(1)
            }
        }
    }

    /// The reverse mapping of a page leads to the process that maps it.
    fn check_owner(&self, frame: Frame, pid: Pid, page: u64) -> Result<(), Inconsistent> {
        let found = self.memory.owner_of(frame);
        let leads_here = |owner: Owner| {
            let mut mappers = mappers(&self.families, &self.shared, owner);
            mappers.any(|mapper| mapper == (pid, page * BASE_PAGE_SIZE))
        };
        if found.is_some_and(leads_here) {
            return Ok(());
        }
        Err(Inconsistent::Mapping(format!(
            "{frame:?} is mapped as page {page} of {pid:?} and says {found:?}"
        )))
    }

    /// After an operation on a page that programs map: it is mapped as often as is counted.
    pub(super) fn debug_check_mappings(&self, frame: Frame) {
        if cfg!(debug_assertions)
            && let Some(owner) = self.memory.owner_of(frame)
            && owner.holder() != PageCache::HOLDER
        {
            debug_assert_eq!(
                self.memory.mappings(frame),
                self.entries_for(frame, owner),
                "what maps {frame:?} of {owner:?}"
            );
        }
    }

    /// The entries that map a page, with the shared memory that holds it.
    fn entries_for(&self, frame: Frame, owner: Owner) -> u32 {
        let maps = |(pid, address): &(Pid, u64)| {
            let space = &self.process(*pid).space;
            match space.entry(Region::containing(*address)) {
                Entry::None => false,
                Entry::Base(pages) => pages.frame(offset_of(*address)) == Some(frame),
                Entry::Huge(page) => page.frame == frame.aligned(BLOCK_ORDER),
            }
        };
        let entries = mappers(&self.families, &self.shared, owner).filter(maps);
        let held = usize::from(self.shared_of(owner).is_some());
        (entries.count() + held).try_into().unwrap_or(u32::MAX)
    }

    /// Nobody else sees what is written to a private page without a fault.
    fn check_alone(&self, frame: Frame) -> Result<(), Inconsistent> {
        let owner = self.memory.owner_of(frame);
        let belongs = owner.is_some_and(|owner| self.shared_of(owner).is_some());
        if belongs || !self.memory.is_shared(frame) {
            return Ok(());
        }
        Err(Inconsistent::Mapping(format!(
            "{frame:?} is shared and can be written to"
        )))
    }

    /// A giant page lies in one chunk, in order.
    fn check_giant(&self, start: u64, span: &SpanTable) -> Result<(), Inconsistent> {
        if span.giant.is_none() {
            return Ok(());
        }
        let mut next = None;
        for entry in &span.regions {
            let Entry::Huge(page) = entry else {
                return Err(Inconsistent::Mapping(format!(
                    "the giant page at {start:#x} has a hole"
                )));
            };
            let number = page.frame.number();
            let fits = match next {
                None => number.is_multiple_of(512 * 512),
                Some(next) => number == next,
            };
            if !fits {
                return Err(Inconsistent::Mapping(format!(
                    "the giant page at {start:#x} is in pieces"
                )));
            }
            next = Some(number + 512);
        }
        Ok(())
    }
}
