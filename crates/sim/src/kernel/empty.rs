//! Emptying chosen blocks and chunks, as mega's kernel module does it through `alloc_contig_range`.

use std::ops::Range;

use mega_core::compaction::{Emptied, MigrationCounts, Stopped, ToEmpty, Unit};

use super::chunk::Chunk;
use super::{Kernel, Pid};
use crate::address_space::Entry;
use crate::physical::{BlockUse, Frame, Pages, Urgency};

/// Pages reclaimed at a time (`SWAP_CLUSTER_MAX`).
const RECLAIMED_AT_ONCE: u64 = 32;

impl Kernel {
    /// Empties one target and reports on it, with the cycles that took.
    pub(crate) fn empty(&mut self, target: &ToEmpty) -> (Emptied, u64) {
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
            let Some(to) = self.migrate(page.frame) else {
                if self.memory.owner_of(page.frame).is_none() {
                    continue;
                }
                counts.failed += 1;
                return false;
            };
            self.relocated(page.owner, to);
            self.count_migrated(1);
            counts.migrated += 1;
            *took += self.costs.copy_page + self.costs.migrate_page;
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
        let pid = Pid(owner.holder());
        let node = self.node_of(pid);
        let region = mega_core::Region::containing(owner.page() * mega_core::BASE_PAGE_SIZE);
        let Some(to) = self
            .memory
            .allocate(Pages::Huge(owner), node, Urgency::Pressed)
        else {
            *took += self.end_giant(pid, region) + self.costs.split;
            self.split_in_place(pid, region);
            return self.move_base_out(block, counts, took);
        };
        counts.isolated += 512;
        self.counters.isolated += 512;
        let space = &mut self.processes[owner.holder() as usize].space;
        if let Some(Entry::Huge(page)) = space.entry_mut(region) {
            page.frame = to;
        }
        self.memory.free(Frame::new(block * 512));
        self.counters.migrated += 512;
        if !self.settings.exchanges {
            self.counters.bytes_copied += mega_core::HUGE_PAGE_SIZE;
        }
        counts.migrated += 512;
        *took += self.cost_of_moving_huge() + self.costs.migrate_page;
        true
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
