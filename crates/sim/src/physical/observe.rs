//! What there is to see of physical memory, without changing it.

use mega_core::compaction::{BlockObservation, ZoneKind, ZoneObservation};
use mega_core::{NodeMemory, PageSize};

use super::PhysicalMemory;
use super::block::Contents;
use super::frame::{Frame, Owner};
use super::free_list::BLOCK_ORDER;
use super::mobility::Mobility;
use super::zone::Zone;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// Nothing: it is free as a whole.
    Free,
    /// One huge page, whose first base page is the owner's.
    Huge(Owner),
    /// Anything smaller, or pages of the kernel's own.
    Other,
}

/// Base pages of a chunk, by what they are (Trident's counters, section 5.1.3 of the paper).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts {
    /// Free.
    pub free: u32,
    /// In use and movable.
    pub movable: u32,
    /// In use and not movable.
    pub unmovable: u32,
}

impl PhysicalMemory {
    /// Blocks that there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        // The layout sees to it that there are at most 2^21.
        self.blocks.len().try_into().unwrap_or(u32::MAX)
    }

    /// What the block of this index holds.
    #[must_use]
    pub fn block_use(&self, block: u32) -> BlockUse {
        match &self.blocks[block as usize].contents {
            Contents::Free { .. } | Contents::FreeTail => BlockUse::Free,
            Contents::Huge(owner) => BlockUse::Huge(*owner),
            _ => BlockUse::Other,
        }
    }

    /// The counts of the chunk of this index: a sum over its 512 blocks.
    #[must_use]
    pub fn chunk_counts(&self, chunk: u32) -> ChunkCounts {
        let per_chunk = mega_core::REGIONS_PER_SPAN;
        let first = chunk as usize * per_chunk;
        let blocks = self.blocks.iter().skip(first).take(per_chunk);
        blocks.fold(ChunkCounts::default(), |sum, block| ChunkCounts {
            free: sum.free + u32::from(block.free),
            movable: sum.movable + u32::from(block.movable),
            unmovable: sum.unmovable + u32::from(block.unmovable),
        })
    }

    /// One block as compaction policies see it. Whose accesses it had, and whether it lies in a giant page, is not known
    /// here.
    pub fn observe_block(&self, block: u32) -> BlockObservation {
        let record = &self.blocks[block as usize];
        BlockObservation {
            block: Frame::in_block(block, 0).block(),
            free: record.free,
            movable: record.movable,
            unmovable: record.unmovable,
            accessed: None,
            age: Some(self.now.saturating_sub(record.mapped_at)),
            page_size: match record.contents {
                Contents::Huge(_) => PageSize::Huge,
                _ => PageSize::Base,
            },
        }
    }

    /// The zones as compaction policies see them, with their blocks.
    pub fn observe_zones(&self) -> Vec<ZoneObservation> {
        let observe = |zone: &Zone| ZoneObservation {
            node: zone.node,
            kind: zone.kind,
            start_pfn: Frame::in_block(zone.blocks.start, 0).number().into(),
            spanned: zone.pages(),
            free_areas: zone.lists.areas().to_vec(),
            reserve: zone.watermarks.high,
            blocks: zone
                .blocks
                .clone()
                .map(|block| self.observe_block(block))
                .collect(),
        };
        self.zones.iter().map(observe).collect()
    }

    /// Free areas of each order of a zone. `None` where the node has no such zone.
    #[must_use]
    pub fn free_areas(&self, node: u32, kind: ZoneKind) -> Option<Vec<u64>> {
        let zone = self
            .zones
            .iter()
            .find(|zone| zone.node == node && zone.kind == kind)?;
        Some(zone.lists.areas().to_vec())
    }

    /// Whether the node's memory needs no reclaim: a zone has its high watermark (`pgdat_balanced`).
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let mut zones = self.zones.iter();
        zones.any(|zone| zone.free >= zone.watermarks.high + zone.kept)
    }

    /// Each zone's node and blocks, in the order of their addresses.
    pub fn zone_blocks(&self) -> impl Iterator<Item = (u32, std::ops::Range<u32>)> + '_ {
        self.zones
            .iter()
            .map(|zone| (zone.node, zone.blocks.clone()))
    }

    /// Of a zone, by its place: free base pages, free areas of all orders, and the free pages below which it gives none to
    /// compaction (the low watermark and what it keeps from programs).
    #[must_use]
    pub fn zone_free(&self, zone: usize) -> (u64, u64, u64) {
        let zone = &self.zones[zone];
        let areas = zone.lists.areas().iter().sum();
        (zone.free, areas, zone.watermarks.low + zone.kept)
    }

    /// Whether a zone, by its place, has a free block for movable pages.
    #[must_use]
    pub fn has_free_block(&self, zone: usize) -> bool {
        let lists = &self.zones[zone].lists;
        (BLOCK_ORDER..=super::LARGEST_ORDER)
            .any(|order| lists.list(order, Mobility::Movable).count > 0)
    }

    /// The kind of pages that a block is for.
    #[must_use]
    pub fn mobility(&self, block: u32) -> Mobility {
        self.blocks[block as usize].mobility
    }

    /// Whether blocks are all there, and of one zone.
    #[must_use]
    pub fn are_of_one_zone(&self, blocks: &std::ops::Range<u32>) -> bool {
        let holds =
            |zone: &Zone| zone.blocks.start <= blocks.start && blocks.end <= zone.blocks.end;
        self.zones.iter().any(holds)
    }

    /// The node of a chunk that lies in one zone.
    #[must_use]
    pub fn node_of_chunk(&self, chunk: u32) -> Option<u32> {
        let blocks = chunk * 512..(chunk + 1) * 512;
        let first = self.blocks.get(blocks.start as usize)?;
        self.are_of_one_zone(&blocks)
            .then(|| self.zones[usize::from(first.zone)].node)
    }

    /// Base pages in use: movable ones, and others.
    #[must_use]
    pub fn totals_in_use(&self) -> (u64, u64) {
        self.blocks.iter().fold((0, 0), |(movable, others), block| {
            (
                movable + u64::from(block.movable),
                others + u64::from(block.unmovable),
            )
        })
    }

    /// Base pages below the low watermarks of all zones, which the kernel keeps free for itself.
    #[must_use]
    pub fn kept_frames(&self) -> u64 {
        self.zones.iter().map(|zone| zone.watermarks.low).sum()
    }

    /// Free base pages.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.zones.iter().map(|zone| zone.free).sum()
    }

    /// Free memory of each node, in all and in blocks.
    #[must_use]
    pub fn node_memory(&self) -> Vec<NodeMemory> {
        let mut nodes: Vec<NodeMemory> = Vec::new();
        for zone in &self.zones {
            if nodes.last().is_none_or(|node| node.node != zone.node) {
                nodes.push(NodeMemory {
                    node: zone.node,
                    ..NodeMemory::default()
                });
            }
            if let Some(node) = nodes.last_mut() {
                node.free += zone.free * 4096;
                node.contiguity += free_blocks(zone) * mega_core::HUGE_PAGE_SIZE;
            }
        }
        nodes
    }

    /// Free blocks.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.zones.iter().map(free_blocks).sum()
    }

    /// Bytes of this program's own memory that the state takes.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        let split = self.blocks.iter().filter(|block| block.frames().is_some());
        let frames = split.count() * size_of::<super::block::Frames>();
        let shared = self.blocks.iter().filter(|block| block.mappings.is_some());
        let mappings = shared.count() * size_of::<super::mappings::Mappings>();
        (frames + mappings + std::mem::size_of_val(self.blocks.as_slice())) as u64
    }
}

fn free_blocks(zone: &Zone) -> u64 {
    let areas = zone.lists.areas();
    areas[usize::from(BLOCK_ORDER)] + 2 * areas[usize::from(BLOCK_ORDER) + 1]
}
