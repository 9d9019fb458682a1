//! What a manager sees: the regions of a process, and physical memory. Looking clears the Accessed bits.

use std::collections::BTreeMap;

use mega_core::compaction::PhysicalObservation;
use mega_core::{
    BASE_PAGE_SIZE, MemoryObservation, PAGES_PER_REGION, PageSize, Region, RegionObservation,
};

use super::chunk::Chunk;
use super::{Kernel, Pid};
use crate::address_space::{Area, Bits, Entry, Marks};

impl Kernel {
    /// The regions of a process that a huge page could map, with what was accessed since the last look; and the cycles that
    /// took.
    pub(crate) fn look(&mut self, pid: Pid) -> (Vec<RegionObservation>, u64) {
        let costs = self.costs;
        let process = &mut self.processes[pid.index()];
        let areas = process.space.areas().to_vec();
        let mut seen = Vec::new();
        let mut took = 0;
        for (start, span) in process.space.spans_mut() {
            let giant = span.giant.map(|marks| marks.accessed);
            if let Some(marks) = &mut span.giant {
                marks.accessed = false;
                took += costs.look_huge;
            }
            let regions = Region::wholly_inside(start, start + mega_core::GIANT_PAGE_SIZE);
            for (region, entry) in regions.zip(&mut span.regions) {
                let observation = match entry {
                    Entry::None => continue,
                    Entry::Base(pages) => {
                        took += u64::from(pages.mapped()) * costs.look_page;
                        let accessed = std::mem::take(&mut pages.accessed);
                        base_pages(region, pages.mapped(), accessed)
                    }
                    Entry::Huge(page) => {
                        let was_accessed = match giant {
                            Some(accessed) => accessed,
                            None => {
                                took += costs.look_huge;
                                std::mem::take(&mut page.marks.accessed)
                            }
                        };
                        let page_size = match giant {
                            Some(_) => PageSize::Giant,
                            None => PageSize::Huge,
                        };
                        RegionObservation {
                            region,
                            mapped: PAGES_PER_REGION,
                            accessed: if was_accessed { PAGES_PER_REGION } else { 0 },
                            page_size,
                            zero_filled: None,
                            swapped: 0,
                        }
                    }
                };
                if observation.mapped > 0 && fits(&areas, region) {
                    seen.push(observation);
                }
            }
        }
        (seen, took)
    }

    /// The regions that a huge page could map and base pages do, with what was accessed since the last look, in address order; and the
    /// cycles that took. Clears nothing.
    pub(crate) fn peek(&self, pid: Pid) -> (Vec<RegionObservation>, u64) {
        let space = &self.process(pid).space;
        let mut seen = Vec::new();
        let mut took = 0;
        for (start, span) in space.spans() {
            let regions = Region::wholly_inside(start, start + mega_core::GIANT_PAGE_SIZE);
            for (region, entry) in regions.zip(&span.regions) {
                let Entry::Base(pages) = entry else {
                    continue;
                };
                took += u64::from(pages.mapped()) * self.costs.read_page;
                if pages.mapped() > 0 && fits(space.areas(), region) {
                    seen.push(base_pages(region, pages.mapped(), pages.accessed));
                }
            }
        }
        (seen, took)
    }

    /// Clears the Accessed bits of a region's base pages, and says which were set; and the cycles that took. `None` where base
    /// pages do not map it.
    pub(crate) fn take_accessed(&mut self, pid: Pid, region: Region) -> (Option<Bits>, u64) {
        let cost = self.costs.look_page;
        match self.process_mut(pid).space.entry_mut(region) {
            Some(Entry::Base(pages)) => {
                let took = u64::from(pages.mapped()) * cost;
                (Some(std::mem::take(&mut pages.accessed)), took)
            }
            _ => (None, 0),
        }
    }

    /// The Accessed bits that are set of a region's base pages; and the cycles that took.
    pub(crate) fn accessed(&self, pid: Pid, region: Region) -> (Bits, u64) {
        match self.process(pid).space.entry(region) {
            Entry::Base(pages) => {
                let took = u64::from(pages.mapped()) * self.costs.read_page;
                (pages.accessed, took)
            }
            Entry::None | Entry::Huge(_) => (Bits::default(), 0),
        }
    }

    /// Sets Accessed bits of a region's base pages again, of those that are still mapped.
    pub(crate) fn add_accessed(&mut self, pid: Pid, region: Region, bits: &Bits) {
        if let Some(Entry::Base(pages)) = self.process_mut(pid).space.entry_mut(region) {
            for place in bits.places() {
                if pages.frame(place).is_some() {
                    pages.accessed.set(place);
                }
            }
        }
    }

    /// How much memory is free.
    pub(crate) fn look_at_memory(&self) -> MemoryObservation {
        let nodes = self.memory.node_memory();
        let free = nodes.iter().map(|node| node.free).sum::<u64>();
        let kept = self.memory.kept_frames();
        MemoryObservation {
            total: self.memory.frames() * BASE_PAGE_SIZE,
            // `si_mem_available`: what is free above the low watermarks, and the page cache.
            available: free.saturating_sub(kept * BASE_PAGE_SIZE) + self.cached() * BASE_PAGE_SIZE,
            free,
            contiguity: nodes.iter().map(|node| node.contiguity).sum(),
            nodes,
        }
    }

    /// Zero-filled base pages of a region; and the cycles that took. `None` where nothing maps it.
    pub(crate) fn count_zero_filled(&self, pid: Pid, region: Region) -> Option<(u16, u64)> {
        let (mapped, filled) = match self.process(pid).space.entry(region) {
            Entry::None => return None,
            Entry::Base(pages) => (pages.mapped(), pages.filled.count()),
            Entry::Huge(page) => (PAGES_PER_REGION, page.filled.count()),
        };
        Some((mapped - filled, u64::from(mapped) * self.costs.inspect_page))
    }

    /// All of physical memory, with what was accessed since the last such look; and the cycles that took.
    pub(crate) fn look_at_physical(&mut self) -> (PhysicalObservation, u64) {
        let accessed = self.take_young();
        let mut zones = self.memory.observe_zones();
        for zone in &mut zones {
            for block in &mut zone.blocks {
                let Ok(index) = u32::try_from(block.block.index()) else {
                    continue;
                };
                block.accessed = Some(accessed[index as usize]);
                if self.is_in_giant(index) {
                    block.page_size = PageSize::Giant;
                }
            }
        }
        let took = self.memory.frames() * self.costs.scan_frame;
        (PhysicalObservation { zones }, took)
    }

    /// For each block, the base pages in it that were accessed since this was asked last. A page that several processes map counts
    /// once, whoever accessed it.
    fn take_young(&mut self) -> Vec<u16> {
        let mut young = vec![0u16; self.memory.blocks() as usize];
        // Of each block, the pages that more than one entry maps: few have such.
        let mut shared: BTreeMap<u32, Bits> = BTreeMap::new();
        let memory = &self.memory;
        for process in &mut self.processes {
            for (_, span) in process.space.spans_mut() {
                let giant = span.giant.as_mut().map(take_young);
                for entry in &mut span.regions {
                    match entry {
                        Entry::None => {}
                        Entry::Base(pages) => {
                            for place in std::mem::take(&mut pages.young).places() {
                                let Some(frame) = pages.frame(place) else {
                                    continue;
                                };
                                let block = frame.block_index();
                                if memory.mappings(frame) > 1 {
                                    shared.entry(block).or_default().set(frame.offset());
                                } else {
                                    young[block as usize] += 1;
                                }
                            }
                        }
                        Entry::Huge(page) => {
                            if giant.unwrap_or_else(|| take_young(&mut page.marks)) {
                                young[page.frame.block_index() as usize] = PAGES_PER_REGION;
                            }
                        }
                    }
                }
            }
        }
        for (block, bits) in shared {
            let young = &mut young[block as usize];
            // Who maps a huge page whole has accessed all of it already.
            *young = PAGES_PER_REGION.min(*young + bits.count());
        }
        young
    }

    /// Chunks of memory without a single unmovable page.
    #[must_use]
    pub fn movable_chunks(&self) -> u32 {
        let chunks = (0..self.memory.blocks() / 512).map(Chunk);
        let movable = chunks.filter(|chunk| self.memory.chunk_counts(chunk.0).unmovable == 0);
        movable.count().try_into().unwrap_or(u32::MAX)
    }
}

/// A region that base pages map.
fn base_pages(region: Region, mapped: u16, accessed: Bits) -> RegionObservation {
    RegionObservation {
        region,
        mapped,
        accessed: accessed.count(),
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    }
}

/// Whether a huge page could map a region in these mappings.
fn fits(areas: &[Area], region: Region) -> bool {
    let next = areas.partition_point(|area| area.end <= region.start());
    let area = areas.get(next);
    area.is_some_and(|area| area.holds(region.start(), PageSize::Huge))
}

fn take_young(marks: &mut Marks) -> bool {
    std::mem::take(&mut marks.young)
}
