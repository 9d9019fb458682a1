//! Calls as they are written.

use std::ops::Range;
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, Call, CallKind, ProcessId};
use serde::{Deserialize, Serialize};

use super::wire::Nonsense;

/// What is said of calls behind a look.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct WireCalls {
    pub(crate) calls: Vec<WireCall>,
    pub(crate) lost: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct WireCall {
    at: Duration,
    process: ProcessId,
    kind: WireKind,
}

#[derive(Serialize, Deserialize)]
enum WireKind {
    /// The first base page and how many.
    Mapped(u64, u64),
    Unmapped(u64, u64),
    Discarded(u64, u64),
    Forked(ProcessId),
}

impl From<&Call> for WireCall {
    fn from(call: &Call) -> Self {
        let pages = |range: &Range<u64>| {
            let length = range.end.saturating_sub(range.start);
            (range.start / BASE_PAGE_SIZE, length / BASE_PAGE_SIZE)
        };
        let (first, count) = call.kind.range().map_or((0, 0), pages);
        let kind = match call.kind {
            CallKind::Mapped(_) => WireKind::Mapped(first, count),
            CallKind::Unmapped(_) => WireKind::Unmapped(first, count),
            CallKind::Discarded(_) => WireKind::Discarded(first, count),
            CallKind::Forked(child) => WireKind::Forked(child),
        };
        WireCall {
            at: call.at,
            process: call.process,
            kind,
        }
    }
}

impl TryFrom<WireCall> for Call {
    type Error = Nonsense;

    fn try_from(wire: WireCall) -> Result<Self, Nonsense> {
        let range = |first: u64, count: u64| {
            let bytes = |pages: u64| pages.checked_mul(BASE_PAGE_SIZE);
            let end = first.checked_add(count).and_then(bytes);
            let range = bytes(first).zip(end).map(|(start, end)| start..end);
            range.ok_or(Nonsense("a call lies beyond all addresses"))
        };
        Ok(Call {
            at: wire.at,
            process: wire.process,
            kind: match wire.kind {
                WireKind::Mapped(first, count) => CallKind::Mapped(range(first, count)?),
                WireKind::Unmapped(first, count) => CallKind::Unmapped(range(first, count)?),
                WireKind::Discarded(first, count) => CallKind::Discarded(range(first, count)?),
                WireKind::Forked(child) => CallKind::Forked(child),
            },
        })
    }
}
