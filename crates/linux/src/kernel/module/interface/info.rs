//! INFO: what the module can do.

use super::Request;

/// `MEGA_FEATURE_SCAN_TASK`
pub const FEATURE_SCAN_TASK: u64 = 1 << 0;
/// `MEGA_FEATURE_SCAN_BLOCKS`
pub const FEATURE_SCAN_BLOCKS: u64 = 1 << 1;
/// `MEGA_FEATURE_COMPACT`
pub const FEATURE_COMPACT: u64 = 1 << 2;
/// `MEGA_FEATURE_COMPACT_COUNTS`
pub const FEATURE_COMPACT_COUNTS: u64 = 1 << 3;
/// `MEGA_FEATURE_KEEPS_YOUNG`
pub const FEATURE_KEEPS_YOUNG: u64 = 1 << 4;
/// `MEGA_FEATURE_GIANT`
pub const FEATURE_GIANT: u64 = 1 << 7;
/// `MEGA_FEATURE_FREE_ZERO`
pub const FEATURE_FREE_ZERO: u64 = 1 << 8;
/// `MEGA_FEATURE_EXCHANGE`
pub const FEATURE_EXCHANGE: u64 = 1 << 9;
/// `MEGA_FEATURE_COLLAPSE`
pub const FEATURE_COLLAPSE: u64 = 1 << 10;
/// `MEGA_FEATURE_AVOID`
pub const FEATURE_AVOID: u64 = 1 << 11;
/// `MEGA_FEATURE_EXCHANGE_PAIRS`
pub const FEATURE_EXCHANGE_PAIRS: u64 = 1 << 12;

/// `struct mega_info`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Info {
    pub size: u32,
    pub version: u32,
    pub features: u64,
    pub end_frame: u64,
    pub max_regions: u32,
    pub max_blocks: u32,
    pub min_order: u32,
    pub max_order: u32,
    pub page_table_levels: u32,
    pub reserved: u32,
    pub reserved2: [u64; 2],
}

sized_default! {
    Info {
        version: 0, features: 0, end_frame: 0, max_regions: 0, max_blocks: 0, min_order: 0, max_order:
        0, page_table_levels: 0, reserved: 0, reserved2: [0; 2]
    }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test).
unsafe impl Request for Info {
    const NUMBER: u8 = 0;
}
