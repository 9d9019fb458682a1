//! fork(2): a child with the mappings of its parent, and entries for the same pages.

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, Region};

use super::{Kernel, Pid};
use crate::address_space::{Area, Bits, Entry, HugePage, Marks, offset_of};

impl Kernel {
    /// Starts a child of a process, which shares all its private pages: a write by either faults (`dup_mmap`, `copy_page_range`). Giant
    /// pages become huge ones first, as the patched kernel has it. The child, and the cycles that the parent waited; `None` where
    /// no memory is left for its page tables.
    pub fn fork(&mut self, parent: Pid) -> Option<(Pid, u64)> {
        self.debug_check_sometimes();
        let child = self.spawn(self.node_of(parent));
        self.families.add(parent, child);
        let space = self.process(parent).space.for_child();
        let faults_base = self.process(parent).faults_base;
        let process = self.process_mut(child);
        (process.space, process.faults_base) = (space, faults_base);
        let mut took = self.costs.fork;
        self.inherit_shared(parent, child);
        for area in self.process(parent).space.areas().to_vec() {
            // Faults find what is in shared memory (`vma_needs_copy`).
            if area.shared.is_some() {
                continue;
            }
            match self.share_area(parent, child, &area) {
                Some(cycles) => took += cycles,
                None => {
                    self.exit(child);
                    return None;
                }
            }
        }
        Some((child, took))
    }

    /// Shares what is mapped of an area. The cycles that took; `None` where memory is used up.
    fn share_area(&mut self, parent: Pid, child: Pid, area: &Area) -> Option<u64> {
        let mut took = 0;
        let mut address = area.start;
        while address < area.end {
            if self.process(parent).space.span(address).is_none() {
                address = address / GIANT_PAGE_SIZE * GIANT_PAGE_SIZE + GIANT_PAGE_SIZE;
                continue;
            }
            let region = Region::containing(address);
            let end = region.end().min(area.end);
            took += match self.process(parent).space.entry(region) {
                Entry::None => 0,
                Entry::Huge(_) => self.share_huge(parent, child, region)?,
                Entry::Base(_) => self.share_base(parent, child, address, end)?,
            };
            address = end;
        }
        Some(took)
    }

    /// `copy_huge_pmd`.
    fn share_huge(&mut self, parent: Pid, child: Pid, region: Region) -> Option<u64> {
        let took = self.end_giant(parent, region);
        self.need_span(child, region.start())?;
        let table = self.table(child)?;
        let Some(Entry::Huge(page)) = self.process_mut(parent).space.entry_mut(region) else {
            return Some(took);
        };
        page.protected = true;
        let copy = HugePage {
            marks: Marks::default(),
            table,
            ..**page
        };
        self.memory.share_huge(copy.frame);
        let frame = copy.frame;
        self.set_huge(child, region, copy);
        self.debug_check_mappings(frame);
        Some(took + self.costs.fork_huge)
    }

    /// `copy_pte_range`, from an address to another in the same region.
    fn share_base(&mut self, parent: Pid, child: Pid, start: u64, end: u64) -> Option<u64> {
        let region = Region::containing(start);
        self.need_span(child, start)?;
        self.need_base(child, region)?;
        let from = offset_of(start);
        let to = from + usize::try_from((end - start) / BASE_PAGE_SIZE).unwrap_or(0);
        let Some(Entry::Base(pages)) = self.process_mut(parent).space.entry_mut(region) else {
            return Some(0);
        };
        let shared = pages
            .pages()
            .filter(|(place, _)| (from..to).contains(place));
        let shared: Vec<_> = shared.collect();
        let mut inside = Bits::default();
        shared.iter().for_each(|(place, _)| inside.set(*place));
        pages.protected = pages.protected | inside;
        let filled = pages.filled & inside;
        if let Some(Entry::Base(copy)) = self.process_mut(child).space.entry_mut(region) {
            shared
                .iter()
                .for_each(|(place, frame)| copy.map(*place, *frame));
            copy.protected = copy.protected | inside;
            copy.filled = copy.filled | filled;
        }
        for (_, frame) in &shared {
            self.memory.share(*frame);
            self.debug_check_mappings(*frame);
        }
        Some(shared.len() as u64 * self.costs.fork_page)
    }
}
