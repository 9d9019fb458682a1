//! The kernel's own compaction: two scanners that meet, and the deferral of what failed (`mm/compaction.c` of Linux 6.12).
//!
//! Not here: the skip hints of blocks, and the searches in the free lists that shorten scanning
//! (`fast_isolate_freepages`, `fast_find_migrateblock`).

use std::ops::Range;

use super::Kernel;
use crate::physical::{BLOCK_ORDER, BlockUse, Mobility, PhysicalMemory};

/// Free pages that compaction needs to work with, above the watermark (`compact_gap`).
pub(super) const FREE_GAP: u64 = 2 << BLOCK_ORDER;
/// An attempt in 2^6 at least is made (`COMPACT_MAX_DEFER_SHIFT`).
const LONGEST_DEFERRAL: u32 = 6;
/// Above it, fragmentation is the reason of a failure, and not a lack of memory (`sysctl_extfrag_threshold`).
const FRAGMENTATION_THRESHOLD: u64 = 500;

/// How thoroughly a run works (`enum migrate_mode` and `compact_priority`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In a fault, first: movable blocks only.
    Async,
    /// Then, and in background: all blocks. Its failure defers later runs.
    Sync,
    /// Because somebody asked for it: all blocks, whatever was deferred, until the scanners meet.
    Whole,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// There is a block now.
    Success,
    /// The scanners met.
    Complete,
    /// It was not begun: too little memory is free, or enough contiguity is.
    Skipped,
}

/// Where a zone's scanners are, and what was deferred.
#[derive(Clone, Debug)]
pub(super) struct ZoneScanners {
    node: u32,
    blocks: Range<u32>,
    migrate: u32,
    /// One after the block that is looked at next.
    free: u32,
    considered: u32,
    shift: u32,
    has_failed: bool,
}

impl ZoneScanners {
    pub(super) fn of(memory: &PhysicalMemory) -> Vec<Self> {
        let zones = memory.zone_blocks();
        zones
            .map(|(node, blocks)| ZoneScanners {
                node,
                migrate: blocks.start,
                free: blocks.end,
                blocks,
                considered: 0,
                shift: 0,
                has_failed: false,
            })
            .collect()
    }

    /// `reset_cached_positions`.
    fn restart(&mut self) {
        (self.migrate, self.free) = (self.blocks.start, self.blocks.end);
    }

    /// `defer_compaction`.
    fn defer(&mut self) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(LONGEST_DEFERRAL);
        self.has_failed = true;
    }

    /// `compaction_deferred`.
    fn is_deferred(&mut self) -> bool {
        if !self.has_failed {
            return false;
        }
        let limit = 1 << self.shift;
        self.considered += 1;
        if self.considered >= limit {
            self.considered = limit;
            return false;
        }
        true
    }

    /// `compaction_defer_reset`.
    fn succeeded(&mut self) {
        (self.considered, self.shift, self.has_failed) = (0, 0, false);
    }
}

impl Kernel {
    /// Compacts zone after zone of a node until there is a block (`try_to_compact_pages`). The cycles that took.
    pub(super) fn compact_for_block(&mut self, node: u32, mode: Mode) -> u64 {
        self.counters.compact_stalls += 1;
        let mut took = 0;
        for zone in (0..self.scanners.len()).rev() {
            if self.scanners[zone].node != node || self.scanners[zone].is_deferred() {
                continue;
            }
            let (ended, cycles) = self.compact_zone(zone, mode);
            took += cycles;
            match ended {
                Ended::Success => {
                    self.scanners[zone].succeeded();
                    break;
                }
                Ended::Complete if mode == Mode::Sync => self.scanners[zone].defer(),
                Ended::Complete | Ended::Skipped => {}
            }
        }
        took
    }

    /// Compacts all memory until the scanners meet, as a write to `/proc/sys/vm/compact_memory` does. The cycles that took.
    pub fn compact_memory(&mut self) -> u64 {
        self.debug_check_sometimes();
        let mut took = 0;
        for zone in 0..self.scanners.len() {
            self.scanners[zone].restart();
            took += self.compact_zone(zone, Mode::Whole).1;
        }
        took
    }

    /// `compact_zone`.
    fn compact_zone(&mut self, zone: usize, mode: Mode) -> (Ended, u64) {
        if mode != Mode::Whole && !self.is_suitable(zone) {
            return (Ended::Skipped, 0);
        }
        let mut took = 0;
        loop {
            let scanners = &self.scanners[zone];
            let block = scanners.migrate;
            if block + 1 >= scanners.free {
                self.scanners[zone].restart();
                return (Ended::Complete, took);
            }
            let (has_room, cycles) = self.compact_block(zone, block, mode);
            took += cycles;
            if !has_room {
                self.scanners[zone].restart();
                return (Ended::Complete, took);
            }
            self.scanners[zone].migrate = block + 1;
            if mode != Mode::Whole && self.memory.has_free_block(zone) {
                return (Ended::Success, took);
            }
        }
    }

    /// Whether compaction can help: memory is free, but not in blocks (`compaction_suitable` and
    /// `compaction_suit_allocation_order`).
    fn is_suitable(&self, zone: usize) -> bool {
        let (free, areas, low) = self.memory.zone_free(zone);
        if free < low + FREE_GAP || self.memory.has_free_block(zone) {
            return false;
        }
        // `fragmentation_index`, for an order that has no area.
        let requested = 1 << BLOCK_ORDER;
        areas > 0
            && 1000u64.saturating_sub((1000 + free * 1000 / requested) / areas)
                > FRAGMENTATION_THRESHOLD
    }

    /// Moves the pages of one block to free pages from the zone's end. Whether the free scanner found enough, and the cycles
    /// it took.
    fn compact_block(&mut self, zone: usize, block: u32, mode: Mode) -> (bool, u64) {
        let is_source = mode != Mode::Async || self.memory.mobility(block) == Mobility::Movable;
        if !is_source || self.memory.block_use(block) != BlockUse::Other {
            return (true, 0);
        }
        let mut took = 512 * self.costs.scan_frame;
        self.counters.migrate_scanned += 512;
        for page in self.memory.movable_in(block) {
            self.counters.isolated += 2;
            let Some(to) = self.next_free(zone, &mut took) else {
                return (false, took);
            };
            let mappings = self.memory.mappings(page.frame);
            self.memory.migrate_to(page.frame, to);
            self.relocated(page.owner, page.frame, to);
            self.count_migrated(1);
            took += self.costs.copy_page + self.cost_of_remapping(mappings);
        }
        (true, took)
    }

    /// The next free frame from the zone's end on (`isolate_freepages`): in movable blocks that are not free as a whole.
    fn next_free(&mut self, zone: usize, took: &mut u64) -> Option<crate::physical::Frame> {
        loop {
            let scanners = &self.scanners[zone];
            let block = scanners.free.checked_sub(1)?;
            if block <= scanners.migrate {
                return None;
            }
            let is_target = self.memory.mobility(block) == Mobility::Movable
                && self.memory.block_use(block) == BlockUse::Other;
            if is_target && let Some(frame) = self.memory.take_frame(block) {
                return Some(frame);
            }
            if is_target {
                self.counters.free_scanned += 512;
                *took += 512 * self.costs.scan_frame;
            }
            self.scanners[zone].free = block;
        }
    }
}
