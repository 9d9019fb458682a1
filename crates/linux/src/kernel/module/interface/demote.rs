//! DEMOTE: maps a span by huge pages again.

use super::Request;

/// `MEGA_DEMOTE_DONE`
pub const DEMOTE_DONE: u32 = 0;
/// `MEGA_DEMOTE_NOT_GIANT`
pub const DEMOTE_NOT_GIANT: u32 = 1;

/// `struct mega_demote`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Demote {
    pub size: u32,
    pub flags: u32,
    pub pidfd: i32,
    pub stop: u32,
    pub start: u64,
    pub nanoseconds: u64,
    pub reserved: u64,
}

sized_default! {
    Demote {
        flags: 0, pidfd: -1, stop: 0, start: 0, nanoseconds: 0, reserved: 0
    }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test).
unsafe impl Request for Demote {
    const NUMBER: u8 = 5;
}
