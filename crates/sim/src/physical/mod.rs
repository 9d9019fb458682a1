//! Physical memory: nodes, zones and blocks, and the buddy allocator of Linux 6.12 (Debian's 6.12.117) over them.
//!
//! The files follow `mm/page_alloc.c`: `buddy` takes and gives back areas, `fallback` takes from blocks of another kind,
//! `isolate` empties chosen blocks as `alloc_contig_range` does, `layout` makes zones and watermarks. `check` says what must
//! always hold; builds with debug assertions check after every operation the blocks that it touched, where it changed the free lists, and
//! the zone's sum. The kernel has all of it checked from time to time.

mod allocate;
mod block;
mod buddy;
mod check;
mod fallback;
mod frame;
mod free_list;
mod isolate;
mod layout;
mod list;
mod mappings;
mod mobility;
mod observe;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
mod zone;

use std::time::Duration;

pub use allocate::{Pages, Urgency};
pub use check::Broken;
pub(crate) use frame::FRAMES_PER_BLOCK;
pub use frame::{Frame, Owner};
pub use free_list::{BLOCK_ORDER, LARGEST_ORDER};
pub use isolate::InTheWay;
pub use layout::{Layout, LayoutError};
pub use mobility::Mobility;
pub use observe::{BlockUse, ChunkCounts};

use block::BlockRecord;
use zone::Zone;

/// What the allocator did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Areas handed out.
    pub allocated: u64,
    /// Areas given back.
    pub freed: u64,
    /// Allocations that found nothing.
    pub failed: u64,
    /// Allocations from blocks of another kind (the tracepoint `mm_page_alloc_extfrag`).
    pub fallbacks: u64,
    /// Blocks that changed their kind for one of those.
    pub blocks_claimed: u64,
}

/// The physical memory of a machine.
#[derive(Clone, Debug)]
pub struct PhysicalMemory {
    zones: Vec<Zone>,
    /// For each node, the zones that it asks, in order.
    zonelists: Vec<Vec<usize>>,
    blocks: Vec<BlockRecord>,
    now: Duration,
    events: Events,
}

impl PhysicalMemory {
    /// Free memory, as after boot: all blocks are movable, and low addresses are handed out first
    /// (`__free_pages_core` adds to the tails).
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let zones = layout.zones();
        let blocks = (0u8..)
            .zip(&zones)
            .flat_map(|(index, zone)| zone.blocks.clone().map(move |_| BlockRecord::new(index)))
            .collect();
        let mut memory = PhysicalMemory {
            zonelists: layout::zonelists(&zones),
            zones,
            blocks,
            now: Duration::ZERO,
            events: Events::default(),
        };
        memory.free_all();
        memory
    }

    fn free_all(&mut self) {
        for zone in 0..self.zones.len() {
            let blocks = self.zones[zone].blocks.clone();
            for block in blocks.step_by(2) {
                let first = Frame::in_block(block, 0);
                self.add_to_tail(first, LARGEST_ORDER, Mobility::Movable);
            }
        }
    }

    /// Says what time it is, for the ages of blocks.
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// What was done since the start.
    #[must_use]
    pub fn events(&self) -> Events {
        self.events
    }

    /// Base pages of memory.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.zones.iter().map(Zone::pages).sum()
    }

    /// Nodes that it has.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        // The layout cannot have more than 2^20.
        self.zonelists.len().try_into().unwrap_or(u32::MAX)
    }

    fn zone_of(&self, block: u32) -> usize {
        usize::from(self.blocks[block as usize].zone)
    }
}
