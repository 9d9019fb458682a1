//! PROMOTE: maps a span by a giant page.

use super::Request;

/// `MEGA_PROMOTE_IN_PLACE`
pub const PROMOTE_IN_PLACE: u32 = 1 << 0;
/// `MEGA_PROMOTE_COLLAPSE`
pub const PROMOTE_COLLAPSE: u32 = 1 << 1;
/// `MEGA_ANY_FRAME`
pub const ANY_FRAME: u64 = u64::MAX;
/// `MEGA_PROMOTE_DONE`
pub const PROMOTE_DONE: u32 = 0;
/// `MEGA_PROMOTE_ALREADY`
pub const PROMOTE_ALREADY: u32 = 1;
/// `MEGA_PROMOTE_NOT_ELIGIBLE`
pub const PROMOTE_NOT_ELIGIBLE: u32 = 2;
/// `MEGA_PROMOTE_NOT_HUGE`
pub const PROMOTE_NOT_HUGE: u32 = 3;
/// `MEGA_PROMOTE_BUSY`
pub const PROMOTE_BUSY: u32 = 4;
/// `MEGA_PROMOTE_NO_CHUNK`
pub const PROMOTE_NO_CHUNK: u32 = 5;
/// `MEGA_PROMOTE_SIGNAL`
pub const PROMOTE_SIGNAL: u32 = 6;
/// `MEGA_PROMOTE_WOULD_MOVE`
pub const PROMOTE_WOULD_MOVE: u32 = 7;

/// `struct mega_promote`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Promote {
    pub size: u32,
    pub flags: u32,
    pub pidfd: i32,
    pub stop: u32,
    pub start: u64,
    pub frame: u64,
    pub in_place: u32,
    pub moved: u32,
    pub attempts: u32,
    pub error: i32,
    pub nanoseconds: u64,
    pub exchanged: u32,
    pub reserved: u32,
}

sized_default! {
    Promote {
        flags: 0, pidfd: -1, stop: 0, start: 0, frame: ANY_FRAME, in_place: 0, moved: 0, attempts: 0,
        error: 0, nanoseconds: 0, exchanged: 0, reserved: 0
    }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test).
unsafe impl Request for Promote {
    const NUMBER: u8 = 4;
}
