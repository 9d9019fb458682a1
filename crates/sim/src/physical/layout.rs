//! How much memory a machine has, on which nodes and in which zones.

use mega_core::compaction::ZoneKind;

use super::free_list::FreeLists;
use super::zone::{Watermarks, Zone};

/// Bytes in the largest free area. Zones and nodes begin at multiples of it.
const ALIGNMENT: u64 = 4 << 20;
/// Where `ZONE_DMA` and `ZONE_DMA32` of x86-64 end.
const DMA_END: u64 = 16 << 20;
const DMA32_END: u64 = 4 << 30;
/// The largest memory: frame numbers have 30 bits.
const LARGEST: u64 = (1 << 42) - ALIGNMENT;
/// Pages of higher zones for each page that a zone keeps from allocations meant for them
/// (`sysctl_lowmem_reserve_ratio` in `mm/page_alloc.c`: 256 for DMA and DMA32).
const LOWMEM_RESERVE_RATIO: u64 = 256;
/// Parts of ten thousand between two watermarks (`watermark_scale_factor`).
const WATERMARK_SCALE_FACTOR: u64 = 10;

/// Why there can be no such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A node's size is no multiple of 4 MiB, or is 0.
    #[error("a node cannot have {0} bytes of memory: not a multiple of 4 MiB above 0")]
    Size(u64),
    /// There are no nodes, or they have too much memory together.
    #[error("memory of {0} bytes cannot be simulated: 4 MiB to under 4 TiB can be")]
    Total(u64),
}

/// The memory of a machine: physical addresses without holes, one node after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    nodes: Vec<u64>,
}

impl Layout {
    /// Nodes with these bytes of memory each.
    ///
    /// # Errors
    ///
    /// When a size is no multiple of 4 MiB, or all together are 4 TiB or more.
    pub fn new(nodes: &[u64]) -> Result<Self, LayoutError> {
        if let Some(&size) = nodes
            .iter()
            .find(|&&size| size == 0 || size % ALIGNMENT != 0)
        {
            return Err(LayoutError::Size(size));
        }
        let total = nodes
            .iter()
            .fold(0u64, |sum, &node| sum.saturating_add(node));
        if total == 0 || total > LARGEST {
            return Err(LayoutError::Total(total));
        }
        Ok(Layout {
            nodes: nodes.to_vec(),
        })
    }

    /// One node with all memory.
    ///
    /// # Errors
    ///
    /// As [`Layout::new`].
    pub fn one_node(bytes: u64) -> Result<Self, LayoutError> {
        Layout::new(&[bytes])
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().sum()
    }

    /// The zones, in the order of their addresses, with their watermarks.
    pub(super) fn zones(&self) -> Vec<Zone> {
        let mut zones = Vec::new();
        let mut start = 0;
        for (node, size) in (0u32..).zip(&self.nodes) {
            let end = start + size;
            for (kind, from, to) in [
                (ZoneKind::Dma, 0, DMA_END),
                (ZoneKind::Dma32, DMA_END, DMA32_END),
                (ZoneKind::Normal, DMA32_END, u64::MAX),
            ] {
                let (first, last) = (from.max(start), to.min(end));
                if first < last {
                    zones.push(zone(node, kind, first, last));
                }
            }
            start = end;
        }
        set_watermarks(&mut zones);
        set_reserves(&mut zones);
        zones
    }
}

fn zone(node: u32, kind: ZoneKind, start: u64, end: u64) -> Zone {
    #[allow(clippy::cast_possible_truncation)] // memory has at most 2^21 blocks
    let block = |address: u64| (address / mega_core::HUGE_PAGE_SIZE) as u32;
    Zone {
        node,
        kind,
        blocks: block(start)..block(end),
        watermarks: Watermarks::default(),
        kept: 0,
        lists: FreeLists::default(),
        free: 0,
    }
}

/// Base pages that the kernel keeps free: the square root of 16 times the memory in KiB, from 128 KiB to 256 MiB
/// (`calculate_min_free_kbytes`), or what huge pages want: 11 blocks for each zone, at most a twentieth of memory
/// (`set_recommended_min_free_kbytes` in `mm/khugepaged.c`).
fn min_free_pages(pages: u64, zones: u64) -> u64 {
    let kib = pages * 4;
    let plain = (kib * 16).isqrt().clamp(128, 262_144) / 4;
    let recommended = (zones * 11 * 512).min(pages / 20);
    plain.max(recommended)
}

/// `__setup_per_zone_wmarks`.
fn set_watermarks(zones: &mut [Zone]) {
    let pages: u64 = zones.iter().map(Zone::pages).sum();
    let min_free = min_free_pages(pages, zones.len() as u64);
    for zone in zones {
        let min = min_free * zone.pages() / pages;
        let step = (min / 4).max(zone.pages() * WATERMARK_SCALE_FACTOR / 10_000);
        zone.watermarks = Watermarks {
            min,
            low: min + step,
            high: min + 2 * step,
        };
    }
}

/// `setup_per_zone_lowmem_reserve`: each zone of a node keeps a 256th of what the node's higher zones have.
fn set_reserves(zones: &mut [Zone]) {
    let sizes: Vec<_> = zones
        .iter()
        .map(|zone| (zone.node, zone.kind, zone.pages()))
        .collect();
    for zone in zones {
        let higher = sizes
            .iter()
            .filter(|(node, kind, _)| *node == zone.node && *kind > zone.kind);
        zone.kept = higher.map(|(_, _, pages)| pages).sum::<u64>() / LOWMEM_RESERVE_RATIO;
    }
}

/// For each node, the zones in the order in which it asks them: its own from the highest down, then the next nodes'.
pub(super) fn zonelists(zones: &[Zone]) -> Vec<Vec<usize>> {
    let nodes = zones.iter().map(|zone| zone.node + 1).max().unwrap_or(0);
    let list = |node: u32| {
        let mut list: Vec<usize> = (0..zones.len()).rev().collect();
        list.sort_by_key(|&zone| (zones[zone].node + nodes - node) % nodes);
        list
    };
    (0..nodes).map(list).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_those_of_x86_64() {
        let layout = Layout::new(&[8 << 30, 4 << 30]).unwrap();
        let zones: Vec<_> = layout
            .zones()
            .iter()
            .map(|zone| (zone.node, zone.kind, zone.blocks.clone()))
            .collect();
        assert_eq!(
            zones,
            [
                (0, ZoneKind::Dma, 0..8),
                (0, ZoneKind::Dma32, 8..2048),
                (0, ZoneKind::Normal, 2048..4096),
                (1, ZoneKind::Normal, 4096..6144)
            ]
        );
    }

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(Layout::one_node(4 << 10), Err(LayoutError::Size(4 << 10)));
        assert_eq!(Layout::new(&[]), Err(LayoutError::Total(0)));
        assert!(Layout::one_node(4 << 40).is_err());
        assert!(Layout::one_node(4 << 20).is_ok());
    }

    /// 16 GiB in three zones: 11 blocks for each are kept free, 66 MiB (`/proc/sys/vm/min_free_kbytes` of a machine of that
    /// size says 67584).
    #[test]
    fn what_is_kept_free_is_what_linux_keeps() {
        assert_eq!(min_free_pages(4 << 20, 3) * 4, 67_584);
    }
}
