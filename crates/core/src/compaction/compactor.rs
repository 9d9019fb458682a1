//! The trait in which compaction policy and mechanism meet. [`crate::Machine`] is the one for promotion.

use std::time::Duration;

use serde::Serialize;

use super::goal::ToEmpty;
use super::zone::PhysicalObservation;

/// What was done for one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigrationCounts {
    /// Base pages looked at.
    pub scanned: u64,
    /// Base pages taken off their lists to be migrated.
    pub isolated: u64,
    /// Base pages migrated.
    pub migrated: u64,
    /// Base pages whose migration failed.
    pub failed: u64,
}

impl MigrationCounts {
    /// Adds what was done elsewhere.
    pub fn add(&mut self, other: &MigrationCounts) {
        self.scanned += other.scanned;
        self.isolated += other.isolated;
        self.migrated += other.migrated;
        self.failed += other.failed;
    }
}

/// Why work on a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// All of it was free at the end.
    #[error("emptied")]
    Emptied,
    /// All of it was free before.
    #[error("free already")]
    AlreadyFree,
    /// It holds a page of the kernel's own, or a frame without memory; nothing was moved.
    #[error("not emptied: it holds an unmovable page")]
    Unmovable,
    /// A page in it is pinned, for example for I/O.
    #[error("not emptied: a page in it is pinned")]
    Pinned,
    /// A page in it stayed busy: locked, written back, or allocated again meanwhile.
    #[error("not emptied: a page in it stayed busy")]
    Busy,
    /// There is no free memory to move its pages to.
    #[error("not emptied: no free memory to move its pages to")]
    NoMemory,
    /// It holds a huge page; emptying it would take as much contiguity as it gives.
    #[error("not emptied: it holds a huge page")]
    Huge,
    /// A signal ended it.
    #[error("not emptied: interrupted by a signal")]
    Interrupted,
    /// The frames are not all memory of one zone.
    #[error("not emptied: it is not all memory of one zone")]
    NotInOneZone,
    /// Dry run: it was looked at, and nothing stands in the way of emptying it.
    #[error("would be emptied")]
    Would,
}

impl Stopped {
    /// Every reason.
    pub const ALL: [Stopped; 10] = [
        Stopped::Emptied,
        Stopped::AlreadyFree,
        Stopped::Unmovable,
        Stopped::Pinned,
        Stopped::Busy,
        Stopped::NoMemory,
        Stopped::Huge,
        Stopped::Interrupted,
        Stopped::NotInOneZone,
        Stopped::Would,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stopped::Emptied => "emptied",
            Stopped::AlreadyFree => "already_free",
            Stopped::Unmovable => "unmovable",
            Stopped::Pinned => "pinned",
            Stopped::Busy => "busy",
            Stopped::NoMemory => "no_memory",
            Stopped::Huge => "huge",
            Stopped::Interrupted => "interrupted",
            Stopped::NotInOneZone => "not_in_one_zone",
            Stopped::Would => "would",
        }
    }

    /// Whether all of it is free now.
    #[must_use]
    pub const fn is_free(self) -> bool {
        matches!(self, Stopped::Emptied | Stopped::AlreadyFree)
    }
}

/// One target, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Emptied {
    /// Which.
    #[serde(flatten)]
    pub target: ToEmpty,
    /// Why work on it ended.
    pub stopped: Stopped,
    /// What was done.
    #[serde(flatten)]
    pub counts: MigrationCounts,
    /// How long that took.
    #[serde(skip)]
    pub took: Duration,
}

/// Something that can look at physical memory and empty chosen pieces of it.
pub trait Compactor {
    /// Why physical memory could not be observed or changed at all.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Looks at physical memory.
    ///
    /// # Errors
    ///
    /// When it cannot be observed any more.
    fn observe_physical(&mut self) -> Result<PhysicalObservation, Self::Error>;

    /// Empties `targets` in order and reports on each, in the same order. A target that could not be emptied
    /// is no error. Ends early when a signal interrupts it: then the last report says so.
    ///
    /// # Errors
    ///
    /// When nothing can be emptied any more, for example because a privilege was dropped.
    fn empty(&mut self, targets: &[ToEmpty]) -> Result<Vec<Emptied>, Self::Error>;
}
