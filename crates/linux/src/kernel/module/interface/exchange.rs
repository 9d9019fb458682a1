//! EXCHANGE: pairs of huge pages of a process change places.

use super::Request;

/// `MEGA_MAX_PAIRS`
pub const MAX_PAIRS: usize = 512;

/// `MEGA_PAIR_EXCHANGED`
pub const PAIR_EXCHANGED: u32 = 0;
/// `MEGA_PAIR_NOT_ELIGIBLE`
pub const PAIR_NOT_ELIGIBLE: u32 = 1;
/// `MEGA_PAIR_NOT_HUGE`
pub const PAIR_NOT_HUGE: u32 = 2;
/// `MEGA_PAIR_SHARED`
pub const PAIR_SHARED: u32 = 3;
/// `MEGA_PAIR_HELD`
pub const PAIR_HELD: u32 = 4;
/// `MEGA_PAIR_BUSY`
pub const PAIR_BUSY: u32 = 5;
/// `MEGA_PAIR_POISONED`
pub const PAIR_POISONED: u32 = 6;
/// `MEGA_PAIR_LOGGED`
pub const PAIR_LOGGED: u32 = 7;

/// `struct mega_pair`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Pair {
    pub first: u64,
    pub second: u64,
    pub result: u32,
    pub reserved: u32,
}

/// `struct mega_exchange`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Exchange {
    pub size: u32,
    pub flags: u32,
    pub pidfd: i32,
    pub count: u32,
    pub pairs: u64,
    pub nanoseconds: u64,
    pub exchanged: u32,
    pub reserved: u32,
}

sized_default! {
    Exchange { flags: 0, pidfd: -1, count: 0, pairs: 0, nanoseconds: 0, exchanged: 0, reserved: 0 }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test). `pairs` points to `count` entries.
unsafe impl Request for Exchange {
    const NUMBER: u8 = 7;
}
