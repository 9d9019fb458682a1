//! What must hold between page tables and physical memory.

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, Region};

use super::page_cache::PageCache;
use super::{Kernel, Pid};
use crate::address_space::{Entry, SpanTable};
use crate::physical::{Broken, Frame, Owner};

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
    /// Looks through everything: each mapped page lies where it should, each movable page in use is mapped once, and every
    /// other page in use is a page table or the kernel's own, as counted in `own`.
    ///
    /// # Errors
    ///
    /// When something does not hold.
    pub fn check(&self, own: u64) -> Result<(), Inconsistent> {
        self.memory.check()?;
        let (mut mapped, mut tables) = (0u64, 0u64);
        for (pid, process) in self.processes() {
            for (start, span) in process.space.spans() {
                tables += 1;
                self.check_giant(start, span)?;
                let regions = Region::wholly_inside(start, start + GIANT_PAGE_SIZE);
                for (region, entry) in regions.zip(span.regions.iter()) {
                    let (pages, table) = self.check_entry(pid, region, entry)?;
                    mapped += pages;
                    tables += table;
                }
            }
        }
        for (page, frame) in self.cache.pages() {
            mapped += 1;
            self.check_owner(frame, Owner::new(PageCache::HOLDER, page))?;
        }
        let (movable, unmovable) = self.memory.totals_in_use();
        if (movable, unmovable) != (mapped, tables + own) {
            return Err(Inconsistent::Mapping(format!(
                "{movable} movable and {unmovable} other pages are in use, {mapped} are mapped, {tables} are page tables, {own} are the kernel's own"
            )));
        }
        Ok(())
    }

    /// The base pages that an entry maps, and the page tables it has.
    fn check_entry(
        &self,
        pid: Pid,
        region: Region,
        entry: &Entry,
    ) -> Result<(u64, u64), Inconsistent> {
        let first = region.start() / BASE_PAGE_SIZE;
        match entry {
            Entry::None => Ok((0, 0)),
            Entry::Base(pages) => {
                let mut count = 0;
                for (place, frame) in pages.pages() {
                    count += 1;
                    self.check_owner(frame, Owner::new(pid.0, first + place as u64))?;
                }
                if count != u64::from(pages.mapped()) {
                    return Err(Inconsistent::Mapping(format!(
                        "{region:?} has {count} pages"
                    )));
                }
                Ok((count, 1))
            }
            Entry::Huge(page) => {
                self.check_owner(page.frame, Owner::new(pid.0, first))?;
                if page.frame.offset() != 0 {
                    return Err(Inconsistent::Mapping(format!("{region:?} is not aligned")));
                }
                Ok((512, 1))
            }
        }
    }

    fn check_owner(&self, frame: Frame, owner: Owner) -> Result<(), Inconsistent> {
        let found = self.memory.owner_of(frame);
        if found == Some(owner) {
            return Ok(());
        }
        Err(Inconsistent::Mapping(format!(
            "{frame:?} is mapped as {owner:?} and says {found:?}"
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
