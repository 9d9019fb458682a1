//! System calls by which processes change their mappings.

use std::ops::Range;
use std::time::Duration;

use crate::process::ProcessId;

/// A system call by which a process changed its mappings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it returned, by the clock of the machine that saw it.
    pub at: Duration,
    /// Whose it was.
    pub process: ProcessId,
    /// What it did.
    pub kind: CallKind,
}

/// What a call did, to addresses in whole base pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// New memory is there, or memory that lay elsewhere before; what was there before is gone.
    Mapped(Range<u64>),
    /// Nothing is there any more.
    Unmapped(Range<u64>),
    /// The pages are gone, and the addresses are still mapped (`MADV_DONTNEED`).
    Discarded(Range<u64>),
    /// It has a child, with which it shares its pages until one of them writes to them.
    Forked(ProcessId),
}

impl CallKind {
    /// The addresses; `None` for a fork.
    #[must_use]
    pub fn range(&self) -> Option<&Range<u64>> {
        match self {
            CallKind::Mapped(range) | CallKind::Unmapped(range) | CallKind::Discarded(range) => {
                Some(range)
            }
            CallKind::Forked(_) => None,
        }
    }
}
