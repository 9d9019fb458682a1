//! Page faults of all three sizes.

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, PageSize, Region, Span};

use super::{Defrag, Kernel, Pid, Thp};
use crate::address_space::{
    Advice, Area, BasePages, Bits, Entry, HugePage, Marks, SpanTable, offset_of,
};
use crate::physical::{Frame, Owner, Pages};

/// Tables for base pages that are kept for the huge pages of a span.
const TABLES: usize = 512;

/// What a touch of memory came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The page that maps it.
    pub page_size: PageSize,
    /// Cycles that the process waited for a page fault; 0 where there was none.
    pub fault: u64,
}

/// Why memory could not be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The process has no mapping there.
    #[error("address {0:#x} is not mapped")]
    NotMapped(u64),
    /// No page is left, for it or for its page table.
    #[error("no memory is left for address {0:#x}")]
    NoMemory(u64),
}

impl Kernel {
    /// Touches memory: writes something other than zero to a base page. All first touches are writes here.
    ///
    /// # Errors
    ///
    /// Where it is not mapped, and where memory is used up.
    pub fn touch(&mut self, pid: Pid, address: u64) -> Result<Touched, Fault> {
        let space = &mut self.processes[pid.index()].space;
        if let Some(page_size) = space.touch(address) {
            return Ok(Touched {
                page_size,
                fault: 0,
            });
        }
        self.debug_check_sometimes();
        let (page_size, fault) = match self.fault_protected(pid, address)? {
            Some(done) => done,
            None => self.fault(pid, address)?,
        };
        let process = self.process_mut(pid);
        process.space.touch(address);
        process.faults[page_size as usize].record(fault);
        Ok(Touched { page_size, fault })
    }

    /// Reads memory. `None` where private memory was never written to: Linux has a page of zeros for that, here it takes no memory
    /// and no time.
    ///
    /// # Errors
    ///
    /// Where it is not mapped, and where memory is used up.
    pub fn read(&mut self, pid: Pid, address: u64) -> Result<Option<Touched>, Fault> {
        if let Some(page_size) = self.process_mut(pid).space.read(address) {
            let fault = 0;
            return Ok(Some(Touched { page_size, fault }));
        }
        let area = self.process(pid).space.area_of(address);
        if area.ok_or(Fault::NotMapped(address))?.shared.is_none() {
            return Ok(None);
        }
        self.debug_check_sometimes();
        let (page_size, fault) = self.fault(pid, address)?;
        let process = self.process_mut(pid);
        process.space.read(address);
        process.faults[page_size as usize].record(fault);
        Ok(Some(Touched { page_size, fault }))
    }

    /// Touches base pages in a row, within one region, if such pages map them all and none is protected. Whether that is so.
    pub(crate) fn touch_row(&mut self, pid: Pid, address: u64, pages: u64) -> bool {
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        self.process_mut(pid).space.touch_row(address, pages)
    }

    /// Maps a page at an address that has none (`__handle_mm_fault`). Its size, and the cycles it took.
    fn fault(&mut self, pid: Pid, address: u64) -> Result<(PageSize, u64), Fault> {
        let process = self.process(pid);
        let area = *process
            .space
            .area_of(address)
            .ok_or(Fault::NotMapped(address))?;
        if let Some(shared) = area.shared {
            let mapped = self.fault_shared(pid, &area, shared, address);
            return mapped.ok_or(Fault::NoMemory(address));
        }
        let takes_huge = self.takes_huge(pid, &area);
        let mut took = self.costs.fault;
        if takes_huge
            && self.fits_giant(pid, &area, address)
            && let Some(cycles) = self.fault_giant(pid, address)
        {
            return Ok((PageSize::Giant, cycles));
        }
        self.need_span(pid, address)
            .ok_or(Fault::NoMemory(address))?;
        if takes_huge && self.settings.huge_faults && self.fits_huge(pid, &area, address) {
            let compacts = match self.settings.defrag {
                Defrag::Never => false,
                Defrag::Madvise => area.advice == Advice::Huge,
                Defrag::Always => true,
            };
            let (is_mapped, waited) = self.fault_huge(pid, address, compacts);
            took += waited;
            if is_mapped {
                return Ok((PageSize::Huge, took + 512 * self.costs.zero_page));
            }
        }
        self.fault_base(pid, address)
            .ok_or(Fault::NoMemory(address))?;
        Ok((PageSize::Base, took + self.costs.zero_page))
    }

    /// Whether faults in a mapping may take huge pages (`thp_vma_allowable_order`).
    fn takes_huge(&self, pid: Pid, area: &Area) -> bool {
        match (self.settings.thp, area.advice) {
            (Thp::Never, _) | (_, Advice::NoHuge) => false,
            _ if self.process(pid).faults_base => false,
            (Thp::Madvise, advice) => advice == Advice::Huge,
            (Thp::Always, _) => true,
        }
    }

    fn fits_huge(&self, pid: Pid, area: &Area, address: u64) -> bool {
        let entry = self.process(pid).space.entry(Region::containing(address));
        area.holds(address, PageSize::Huge) && matches!(entry, Entry::None)
    }

    fn fits_giant(&self, pid: Pid, area: &Area, address: u64) -> bool {
        let is_empty = |table: &SpanTable| table.is_empty();
        self.settings.giant_faults
            && area.holds(address, PageSize::Giant)
            && self.process(pid).space.span(address).is_none_or(is_empty)
    }

    /// Sees to it that a span has a table.
    pub(super) fn need_span(&mut self, pid: Pid, address: u64) -> Option<()> {
        if self.process(pid).space.span(address).is_none() {
            let table = self.table(pid)?;
            let space = &mut self.process_mut(pid).space;
            space.add_span(address, SpanTable::new(table));
        }
        Some(())
    }

    /// A page for a page table.
    pub(super) fn table(&mut self, pid: Pid) -> Option<Frame> {
        self.allocate(Pages::Unmovable(0), self.node_of(pid), false)
            .0
    }

    /// Sees to it that a region that has no huge page has a table for base pages.
    pub(super) fn need_base(&mut self, pid: Pid, region: Region) -> Option<()> {
        if matches!(self.process(pid).space.entry(region), Entry::None) {
            let table = self.table(pid)?;
            let pages = Entry::Base(Box::new(BasePages::new(table)));
            *self.process_mut(pid).space.entry_mut(region)? = pages;
        }
        Some(())
    }

    fn fault_base(&mut self, pid: Pid, address: u64) -> Option<()> {
        let region = Region::containing(address);
        self.need_base(pid, region)?;
        let owner = Owner::new(pid.0, address / BASE_PAGE_SIZE);
        let (frame, _) = self.allocate(Pages::Base(owner), self.node_of(pid), false);
        let frame = frame?;
        if let Some(Entry::Base(pages)) = self.process_mut(pid).space.entry_mut(region) {
            pages.map(offset_of(address), frame);
        }
        Some(())
    }

    /// Whether it could be mapped, and the cycles that compaction took.
    fn fault_huge(&mut self, pid: Pid, address: u64, compacts: bool) -> (bool, u64) {
        let region = Region::containing(address);
        let Some(table) = self.table(pid) else {
            return (false, 0);
        };
        let owner = Owner::new(pid.0, region.start() / BASE_PAGE_SIZE);
        let (frame, waited) = self.allocate(Pages::Huge(owner), self.node_of(pid), compacts);
        let Some(frame) = frame else {
            self.memory.free(table);
            return (false, waited);
        };
        self.set_huge(
            pid,
            region,
            HugePage {
                frame,
                marks: Marks::default(),
                filled: Bits::default(),
                protected: false,
                table,
            },
        );
        (true, waited)
    }

    pub(super) fn set_huge(&mut self, pid: Pid, region: Region, page: HugePage) {
        if let Some(entry) = self.process_mut(pid).space.entry_mut(region) {
            *entry = Entry::Huge(Box::new(page));
        }
    }

    /// Maps a giant page where a chunk is free and nothing is mapped yet. The cycles that took; `None` where none could be mapped.
    fn fault_giant(&mut self, pid: Pid, address: u64) -> Option<u64> {
        let is_zeroed = self.has_zeroed_chunk(self.node_of(pid));
        if self.try_fault_giant(pid, address).is_none() {
            self.counters.giant_fault_failed += 1;
            return None;
        }
        self.counters.giant_faults += 1;
        if is_zeroed {
            self.take_zeroed_chunk();
            return Some(self.costs.giant_fault);
        }
        let zeroing = (GIANT_PAGE_SIZE / BASE_PAGE_SIZE) * self.costs.zero_page;
        Some(self.costs.giant_fault + zeroing)
    }

    /// The page tables come first: they may be what takes the last chunk apart, and then nothing is to be undone but them.
    fn try_fault_giant(&mut self, pid: Pid, address: u64) -> Option<()> {
        self.free_chunk(self.node_of(pid))?;
        self.need_span(pid, address)?;
        let tables: Vec<Frame> = (0..TABLES).map_while(|_| self.table(pid)).collect();
        let chunk = self.free_chunk(self.node_of(pid));
        let Some(chunk) = chunk.filter(|_| tables.len() == TABLES) else {
            for table in tables {
                self.memory.free(table);
            }
            return None;
        };
        let span = Span::of(Region::containing(address));
        let regions = Region::wholly_inside(span.start(), span.end());
        for ((region, block), table) in regions.zip(chunk.blocks()).zip(tables) {
            let owner = Owner::new(pid.0, region.start() / BASE_PAGE_SIZE);
            let was_free = self.memory.take_block(block, owner);
            debug_assert!(was_free, "block {block} of a free chunk is not free");
            self.set_huge(
                pid,
                region,
                HugePage {
                    frame: Frame::new(block * 512),
                    marks: Marks::default(),
                    filled: Bits::default(),
                    protected: false,
                    table,
                },
            );
        }
        self.process_mut(pid).space.span_mut(address)?.giant = Some(Marks::default());
        Some(())
    }
}
