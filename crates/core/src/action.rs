//! What mega can do to a region or a span, and what came of it.

use serde::Serialize;

use crate::observation::RegionRef;
use crate::page::PageSize;

/// What to do to a region, or to a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Replace the base pages of a region by one huge page.
    Promote,
    /// Replace the huge page that maps a region by base pages, giving back those that hold only zeros
    /// where the kernel can (6.12 and newer).
    Demote,
    /// Map a span by one giant page. Huge pages must map all of it. Where these do not lie side by side they are
    /// moved, which copies up to 1 GiB.
    PromoteGiant,
    /// Map a span by huge pages again. Nothing is moved and nothing is given back.
    DemoteGiant,
    /// Give back the zero-filled huge pages of a span, whether a giant page maps it or huge ones do. A giant page is
    /// demoted for it, but only where it holds some.
    FreeZero,
}

impl ActionKind {
    /// Every kind.
    pub const ALL: [ActionKind; 5] = [
        ActionKind::Promote,
        ActionKind::Demote,
        ActionKind::PromoteGiant,
        ActionKind::DemoteGiant,
        ActionKind::FreeZero,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ActionKind::Promote => "promote",
            ActionKind::Demote => "demote",
            ActionKind::PromoteGiant => "promote_giant",
            ActionKind::DemoteGiant => "demote_giant",
            ActionKind::FreeZero => "free_zero",
        }
    }

    /// The name in JSON of how many were done.
    #[must_use]
    pub const fn name_of_done(self) -> &'static str {
        match self {
            ActionKind::Promote => "promoted",
            ActionKind::Demote => "demoted",
            ActionKind::PromoteGiant => "promoted_giant",
            ActionKind::DemoteGiant => "demoted_giant",
            ActionKind::FreeZero => "freed_zero",
        }
    }

    /// The name in JSON of how many a dry run left out.
    #[must_use]
    pub const fn name_of_left_out(self) -> &'static str {
        match self {
            ActionKind::Promote => "would_promote",
            ActionKind::Demote => "would_demote",
            ActionKind::PromoteGiant => "would_promote_giant",
            ActionKind::DemoteGiant => "would_demote_giant",
            ActionKind::FreeZero => "would_free_zero",
        }
    }

    /// The name in JSON of how many are wanted.
    #[must_use]
    pub const fn name_of_wanted(self) -> &'static str {
        match self {
            ActionKind::Promote => "promotions",
            ActionKind::Demote => "demotions",
            ActionKind::PromoteGiant => "promotions_giant",
            ActionKind::DemoteGiant => "demotions_giant",
            ActionKind::FreeZero => "free_zero",
        }
    }

    /// The page that the action makes or breaks up, or looks through.
    #[must_use]
    pub const fn page_size(self) -> PageSize {
        match self {
            ActionKind::Promote | ActionKind::Demote => PageSize::Huge,
            ActionKind::PromoteGiant | ActionKind::DemoteGiant | ActionKind::FreeZero => {
                PageSize::Giant
            }
        }
    }

    /// Whether it makes a larger page, which may copy; the others break one up.
    #[must_use]
    pub const fn is_promotion(self) -> bool {
        matches!(self, ActionKind::Promote | ActionKind::PromoteGiant)
    }
}

/// One thing to do to one region, or to one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// To which region of which process. A span is named by its first region.
    pub target: RegionRef,
}

impl Action {
    /// The first address after what is acted on.
    #[must_use]
    pub const fn end(&self) -> u64 {
        let start = self.target.region.start();
        start.saturating_add(self.kind.page_size().bytes())
    }
}

/// What came of an action, as seen by looking at the region again, never as assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The region, or span, is now as the action wanted it.
    Done {
        /// Bytes of memory it had resident before; 0 where that could not be seen.
        resident_before: u64,
        /// Bytes of memory it has resident now.
        resident_after: u64,
    },
    /// The span is now mapped as the action wanted it. What is resident stays as it was.
    Remapped {
        /// Bytes that were copied to lay its huge pages side by side; 0 where they did already.
        copied: u64,
        /// Bytes that were laid there without a copy: the hypervisor exchanged what is behind them.
        exchanged: u64,
    },
    /// It was so already; nothing was done.
    AlreadySo,
    /// It is not as wanted.
    Failed(Cause),
    /// Dry run: what would have been tried was not.
    NotTried,
}

/// Why an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No huge page could be allocated, or the memory cgroup is at its limit. For a giant page: no chunk of
    /// physical memory could be emptied.
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
    /// A region of the span is not mapped by a huge page.
    #[error("not huge: a region of the span is not mapped by a huge page")]
    NotHuge,
    /// The privilege is missing.
    #[error("not permitted: the privilege is missing")]
    NotPermitted,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 6] = [
        Cause::NoMemory,
        Cause::Busy,
        Cause::Gone,
        Cause::NotEligible,
        Cause::NotHuge,
        Cause::NotPermitted,
    ];

    /// Its name where a machine reads: in JSON, metrics and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::NoMemory => "no_memory",
            Cause::Busy => "busy",
            Cause::Gone => "gone",
            Cause::NotEligible => "not_eligible",
            Cause::NotHuge => "not_huge",
            Cause::NotPermitted => "not_permitted",
        }
    }
}
