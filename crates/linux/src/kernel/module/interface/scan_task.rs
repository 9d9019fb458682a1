//! SCAN_TASK: reads page tables of a process.

use super::Request;

/// `MEGA_TASK_CLEAR`
pub const TASK_CLEAR: u32 = 1 << 0;
/// `MEGA_REGION_WHOLE`
pub const REGION_WHOLE: u16 = 1 << 0;
/// `MEGA_REGION_HUGETLB`
pub const REGION_HUGETLB: u16 = 1 << 4;
/// `MEGA_TASK_SECONDARY_NOT_SEEN`
pub const TASK_SECONDARY_NOT_SEEN: u32 = 1 << 0;

/// `struct mega_region`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Region {
    pub address: u64,
    pub mapped: u16,
    pub accessed: u16,
    pub page_shift: u8,
    pub reserved: u8,
    pub flags: u16,
}

/// `struct mega_scan_task`. `regions` points to `capacity` [`Region`]s that may be written; `maps` is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ScanTask {
    pub size: u32,
    pub flags: u32,
    pub pidfd: i32,
    pub capacity: u32,
    pub start: u64,
    pub length: u64,
    pub regions: u64,
    pub maps: u64,
    pub reserved: u64,
    pub next: u64,
    pub tables: u64,
    pub cleared: u64,
    pub nanoseconds: u64,
    pub count: u32,
    pub result: u32,
}

sized_default! {
    ScanTask {
        flags: 0, pidfd: -1, capacity: 0, start: 0, length: 0, regions: 0, maps: 0, reserved: 0, next:
        0, tables: 0, cleared: 0, nanoseconds: 0, count: 0, result: 0
    }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test). Its pointers are described at
// the type.
unsafe impl Request for ScanTask {
    const NUMBER: u8 = 1;
}
