//! Compaction: which blocks or chunks of physical memory to empty, so that there is contiguity for huge and
//! giant pages.
//!
//! As with promotion, policy and mechanism are apart. A [`CompactionPolicy`] turns a [`PhysicalObservation`] and a [`Goal`]
//! into an ordered list of [`ToEmpty`]s. A [`Compactor`] observes physical memory and empties targets. [`ahead`] empties what
//! the engine's last steps lacked.

pub mod ahead;
mod best_ratio;
mod block;
mod candidate;
mod compactor;
mod goal;
mod least_occupied;
mod lowest_first;
mod memory_block;
mod registry;
mod sequential;
mod supply;
#[cfg(test)]
mod tests;
mod two_scanners;
mod zone;

use std::time::Duration;

pub use best_ratio::{BestRatio, score};
pub use block::{
    BLOCKS_PER_CHUNK, Block, BlockObservation, Chunk, PAGES_PER_BLOCK, PAGES_PER_CHUNK, Unit,
};
pub use candidate::{Candidate, candidates};
pub use compactor::{Compactor, Emptied, MigrationCounts, Stopped};
pub use goal::{Goal, ToEmpty};
pub use least_occupied::LeastOccupied;
pub use lowest_first::LowestFirst;
pub use memory_block::{MemoryBlock, memory_blocks};
pub use registry::{CompactionInfo, DEFAULT_COMPACTION, build, registry};
pub use sequential::Sequential;
pub use supply::Supply;
pub use two_scanners::TwoScanners;
pub use zone::{HUGE_ORDER, PhysicalObservation, ZoneKind, ZoneObservation};

use crate::page::BASE_PAGE_SIZE;

/// Who does what a policy wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A [`Compactor`] empties the selected targets.
    Targeted,
    /// The kernel compacts all memory when `/proc/sys/vm/compact_memory` is written; the selection is only
    /// a forecast.
    Kernel,
}

/// Decides which blocks or chunks to empty.
///
/// Like a [`crate::Policy`] it has no clock, no I/O and no randomness: the same sequence of calls gives the
/// same decisions.
pub trait CompactionPolicy: Send {
    /// The name it is selected by.
    fn name(&self) -> &'static str;

    /// Who does what it wants.
    fn mechanism(&self) -> Mechanism {
        Mechanism::Targeted
    }

    /// Time from one compaction to the next, where it runs by itself.
    fn period(&self) -> Duration;

    /// Base pages to migrate per period.
    fn budget_pages(&self) -> u64;

    /// What to empty, first things first, within the goal: never more than `goal.count` emptied, never more
    /// than `goal.pages` migrated, and never more pages than there is free memory outside the targets.
    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty>;
}

/// Base pages in `megabytes` MB, taken as MiB.
const fn pages_of_megabytes(megabytes: u64) -> u64 {
    megabytes.saturating_mul((1 << 20) / BASE_PAGE_SIZE)
}
