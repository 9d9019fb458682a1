//! Zones and how much of them the kernel keeps free.

use mega_core::compaction::ZoneKind;

use super::allocate::Urgency;
use super::free_list::FreeLists;

/// Free base pages at which a zone stops to give, from the least on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// Below it no program gets a page.
    pub(super) min: u64,
    /// Below it an allocation tries other zones first, and the kernel begins to reclaim.
    pub(super) low: u64,
    /// At it the kernel stops to reclaim.
    pub(super) high: u64,
}

/// A zone of a node.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) node: u32,
    pub(super) kind: ZoneKind,
    /// Its blocks, by index.
    pub(super) blocks: std::ops::Range<u32>,
    pub(super) watermarks: Watermarks,
    /// Free pages that it keeps from allocations which could have come from a higher zone of its node (`lowmem_reserve`).
    pub(super) kept: u64,
    pub(super) lists: FreeLists,
    /// Free base pages, without those isolated.
    pub(super) free: u64,
}

impl Zone {
    /// `__zone_watermark_ok`, for allocations that could come from the highest zone.
    pub(super) fn may_give(&self, order: u8, urgency: Urgency) -> bool {
        let mark = match urgency {
            Urgency::Normal => self.watermarks.low,
            Urgency::Pressed => self.watermarks.min,
        };
        self.free >= mark + self.kept + (1 << order)
    }

    pub(super) fn pages(&self) -> u64 {
        u64::from(self.blocks.end - self.blocks.start)
            * u64::from(mega_core::compaction::PAGES_PER_BLOCK)
    }
}
