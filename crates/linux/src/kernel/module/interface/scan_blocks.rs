//! SCAN_BLOCKS: counts the pages of physical blocks.

use super::Request;

/// `MEGA_BLOCKS_RESET`
pub const BLOCKS_RESET: u32 = 1 << 0;
/// `MEGA_BLOCK_ABSENT`
pub const BLOCK_ABSENT: u8 = 1 << 0;
/// `MEGA_BLOCK_NEW`
pub const BLOCK_NEW: u8 = 1 << 1;
/// `MEGA_BLOCK_HUGE`
pub const BLOCK_HUGE: u8 = 1 << 2;
/// `MEGA_BLOCK_UNTRACKED`
pub const BLOCK_UNTRACKED: u8 = 1 << 4;
/// `MEGA_BLOCK_RESERVED`
pub const BLOCK_RESERVED: u8 = 1 << 5;

/// `struct mega_block`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Block {
    pub free: u16,
    pub movable: u16,
    pub unmovable: u16,
    pub huge: u16,
    pub accessed: u16,
    pub zone: u8,
    pub flags: u8,
    pub age: u32,
}

/// `struct mega_scan_blocks`. `blocks` points to `count` [`Block`]s that may be written.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ScanBlocks {
    pub size: u32,
    pub flags: u32,
    pub start_frame: u64,
    pub blocks: u64,
    pub count: u32,
    pub done: u32,
    pub nanoseconds: u64,
    pub reserved: u64,
}

sized_default! {
    ScanBlocks {
        flags: 0, start_frame: 0, blocks: 0, count: 0, done: 0, nanoseconds: 0, reserved: 0
    }
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test). Its pointer is described at the
// type.
unsafe impl Request for ScanBlocks {
    const NUMBER: u8 = 2;
}
