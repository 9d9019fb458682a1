//! Allocation with what the kernel does when memory is short: it reclaims page cache, and compacts for a block.

use mega_core::compaction::HUGE_ORDER;

use super::Kernel;
use super::compaction::{FREE_GAP, Mode};
use crate::physical::{Frame, Pages, Urgency};

impl Kernel {
    /// Allocates; returns with it the cycles that the caller waited for compaction (`__alloc_pages_slowpath`).
    ///
    /// kswapd runs at once, on a CPU of its own: what it does takes none of the caller's time.
    pub(super) fn allocate(
        &mut self,
        pages: Pages,
        node: u32,
        compacts: bool,
    ) -> (Option<Frame>, u64) {
        if let Some(frame) = self.memory.allocate(pages, node, Urgency::Normal) {
            return (Some(frame), 0);
        }
        self.reclaim();
        if let Some(frame) = self.memory.allocate(pages, node, Urgency::Pressed) {
            return (Some(frame), 0);
        }
        if usize::from(pages.order()) < HUGE_ORDER || !compacts {
            return (None, 0);
        }
        // Woken for a block, kswapd goes on until it has reclaimed so much, whatever the watermarks say (`kswapd_shrink_node`): compaction
        // comes to have room in each zone, not only in the one that is balanced.
        self.reclaim_pages(FREE_GAP);
        let mut waited = 0;
        for mode in [Mode::Async, Mode::Sync] {
            waited += self.compact_for_block(node, mode);
            if let Some(frame) = self.memory.allocate(pages, node, Urgency::Pressed) {
                self.counters.compact_successes += 1;
                return (Some(frame), waited);
            }
        }
        (None, waited)
    }

    /// Evicts so many pages of the page cache, or all (`shrink_lruvec`). How many.
    pub(super) fn reclaim_pages(&mut self, pages: u64) -> u64 {
        let mut reclaimed = 0;
        while reclaimed < pages
            && let Some(frame) = self.cache.evict()
        {
            self.memory.free(frame);
            reclaimed += 1;
        }
        self.counters.reclaimed += reclaimed;
        reclaimed
    }

    /// Evicts page cache until a zone has its high watermark (kswapd, `balance_pgdat`).
    fn reclaim(&mut self) {
        while !self.memory.is_balanced() && self.reclaim_pages(1) > 0 {}
    }
}
