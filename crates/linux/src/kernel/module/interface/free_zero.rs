//! FREE_ZERO: gives back the zero-filled huge pages of a span.

use super::Request;

/// `struct mega_free_zero`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FreeZero {
    pub size: u32,
    pub flags: u32,
    pub pidfd: i32,
    pub reserved: u32,
    pub start: u64,
    pub looked: u32,
    pub zero: u32,
    pub freed: u32,
    pub busy: u32,
    pub nanoseconds: u64,
    pub reserved2: u64,
}

sized_default! {
    FreeZero {
        flags: 0, pidfd: -1, reserved: 0, start: 0, looked: 0, zero: 0, freed: 0, busy: 0, nanoseconds:
        0, reserved2: 0
    }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test).
unsafe impl Request for FreeZero {
    const NUMBER: u8 = 6;
}
