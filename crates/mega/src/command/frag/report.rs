//! What `mega frag --json` prints. `docs/interfaces.md` describes it.

use std::collections::BTreeMap;

use mega_core::compaction::{
    BlockObservation, HUGE_ORDER, PhysicalObservation, ZoneKind, ZoneObservation,
};
use mega_core::{BASE_PAGE_SIZE, PageSize};
use mega_linux::physical::Source;
use mega_linux::physical::pagetypeinfo::PageblockTypes;
use serde::Serialize;

use crate::report::VERSION;

/// Physical memory.
#[derive(Serialize)]
pub(super) struct FragReport<'a> {
    version: u32,
    source: Source,
    /// Whether `accessed` and `age_seconds` of the blocks can be known: with the module only.
    heat_known: bool,
    totals: Totals,
    zones: Vec<ZoneReport<'a>>,
}

#[derive(Serialize)]
struct Totals {
    #[serde(flatten)]
    free: FreeMemory,
    #[serde(flatten)]
    blocks: BlockCounts,
}

/// One zone, or all.
#[derive(Serialize)]
struct FreeMemory {
    /// Bytes free.
    free: u64,
    /// Bytes free in areas of at least 2 MiB.
    contiguity: u64,
    /// Free memory fragmentation index for each order from 0.
    fmfi: Vec<f64>,
}

/// How many blocks there are of each kind. A block is of one kind.
#[derive(Default, Serialize)]
struct BlockCounts {
    /// All pages free.
    free_blocks: u64,
    /// Free and movable pages only: these can be emptied.
    movable_blocks: u64,
    /// No free page and no unmovable one: emptying them gains nothing.
    full_blocks: u64,
    /// With an unmovable page, or a frame without memory.
    unmovable_blocks: u64,
}

#[derive(Serialize)]
struct ZoneReport<'a> {
    node: u32,
    zone: ZoneKind,
    start_pfn: u64,
    spanned_pages: u64,
    /// Base pages that the kernel keeps free for itself.
    reserve_pages: u64,
    /// Free areas for each order from 0.
    free_areas: &'a [u64],
    #[serde(flatten)]
    free: FreeMemory,
    #[serde(flatten)]
    block_counts: BlockCounts,
    /// Pageblocks by the purpose that the kernel keeps them for.
    pageblocks: BTreeMap<&'a str, u64>,
    blocks: Vec<BlockReport>,
}

/// One block with memory.
#[derive(Serialize)]
struct BlockReport {
    pfn: u64,
    free: u16,
    movable: u16,
    unmovable: u16,
    accessed: Option<u16>,
    age_seconds: Option<f64>,
    page_size: PageSize,
}

impl<'a> FragReport<'a> {
    pub(super) fn new(
        source: Source,
        observation: &'a PhysicalObservation,
        pageblocks: &'a [PageblockTypes],
    ) -> Self {
        let blocks = || observation.zones.iter().flat_map(|zone| &zone.blocks);
        let orders = observation
            .zones
            .iter()
            .map(|zone| zone.free_areas.len())
            .max()
            .unwrap_or(0);
        FragReport {
            version: VERSION,
            source,
            heat_known: source == Source::Module,
            totals: Totals {
                free: FreeMemory {
                    free: observation.free_pages() * BASE_PAGE_SIZE,
                    contiguity: contiguity(&observation.zones),
                    fmfi: (0..orders).map(|order| observation.fmfi(order)).collect(),
                },
                blocks: BlockCounts::of(blocks()),
            },
            zones: observation
                .zones
                .iter()
                .map(|zone| ZoneReport::new(zone, pageblocks))
                .collect(),
        }
    }
}

impl<'a> ZoneReport<'a> {
    fn new(zone: &'a ZoneObservation, pageblocks: &'a [PageblockTypes]) -> Self {
        let types = pageblocks
            .iter()
            .find(|types| (types.node, types.kind) == (zone.node, zone.kind));
        let types = types.map(|types| {
            types
                .counts
                .iter()
                .map(|(name, &count)| (name.as_str(), count))
        });
        ZoneReport {
            node: zone.node,
            zone: zone.kind,
            start_pfn: zone.start_pfn,
            spanned_pages: zone.spanned,
            reserve_pages: zone.reserve,
            free_areas: &zone.free_areas,
            free: FreeMemory {
                free: zone.free_pages() * BASE_PAGE_SIZE,
                contiguity: contiguity(std::slice::from_ref(zone)),
                fmfi: (0..zone.free_areas.len())
                    .map(|order| zone.fmfi(order))
                    .collect(),
            },
            block_counts: BlockCounts::of(zone.blocks.iter()),
            pageblocks: types.into_iter().flatten().collect(),
            blocks: zone.blocks.iter().map(BlockReport::from).collect(),
        }
    }
}

fn contiguity(zones: &[ZoneObservation]) -> u64 {
    zones
        .iter()
        .map(|zone| zone.free_pages_from(HUGE_ORDER) * BASE_PAGE_SIZE)
        .sum()
}

impl BlockCounts {
    fn of<'b>(blocks: impl Iterator<Item = &'b BlockObservation>) -> Self {
        let mut counts = BlockCounts::default();
        for block in blocks {
            *match block {
                block if block.unmovable > 0 || block.absent() > 0 => &mut counts.unmovable_blocks,
                block if block.is_free() => &mut counts.free_blocks,
                block if block.free == 0 => &mut counts.full_blocks,
                _ => &mut counts.movable_blocks,
            } += 1;
        }
        counts
    }
}

impl From<&BlockObservation> for BlockReport {
    fn from(block: &BlockObservation) -> Self {
        BlockReport {
            pfn: block.block.first_pfn(),
            free: block.free,
            movable: block.movable,
            unmovable: block.unmovable,
            accessed: block.accessed,
            age_seconds: block.age.map(|age| age.as_secs_f64()),
            page_size: block.page_size,
        }
    }
}
