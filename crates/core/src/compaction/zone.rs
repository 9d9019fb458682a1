//! Zones, and all of physical memory as one observation.

use serde::Serialize;

use super::block::{BlockObservation, PAGES_PER_BLOCK};

/// The first order whose free areas hold a huge page.
pub const HUGE_ORDER: usize = 9;

/// What a zone's memory is for (`enum zone_type` of Linux, without the device zone, which is never in the
/// free lists).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ZoneKind {
    /// The first 16 MiB.
    #[serde(rename = "DMA")]
    Dma,
    /// Up to 4 GiB.
    #[serde(rename = "DMA32")]
    Dma32,
    /// All the rest.
    Normal,
    /// Memory that takes movable pages only.
    Movable,
}

impl ZoneKind {
    /// The kernel's name for it, as in `/proc/buddyinfo`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ZoneKind::Dma => "DMA",
            ZoneKind::Dma32 => "DMA32",
            ZoneKind::Normal => "Normal",
            ZoneKind::Movable => "Movable",
        }
    }

    /// The zone of that name. `None` for `Device`, and for a name this does not know.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            ZoneKind::Dma,
            ZoneKind::Dma32,
            ZoneKind::Normal,
            ZoneKind::Movable,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }
}

/// One zone of one NUMA node, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneObservation {
    /// Its NUMA node.
    pub node: u32,
    /// What it is for.
    pub kind: ZoneKind,
    /// Its first frame.
    pub start_pfn: u64,
    /// Frames from its first to its last, holes included.
    pub spanned: u64,
    /// Free areas per buddy order, from order 0.
    pub free_areas: Vec<u64>,
    /// Base pages that the kernel keeps free for itself (the high watermark).
    pub reserve: u64,
    /// Its blocks, in address order, each once. Blocks wholly without memory may be left out.
    pub blocks: Vec<BlockObservation>,
}

impl ZoneObservation {
    /// Base pages in the free lists.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.free_pages_from(0)
    }

    /// Base pages in free areas of at least `order`.
    #[must_use]
    pub fn free_pages_from(&self, order: usize) -> u64 {
        let areas = self.free_areas.iter().enumerate().skip(order);
        areas.fold(0, |pages, (order, &count)| {
            let area = u32::try_from(order)
                .ok()
                .and_then(|order| 1u64.checked_shl(order))
                .unwrap_or(0);
            pages.saturating_add(count.saturating_mul(area))
        })
    }

    /// Free huge pages: how many 2 MiB pages the free lists could give without compaction.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.free_pages_from(HUGE_ORDER) / u64::from(PAGES_PER_BLOCK)
    }

    /// The part of free memory in areas too small for an allocation of `order`, 0 to 1: the free memory
    /// fragmentation index. 0 when nothing is free.
    #[must_use]
    pub fn fmfi(&self, order: usize) -> f64 {
        fmfi(self.free_pages(), self.free_pages_from(order))
    }
}

/// Physical memory, as it was when it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhysicalObservation {
    /// The zones that have memory, by node, then by address.
    pub zones: Vec<ZoneObservation>,
}

impl PhysicalObservation {
    /// Base pages in the free lists.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.zones.iter().map(ZoneObservation::free_pages).sum()
    }

    /// Free huge pages in all zones.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.zones.iter().map(ZoneObservation::free_blocks).sum()
    }

    /// The free memory fragmentation index of all zones together ([`ZoneObservation::fmfi`]).
    #[must_use]
    pub fn fmfi(&self, order: usize) -> f64 {
        let usable = self
            .zones
            .iter()
            .map(|zone| zone.free_pages_from(order))
            .sum();
        fmfi(self.free_pages(), usable)
    }

    /// Whether the observer could tell what was accessed.
    #[must_use]
    pub fn accesses_known(&self) -> bool {
        let mut blocks = self.zones.iter().flat_map(|zone| &zone.blocks);
        blocks.any(|block| block.accessed.is_some())
    }
}

#[allow(clippy::cast_precision_loss)]
fn fmfi(free: u64, usable: u64) -> f64 {
    if free == 0 {
        return 0.0;
    }
    1.0 - usable.min(free) as f64 / free as f64
}
