//! Promotion of regions to huge pages, and back.

use mega_core::{BASE_PAGE_SIZE, Cause, HUGE_PAGE_SIZE, Outcome, PageSize, Region, Span};

use super::{Kernel, Pid};
use crate::address_space::{Advice, BasePages, Bits, Entry, HugePage, Marks};
use crate::physical::{Owner, Pages};

/// What came of an action, and the cycles it took.
pub(crate) type Done = (Outcome, u64);

impl Kernel {
    /// Replaces the base pages of a region by a huge page (`MADV_COLLAPSE`, `collapse_huge_page`): what is mapped is copied,
    /// shared or not, and the rest zeroed. One page at least must be writable: all are protected after a fork. The process stands still for as long. What came of it, and the cycles that it took.
    pub fn promote(&mut self, pid: Pid, region: Region) -> (Outcome, u64) {
        self.debug_check_sometimes();
        let process = self.process(pid);
        if let Some((area, shared)) = process.space.shared_at(region.start()) {
            return self.promote_shared(pid, region, &area, shared);
        }
        let resident_before = match process.space.entry(region) {
            Entry::Huge(_) => return (Outcome::AlreadySo, 0),
            Entry::None => return (Outcome::Failed(Cause::NotEligible), 0),
            // `SCAN_PAGE_RO`.
            Entry::Base(pages) if !pages.is_writable() => {
                return (Outcome::Failed(Cause::NotEligible), 0);
            }
            Entry::Base(pages) => u64::from(pages.mapped()) * BASE_PAGE_SIZE,
        };
        let is_allowed = process.space.area_of(region.start()).is_some_and(|area| {
            area.holds(region.start(), PageSize::Huge) && area.advice != Advice::NoHuge
        });
        if !is_allowed || resident_before == 0 {
            return (Outcome::Failed(Cause::NotEligible), 0);
        }
        let owner = Owner::new(pid.0, region.start() / BASE_PAGE_SIZE);
        let (frame, waited) = self.allocate(Pages::Huge(owner), self.node_of(pid), true);
        let Some(frame) = frame else {
            return (Outcome::Failed(Cause::NoMemory), waited);
        };
        let Some(pages) = self.take_base(pid, region) else {
            self.memory.free(frame);
            return (Outcome::Failed(Cause::NotEligible), waited);
        };
        for (_, old) in pages.pages() {
            self.memory.release(old);
        }
        self.set_huge(
            pid,
            region,
            HugePage {
                frame,
                // The new entry has its Accessed bit set, as the protection of a mapping has (`vm_page_prot` on x86).
                marks: Marks::SET,
                filled: pages.filled,
                protected: false,
                table: pages.table,
            },
        );
        let mapped = u64::from(pages.mapped());
        self.counters.bytes_copied += mapped * BASE_PAGE_SIZE;
        let moving = mapped * self.costs.copy_page + (512 - mapped) * self.costs.zero_page;
        let done = Outcome::Done {
            resident_before,
            resident_after: HUGE_PAGE_SIZE,
        };
        (done, waited + self.costs.collapse + moving)
    }

    pub(super) fn take_base(&mut self, pid: Pid, region: Region) -> Option<BasePages> {
        let entry = self.process_mut(pid).space.entry_mut(region)?;
        match std::mem::replace(entry, Entry::None) {
            Entry::Base(pages) => Some(*pages),
            other => {
                *entry = other;
                None
            }
        }
    }

    /// Replaces a huge page by base pages where it lies, and gives back those that hold only zeros
    /// (`split_huge_page`, Linux 6.12 and newer). One that is shared is left alone (`madvise_cold_or_pageout_pte_range`). What came of it, and the cycles that it took.
    pub fn demote(&mut self, pid: Pid, region: Region) -> (Outcome, u64) {
        self.debug_check_sometimes();
        if let Some((_, shared)) = self.process(pid).space.shared_at(region.start()) {
            return self.demote_shared(pid, region, shared);
        }
        let filled = match self.process(pid).space.entry(region) {
            Entry::Huge(page) => page.filled,
            Entry::Base(_) => return (Outcome::AlreadySo, 0),
            Entry::None => return (Outcome::Failed(Cause::NotEligible), 0),
        };
        if self.is_shared_huge(pid, region) {
            return (Outcome::Failed(Cause::Busy), 0);
        }
        let took = self.end_giant(pid, region) + self.costs.split;
        self.split_in_place(pid, region);
        for place in (0..512).filter(|&place| !filled.get(place)) {
            self.free_page(pid, region, place);
        }
        let done = Outcome::Done {
            resident_before: HUGE_PAGE_SIZE,
            resident_after: u64::from(filled.count()) * BASE_PAGE_SIZE,
        };
        (done, took + 512 * self.costs.inspect_page)
    }

    /// Has base entries map a huge page where it lies; all its base pages stay. Each has the Accessed bit that the huge page had
    /// (`__split_huge_pmd_locked`). It is a huge page no more, unless another process maps it whole.
    pub(super) fn split_in_place(&mut self, pid: Pid, region: Region) {
        let Some(entry) = self.processes[pid.index()].space.entry_mut(region) else {
            return;
        };
        let Entry::Huge(page) = entry else {
            return;
        };
        let bits = |is_set: bool| if is_set { Bits::ALL } else { Bits::default() };
        let mut pages = BasePages::new(page.table);
        for (place, offset) in (0..512).zip(0..) {
            pages.map(
                place,
                crate::physical::Frame::new(page.frame.number() + offset),
            );
        }
        pages.accessed = bits(page.marks.accessed);
        pages.young = bits(page.marks.young);
        pages.filled = page.filled;
        pages.protected = bits(page.protected);
        let frame = page.frame;
        *entry = Entry::Base(Box::new(pages));
        self.memory.split_mapping(frame);
    }

    /// Maps the span of a region by huge pages, if a giant one maps it. The cycles that took.
    pub(super) fn end_giant(&mut self, pid: Pid, region: Region) -> u64 {
        let space = &mut self.processes[pid.index()].space;
        let Some(span) = space.span_mut(Span::of(region).start()) else {
            return 0;
        };
        let Some(marks) = span.giant.take() else {
            return 0;
        };
        for entry in &mut span.regions {
            if let Entry::Huge(page) = entry {
                page.marks = marks;
            }
        }
        self.costs.split_giant
    }
}
