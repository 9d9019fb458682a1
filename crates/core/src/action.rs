//! What can be done to a region, and what came of it.

use serde::Serialize;

use crate::observation::RegionRef;

/// What to do to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Replace the base pages of a region by one huge page.
    Promote,
    /// Replace the huge page that maps a region by base pages, giving back those that hold only zeros
    /// where the kernel can (6.12 and newer).
    Demote,
}

/// One thing to do to one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// To which region of which process.
    pub target: RegionRef,
}

/// What came of an action, as seen by looking at the region again, never as assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The region is now as the action wanted it.
    Done {
        /// Bytes of memory the region had resident before; 0 where that could not be seen.
        resident_before: u64,
        /// Bytes of memory the region has resident now.
        resident_after: u64,
    },
    /// The region was so already; nothing was done.
    AlreadySo,
    /// The region is not as wanted.
    Failed(Cause),
    /// Dry run: what would have been tried was not.
    NotTried,
}

/// Why an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No huge page could be allocated, or the memory cgroup is at its limit.
    #[error("no memory: the kernel found no free block, or the memory cgroup is at its limit")]
    NoMemory,
    /// The pages are held by something else just now (isolated, pinned, under migration, swapped, or shared with
    /// another process since a fork).
    #[error("busy: something else holds the pages")]
    Busy,
    /// The process, or the mapping, is no longer there.
    #[error("gone: the process or the mapping is no longer there")]
    Gone,
    /// The kernel does not allow this kind of mapping to be changed so.
    #[error("not eligible: the kernel does not do this to this mapping")]
    NotEligible,
    /// The privilege is missing.
    #[error("not permitted: the privilege is missing")]
    NotPermitted,
}
