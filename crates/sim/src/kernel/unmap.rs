//! Memory that a process gives back: parts of it, whole mappings, all at its end.

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Region, Span};

use super::{Kernel, Pid};
use crate::address_space::{Entry, SpanTable, offset_of};

impl Kernel {
    /// `MADV_DONTNEED`: gives back the pages of a range; the mapping stays, and so do pages of shared memory. A huge page that lies in it only in part is split
    /// first, and the part freed at once. Returns the cycles that took.
    pub fn discard(&mut self, pid: Pid, start: u64, bytes: u64) -> u64 {
        self.debug_check_sometimes();
        let end = start.saturating_add(bytes);
        let mut took = self.costs.unmap;
        let mut address = start;
        while address < end {
            let region = Region::containing(address);
            let stop = region.end().min(end);
            took += self.discard_in(pid, region, address, stop);
            address = stop;
        }
        took
    }

    /// Gives back what lies from `start` to `end` in one region.
    fn discard_in(&mut self, pid: Pid, region: Region, start: u64, end: u64) -> u64 {
        let is_whole = end - start == HUGE_PAGE_SIZE;
        let mut took = 0;
        if matches!(self.process(pid).space.entry(region), Entry::Huge(_)) {
            took += self.end_giant(pid, region);
            if is_whole {
                self.free_entry(pid, region);
                return took + self.costs.free_huge;
            }
            self.split_in_place(pid, region);
            took += self.costs.split;
        }
        let pages = (end - start).div_ceil(BASE_PAGE_SIZE);
        let first = offset_of(start);
        for place in (first..512).take(usize::try_from(pages).unwrap_or(512)) {
            if self.free_page(pid, region, place) {
                took += self.costs.free_page;
            }
        }
        took
    }

    /// Unmaps a base page, if it is mapped, and frees it.
    pub(super) fn free_page(&mut self, pid: Pid, region: Region, place: usize) -> bool {
        let space = &mut self.processes[pid.index()].space;
        let Some(Entry::Base(pages)) = space.entry_mut(region) else {
            return false;
        };
        let Some(frame) = pages.unmap(place) else {
            return false;
        };
        self.memory.release(frame);
        true
    }

    /// Frees all that maps a region, with its page table.
    pub(super) fn free_entry(&mut self, pid: Pid, region: Region) {
        let space = &mut self.processes[pid.index()].space;
        if let Some(entry) = space.entry_mut(region) {
            let entry = std::mem::replace(entry, Entry::None);
            self.release(entry);
        }
    }

    fn release(&mut self, entry: Entry) {
        match entry {
            Entry::None => {}
            Entry::Base(pages) => {
                for (_, frame) in pages.pages() {
                    self.memory.release(frame);
                }
                self.memory.free(pages.table);
            }
            Entry::Huge(page) => {
                self.memory.release_huge(page.frame);
                self.memory.free(page.table);
            }
        }
    }

    /// munmap(2): gives back the pages of a range, its page tables where nothing else is mapped there, and the mapping.
    /// Returns the cycles that took.
    pub fn unmap(&mut self, pid: Pid, start: u64, bytes: u64) -> u64 {
        let end = start.saturating_add(bytes).next_multiple_of(BASE_PAGE_SIZE);
        let took = self.discard(pid, start, end - start);
        self.process_mut(pid).space.cut(start, end);
        self.free_tables(pid, start, end);
        self.leave_shared(pid);
        took
    }

    /// Frees the page tables between two addresses that no mapping needs any more (`free_pgtables`).
    fn free_tables(&mut self, pid: Pid, start: u64, end: u64) {
        let first = Region::containing(start).start();
        for at in (first..end).step_by(usize::try_from(HUGE_PAGE_SIZE).unwrap_or(usize::MAX)) {
            if !self.is_mapped_between(pid, at, at + HUGE_PAGE_SIZE) {
                self.free_entry(pid, Region::containing(at));
            }
        }
        let first = Span::of(Region::containing(start)).start();
        for at in (first..end).step_by(usize::try_from(GIANT_PAGE_SIZE).unwrap_or(usize::MAX)) {
            if !self.is_mapped_between(pid, at, at + GIANT_PAGE_SIZE)
                && let Some(table) = self.process_mut(pid).space.remove_span(at)
            {
                self.release_span(table);
            }
        }
    }

    fn is_mapped_between(&self, pid: Pid, start: u64, end: u64) -> bool {
        let areas = self.process(pid).space.areas();
        let next = areas.partition_point(|area| area.end <= start);
        areas.get(next).is_some_and(|area| area.start < end)
    }

    fn release_span(&mut self, table: SpanTable) {
        self.memory.free(table.table);
        for entry in table.regions {
            self.release(entry);
        }
    }

    /// Ends a process and frees all its memory. Returns the cycles that took.
    pub fn exit(&mut self, pid: Pid) -> u64 {
        self.debug_check_sometimes();
        let process = self.process_mut(pid);
        process.is_gone = true;
        let space = std::mem::take(&mut process.space);
        let mut took = 0;
        for table in space.into_spans() {
            let entries = table.regions.iter();
            took += entries
                .map(|entry| self.cost_of_freeing(entry))
                .sum::<u64>();
            self.release_span(table);
        }
        self.families.leave(pid);
        self.leave_shared(pid);
        took
    }

    fn cost_of_freeing(&self, entry: &Entry) -> u64 {
        match entry {
            Entry::None => 0,
            Entry::Base(pages) => u64::from(pages.mapped()) * self.costs.free_page,
            Entry::Huge(_) => self.costs.free_huge,
        }
    }
}
