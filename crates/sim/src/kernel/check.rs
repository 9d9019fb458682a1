//! What must hold between page tables and physical memory.

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, PageSize, Region};

use super::page_cache::PageCache;
use super::shared_memory::{SharedMemory, mappers};
use super::{Kernel, Pid};
use crate::address_space::{Entry, SpanTable, offset_of};
use crate::physical::{BLOCK_ORDER, Broken, FRAMES_PER_BLOCK, Frame, Owner};

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

/// How often the pages of a block are mapped, by what page tables say.
#[derive(Clone, Debug, Default)]
struct Mapped {
    /// All of them, by huge pages.
    huge: u32,
    /// Each beyond that, if any is.
    base: Option<Box<[u32; FRAMES_PER_BLOCK]>>,
}

/// The same for all blocks.
struct MappedBlocks(Vec<Mapped>);

impl MappedBlocks {
    fn add(&mut self, frame: Frame, page_size: PageSize) {
        let block = &mut self.0[frame.block_index() as usize];
        match page_size {
            PageSize::Base => {
                let base = block
                    .base
                    .get_or_insert_with(|| Box::new([0; FRAMES_PER_BLOCK]));
                base[frame.offset()] += 1;
            }
            PageSize::Huge | PageSize::Giant => block.huge += 1,
        }
    }
}

/// What was looked through.
#[derive(Debug)]
struct Looked {
    /// Pages that something maps.
    mapped: u64,
    /// Page tables.
    tables: u64,
}

impl Kernel {
    /// At the beginning of each operation: in builds with debug assertions, looks through everything from time to time. The next time is
    /// after as many operations as entries, blocks and frames had to be looked at, so that this takes a bounded share of the time.
    ///
    /// # Panics
    ///
    /// In such builds, when something does not hold.
    pub(super) fn debug_check_sometimes(&mut self) {
        if !cfg!(debug_assertions) {
            return;
        }
        if let Some(left) = self.until_check.checked_sub(1) {
            self.until_check = left;
            return;
        }
        let looked = self.look_through();
        debug_assert!(looked.is_ok(), "before this operation: {looked:?}");
        let entries = looked.map_or(0, |looked| looked.tables * FRAMES_PER_BLOCK as u64);
        self.until_check = entries + self.memory.steps_of_check();
    }

    /// Looks through everything: each mapped page lies where it should, each movable page in use is mapped as often as is counted,
    /// and every other page in use is a page table or the kernel's own, as counted in `own`.
    ///
    /// # Errors
    ///
    /// When something does not hold.
    pub fn check(&self, own: u64) -> Result<(), Inconsistent> {
        let Looked { mapped, tables } = self.look_through()?;
        let (movable, unmovable) = self.memory.totals_in_use();
        if (movable, unmovable) != (mapped, tables + own) {
            return Err(Inconsistent::Mapping(format!(
                "{movable} movable and {unmovable} other pages are in use, {mapped} are mapped, {tables} are page tables, {own} are the kernel's own"
            )));
        }
        Ok(())
    }

    /// The same, but for how many pages are the kernel's own. What was found.
    fn look_through(&self) -> Result<Looked, Inconsistent> {
        self.memory.check()?;
        let mut tables = 0u64;
        let mut mapped = MappedBlocks(vec![Mapped::default(); self.memory.blocks() as usize]);
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
            mapped.add(frame, page_size);
        }
        for (page, frame) in self.cache.pages() {
            mapped.add(frame, PageSize::Base);
            let owner = Owner::new(PageCache::HOLDER, page);
            if self.memory.owner_of(frame) != Some(owner) {
                return Err(Inconsistent::Mapping(format!(
                    "{frame:?} is page {page} of the page cache and does not say so"
                )));
            }
        }
        let mapped = self.check_counts(&mapped)?;
        Ok(Looked { mapped, tables })
    }

    /// Each page is mapped as often as is counted. How many there are that something maps.
    fn check_counts(&self, mapped: &MappedBlocks) -> Result<u64, Inconsistent> {
        let mut pages = 0;
        for (block, mapped) in (0..).zip(&mapped.0) {
            if mapped.base.is_none() && self.memory.mappings_of_all(block) == Some(mapped.huge) {
                pages += if mapped.huge > 0 {
                    FRAMES_PER_BLOCK as u64
                } else {
                    0
                };
                continue;
            }
            for offset in 0..FRAMES_PER_BLOCK {
                let base = mapped.base.as_ref().map_or(0, |base| base[offset]);
                let mappings = mapped.huge + base;
                let frame = Frame::in_block(block, offset);
                let counted = self.memory.mappings(frame);
                if counted != mappings {
                    return Err(Inconsistent::Mapping(format!(
                        "{mappings} entries map {frame:?}, {counted} are counted"
                    )));
                }
                pages += u64::from(mappings > 0);
            }
        }
        Ok(pages)
    }

    /// Counts what an entry maps. The page tables it has.
    fn check_entry(
        &self,
        pid: Pid,
        region: Region,
        entry: &Entry,
        mapped: &mut MappedBlocks,
    ) -> Result<u64, Inconsistent> {
        let first = region.start() / BASE_PAGE_SIZE;
        match entry {
            Entry::None => Ok(0),
            Entry::Base(pages) => {
                let mut count = 0;
                for (place, frame) in pages.pages() {
                    count += 1;
                    mapped.add(frame, PageSize::Base);
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
                mapped.add(page.frame, PageSize::Huge);
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
