//! COMPACT: empties a range of physical memory.

use super::Request;

/// `MEGA_COMPACT_DRY_RUN`
pub const COMPACT_DRY_RUN: u32 = 1 << 0;
/// `MEGA_COMPACT_MOVE_HUGE`
pub const COMPACT_MOVE_HUGE: u32 = 1 << 1;
/// `MEGA_MAX_AVOID`
pub const MAX_AVOID: usize = 65536;
/// `MEGA_STOP_DONE`
pub const STOP_DONE: u32 = 0;
/// `MEGA_STOP_ALREADY_FREE`
pub const STOP_ALREADY_FREE: u32 = 1;
/// `MEGA_STOP_UNMOVABLE`
pub const STOP_UNMOVABLE: u32 = 2;
/// `MEGA_STOP_PINNED`
pub const STOP_PINNED: u32 = 3;
/// `MEGA_STOP_BUSY`
pub const STOP_BUSY: u32 = 4;
/// `MEGA_STOP_NO_MEMORY`
pub const STOP_NO_MEMORY: u32 = 5;
/// `MEGA_STOP_HUGE`
pub const STOP_HUGE: u32 = 6;
/// `MEGA_STOP_SIGNAL`
pub const STOP_SIGNAL: u32 = 7;
/// `MEGA_STOP_WOULD`
pub const STOP_WOULD: u32 = 8;

/// `struct mega_compact`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Compact {
    pub size: u32,
    pub flags: u32,
    pub frame: u64,
    pub order: u32,
    pub stop: u32,
    pub blocker: u64,
    pub occupied: u64,
    pub scanned: u64,
    pub isolated: u64,
    pub migrated: u64,
    pub failed: u64,
    pub nanoseconds: u64,
    pub attempts: u32,
    pub error: i32,
    pub avoid: u64,
}

sized_default! {
    Compact {
        flags: 0, frame: 0, order: 0, stop: 0, blocker: 0, occupied: 0, scanned: 0, isolated: 0,
        migrated: 0, failed: 0, nanoseconds: 0, attempts: 0, error: 0, avoid: 0
    }
}

// SAFETY: repr(C), integers only (`avoid` is an address), and the layout is the header's (compared by a test).
unsafe impl Request for Compact {
    const NUMBER: u8 = 3;
}
