//! Emptying chosen blocks and chunks, as mega's kernel module does it through `alloc_contig_range`.

use std::ops::Range;

use mega_core::compaction::{Emptied, MigrationCounts, Stopped, ToEmpty, Unit};
use mega_core::{HUGE_PAGE_SIZE, Region};

use super::Kernel;
use super::chunk::Chunk;
use super::shared_memory::mappers;
use crate::address_space::Entry;
use crate::physical::{BlockUse, Frame, Owner, Pages, Urgency};

/// Pages reclaimed at a time (`SWAP_CLUSTER_MAX`).
const RECLAIMED_AT_ONCE: u64 = 32;

impl Kernel {
    /// Empties one target and reports on it, with the cycles that took.
    pub(crate) fn empty(&mut self, target: &ToEmpty) -> (Emptied, u64) {
        self.debug_check_sometimes();
        let blocks = match self.blocks_of(target) {
            Some(blocks) => blocks,
            None => {
                return (
                    report(target, Stopped::NotInOneZone, MigrationCounts::default()),
                    0,
                );
            }
        };
        if let Some(stopped) = self.obstacle(target.unit, &blocks) {
            return (report(target, stopped, MigrationCounts::default()), 0);
        }
        let (stopped, counts, took) = self.empty_blocks(blocks, target.unit == Unit::Chunk);
        (report(target, stopped, counts), took)
    }

    /// The blocks of a target, if they are all memory of one zone.
    fn blocks_of(&self, target: &ToEmpty) -> Option<Range<u32>> {
        let pages = target.unit.pages();
        let first = u32::try_from(target.first_pfn).ok()?;
        if !first.is_multiple_of(pages) {
            return None;
        }
        let blocks = first / 512..first.checked_add(pages)? / 512;
        self.memory.are_of_one_zone(&blocks).then_some(blocks)
    }

    /// What can be told beforehand.
    fn obstacle(&self, unit: Unit, blocks: &Range<u32>) -> Option<Stopped> {
        let all = || blocks.clone();
        if all().all(|block| self.memory.block_use(block) == BlockUse::Free) {
            return Some(Stopped::AlreadyFree);
        }
        if all().any(|block| self.memory.observe_block(block).unmovable > 0) {
            return Some(Stopped::Unmovable);
        }
        let holds_huge = match unit {
            Unit::Block => {
                all().any(|block| matches!(self.memory.block_use(block), BlockUse::Huge(_)))
            }
            Unit::Chunk => self.holds_giant(Chunk(blocks.start / 512)),
        };
        holds_huge.then_some(Stopped::Huge)
    }

    /// Moves all that can be moved out of blocks, huge pages too where `moves_huge` is set. Why it ended, what was done, and
    /// the cycles it took. Gives up at the first page for which there is no room.
    pub(super) fn empty_blocks(
        &mut self,
        blocks: Range<u32>,
        moves_huge: bool,
    ) -> (Stopped, MigrationCounts, u64) {
        for block in blocks.clone() {
            self.memory.isolate(block);
        }
        let mut counts = MigrationCounts::default();
        let mut took = 0;
        let mut stopped = Stopped::Emptied;
        for block in blocks.clone() {
            counts.scanned += 512;
            took += 512 * self.costs.scan_frame;
            let has_room = match self.memory.block_use(block) {
                BlockUse::Free => true,
                BlockUse::Huge(_) if moves_huge => {
                    self.move_huge_out(block, &mut counts, &mut took)
                }
                BlockUse::Huge(_) => true,
                BlockUse::Other => self.move_base_out(block, &mut counts, &mut took),
            };
            if !has_room {
                stopped = Stopped::NoMemory;
                break;
            }
        }
        for block in blocks {
            self.memory.end_isolation(block);
        }
        (stopped, counts, took)
    }

    /// Moves the base pages of a block elsewhere. Whether there was room for all.
    fn move_base_out(&mut self, block: u32, counts: &mut MigrationCounts, took: &mut u64) -> bool {
        for page in self.memory.movable_in(block) {
            counts.isolated += 1;
            self.counters.isolated += 1;
            // Page cache that was reclaimed for another page of the block is gone.
            if self.memory.owner_of(page.frame) != Some(page.owner) {
                continue;
            }
            let mappings = self.memory.mappings(page.frame);
            let Some(to) = self.migrate(page.frame) else {
                if self.memory.owner_of(page.frame).is_none() {
                    continue;
                }
                counts.failed += 1;
                return false;
            };
            self.relocated(page.owner, page.frame, to);
            self.count_migrated(1);
            counts.migrated += 1;
            *took += self.costs.copy_page + self.cost_of_remapping(mappings);
        }
        true
    }

    /// Moves a base page elsewhere, and reclaims page cache where that needs room. Its new place.
    fn migrate(&mut self, from: Frame) -> Option<Frame> {
        loop {
            let owner = self.memory.owner_of(from)?;
            if let Some(to) = self.memory.migrate(from) {
                return Some(to);
            }
            self.reclaim_pages(RECLAIMED_AT_ONCE);
            // What was reclaimed may be this page itself, and then it is out of the way.
            if self.cached() == 0 || self.memory.owner_of(from) != Some(owner) {
                return None;
            }
        }
    }

    /// Moves the huge page that a block holds into another block; where none is free, splits it and moves its base pages
    /// (`migrate_pages_batch`). Whether there was room.
    fn move_huge_out(&mut self, block: u32, counts: &mut MigrationCounts, took: &mut u64) -> bool {
        let BlockUse::Huge(owner) = self.memory.block_use(block) else {
            return true;
        };
        let from = Frame::in_block(block, 0);
        let mapper = mappers(&self.families, &self.shared, owner).next();
        let node = mapper.map_or(0, |(pid, _)| self.node_of(pid));
        let Some(to) = self
            .memory
            .allocate(Pages::Huge(owner), node, Urgency::Pressed)
        else {
            *took += self.split_everywhere(owner, from);
            return self.move_base_out(block, counts, took);
        };
        counts.isolated += 512;
        self.counters.isolated += 512;
        let mappings = self.relocated_huge(owner, from, to);
        self.memory.migrate_huge(from, to);
        self.debug_check_mappings(to);
        self.counters.migrated += 512;
        if !self.settings.exchanges {
            self.counters.bytes_copied += HUGE_PAGE_SIZE;
        }
        counts.migrated += 512;
        *took += self.cost_of_moving_huge() + self.cost_of_remapping(mappings);
        true
    }

    /// Tells whoever maps a huge page, or parts of it, where it lies now. How many page tables that were.
    fn relocated_huge(&mut self, owner: Owner, from: Frame, to: Frame) -> u32 {
        let mut mappings = 0;
        for (pid, address) in mappers(&self.families, &self.shared, owner) {
            // Shared memory may be mapped at addresses at which no huge page fits: by base pages of two regions.
            let first = Region::containing(address);
            let last = Region::containing(address + HUGE_PAGE_SIZE - 1);
            let second = (last != first).then_some(last);
            for region in std::iter::once(first).chain(second) {
                match self.processes[pid.index()].space.entry_mut(region) {
                    Some(Entry::Huge(page)) if page.frame == from => {
                        page.frame = to;
                        mappings += 1;
                    }
                    Some(Entry::Base(pages)) => {
                        mappings += u32::from(pages.moved_block(from, to));
                    }
                    _ => {}
                }
            }
        }
        if let Some(id) = self.shared_of(owner) {
            self.shared[id.0 as usize].relocated_huge(owner.page(), to);
        }
        mappings
    }

    /// Has base entries map a huge page wherever an entry maps it whole (`split_huge_page`). The cycles that took.
    fn split_everywhere(&mut self, owner: Owner, first: Frame) -> u64 {
        let mut took = self.costs.split;
        let mappers: Vec<_> = mappers(&self.families, &self.shared, owner).collect();
        for (pid, address) in mappers {
            let region = Region::containing(address);
            if matches!(self.process(pid).space.entry(region), Entry::Huge(page) if page.frame == first)
            {
                took += self.end_giant(pid, region);
                self.split_in_place(pid, region);
            }
        }
        if let Some(id) = self.shared_of(owner) {
            self.split_shared(id, owner.page(), first);
        }
        took
    }
}

fn report(target: &ToEmpty, stopped: Stopped, counts: MigrationCounts) -> Emptied {
    Emptied {
        target: *target,
        stopped,
        counts,
        took: std::time::Duration::ZERO,
    }
}
