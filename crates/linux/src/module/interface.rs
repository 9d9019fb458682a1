//! The interface of `/dev/mega`, version 1: `kernel/module/mega_ioctl.h`, whose comments say what each member
//! means. Written out by hand; a test compiles the header and compares every size, offset and number.

/// `MEGA_DEVICE`
pub const DEVICE: &str = "/dev/mega";
/// `MEGA_INTERFACE_VERSION`
pub const VERSION: u32 = 1;

/// `MEGA_FEATURE_SCAN_TASK`
pub const FEATURE_SCAN_TASK: u64 = 1 << 0;
/// `MEGA_FEATURE_SCAN_BLOCKS`
pub const FEATURE_SCAN_BLOCKS: u64 = 1 << 1;
/// `MEGA_FEATURE_COMPACT`
pub const FEATURE_COMPACT: u64 = 1 << 2;
/// `MEGA_FEATURE_COMPACT_COUNTS`
pub const FEATURE_COMPACT_COUNTS: u64 = 1 << 3;

/// `MEGA_FEATURE_GIANT`
pub const FEATURE_GIANT: u64 = 1 << 7;

/// `MEGA_FEATURE_FREE_ZERO`
pub const FEATURE_FREE_ZERO: u64 = 1 << 8;

/// `MEGA_TASK_CLEAR`
pub const TASK_CLEAR: u32 = 1 << 0;
/// `MEGA_REGION_WHOLE`
pub const REGION_WHOLE: u16 = 1 << 0;
/// `MEGA_REGION_HUGETLB`
pub const REGION_HUGETLB: u16 = 1 << 4;
/// `MEGA_TASK_SECONDARY_NOT_SEEN`
pub const TASK_SECONDARY_NOT_SEEN: u32 = 1 << 0;

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

/// `MEGA_COMPACT_DRY_RUN`
pub const COMPACT_DRY_RUN: u32 = 1 << 0;
/// `MEGA_COMPACT_MOVE_HUGE`
pub const COMPACT_MOVE_HUGE: u32 = 1 << 1;

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

/// `MEGA_PROMOTE_IN_PLACE`
pub const PROMOTE_IN_PLACE: u32 = 1 << 0;
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

/// `MEGA_DEMOTE_DONE`
pub const DEMOTE_DONE: u32 = 0;
/// `MEGA_DEMOTE_NOT_GIANT`
pub const DEMOTE_NOT_GIANT: u32 = 1;

/// A structure that one request takes.
///
/// # Safety
///
/// The type is `repr(C)`, has exactly the layout of the structure that request number [`Request::NUMBER`]
/// takes, without padding, and any bytes are a valid value of it. Where it holds a pointer, its documentation
/// says what that must point to.
pub unsafe trait Request {
    /// The request's number in its ioctl type.
    const NUMBER: u8;
}

/// The ioctl request number of `T`: `_IOWR(MEGA_IOCTL_TYPE, T::NUMBER, T)`.
#[must_use]
pub const fn request<T: Request>() -> u64 {
    const TYPE: u64 = 0xB6;
    (3 << 30) | ((size_of::<T>() as u64) << 16) | (TYPE << 8) | T::NUMBER as u64
}

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
    pub reserved: u64,
}

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
    pub reserved: u64,
}

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

/// A request with its size filled in and all else 0.
macro_rules! sized_default {
    ($($name:ident { $($member:ident: $zero:expr),+ }),+ $(,)?) => {$(
        impl Default for $name {
            #[allow(clippy::cast_possible_truncation)] // a request has some hundred bytes
            fn default() -> Self {
                $name { size: size_of::<$name>() as u32, $($member: $zero),+ }
            }
        }
    )+};
}

sized_default! {
    Info {
        version: 0, features: 0, end_frame: 0, max_regions: 0, max_blocks: 0, min_order: 0, max_order: 0,
        page_table_levels: 0, reserved: 0, reserved2: [0; 2]
    },
    ScanTask {
        flags: 0, pidfd: -1, capacity: 0, start: 0, length: 0, regions: 0, maps: 0, reserved: 0, next: 0,
        tables: 0, cleared: 0, nanoseconds: 0, count: 0, result: 0
    },
    ScanBlocks { flags: 0, start_frame: 0, blocks: 0, count: 0, done: 0, nanoseconds: 0, reserved: 0 },
    Compact {
        flags: 0, frame: 0, order: 0, stop: 0, blocker: 0, occupied: 0, scanned: 0, isolated: 0, migrated: 0,
        failed: 0, nanoseconds: 0, attempts: 0, error: 0, reserved: 0
    },
    Promote {
        flags: 0, pidfd: -1, stop: 0, start: 0, frame: ANY_FRAME, in_place: 0, moved: 0, attempts: 0, error: 0,
        nanoseconds: 0, reserved: 0
    },
    Demote { flags: 0, pidfd: -1, stop: 0, start: 0, nanoseconds: 0, reserved: 0 },
    FreeZero {
        flags: 0, pidfd: -1, reserved: 0, start: 0, looked: 0, zero: 0, freed: 0, busy: 0, nanoseconds: 0,
        reserved2: 0
    },
}

// SAFETY: repr(C), integers only, and the layout is the header's (compared by a test).
unsafe impl Request for Info {
    const NUMBER: u8 = 0;
}
// SAFETY: as above; its pointers are described at the type.
unsafe impl Request for ScanTask {
    const NUMBER: u8 = 1;
}
// SAFETY: as above; its pointer is described at the type.
unsafe impl Request for ScanBlocks {
    const NUMBER: u8 = 2;
}
// SAFETY: as above.
unsafe impl Request for Compact {
    const NUMBER: u8 = 3;
}
// SAFETY: as above.
unsafe impl Request for Promote {
    const NUMBER: u8 = 4;
}
// SAFETY: as above.
unsafe impl Request for Demote {
    const NUMBER: u8 = 5;
}
// SAFETY: as above.
unsafe impl Request for FreeZero {
    const NUMBER: u8 = 6;
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::mem::offset_of;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// What the header must say: `size` for a structure, `offset` for a member, `value` for a macro.
    fn expectations() -> Vec<(String, u64)> {
        let mut all = Vec::new();
        macro_rules! structure {
            ($c:literal, $rust:ty, $($member:ident),+) => {
                all.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
                $(all.push((
                    format!("offsetof(struct {}, {})", $c, stringify!($member)),
                    offset_of!($rust, $member) as u64,
                ));)+
            };
        }
        structure!(
            "mega_info",
            Info,
            size,
            version,
            features,
            end_frame,
            max_regions,
            max_blocks,
            min_order,
            max_order,
            page_table_levels,
            reserved,
            reserved2
        );
        structure!(
            "mega_region",
            Region,
            address,
            mapped,
            accessed,
            page_shift,
            reserved,
            flags
        );
        structure!(
            "mega_scan_task",
            ScanTask,
            size,
            flags,
            pidfd,
            capacity,
            start,
            length,
            regions,
            maps,
            reserved,
            next,
            tables,
            cleared,
            nanoseconds,
            count,
            result
        );
        structure!(
            "mega_block",
            Block,
            free,
            movable,
            unmovable,
            huge,
            accessed,
            zone,
            flags,
            age
        );
        structure!(
            "mega_scan_blocks",
            ScanBlocks,
            size,
            flags,
            start_frame,
            blocks,
            count,
            done,
            nanoseconds,
            reserved
        );
        structure!(
            "mega_compact",
            Compact,
            size,
            flags,
            frame,
            order,
            stop,
            blocker,
            occupied,
            scanned,
            isolated,
            migrated,
            failed,
            nanoseconds,
            attempts,
            error,
            reserved
        );
        structure!(
            "mega_promote",
            Promote,
            size,
            flags,
            pidfd,
            stop,
            start,
            frame,
            in_place,
            moved,
            attempts,
            error,
            nanoseconds,
            reserved
        );
        structure!(
            "mega_demote",
            Demote,
            size,
            flags,
            pidfd,
            stop,
            start,
            nanoseconds,
            reserved
        );
        structure!(
            "mega_free_zero",
            FreeZero,
            size,
            flags,
            pidfd,
            reserved,
            start,
            looked,
            zero,
            freed,
            busy,
            nanoseconds,
            reserved2
        );
        macro_rules! values {
            ($($name:ident),+ $(,)?) => {
                $(all.push((concat!("MEGA_", stringify!($name)).to_owned(), u64::from($name)));)+
            };
        }
        values!(
            FEATURE_SCAN_TASK,
            FEATURE_SCAN_BLOCKS,
            FEATURE_COMPACT,
            FEATURE_COMPACT_COUNTS,
            FEATURE_GIANT,
            FEATURE_FREE_ZERO,
            TASK_CLEAR,
            REGION_WHOLE,
            REGION_HUGETLB,
            TASK_SECONDARY_NOT_SEEN,
            BLOCKS_RESET,
            BLOCK_ABSENT,
            BLOCK_NEW,
            BLOCK_HUGE,
            BLOCK_UNTRACKED,
            BLOCK_RESERVED,
            COMPACT_DRY_RUN,
            COMPACT_MOVE_HUGE,
            STOP_DONE,
            STOP_ALREADY_FREE,
            STOP_UNMOVABLE,
            STOP_PINNED,
            STOP_BUSY,
            STOP_NO_MEMORY,
            STOP_HUGE,
            STOP_SIGNAL,
            STOP_WOULD,
            PROMOTE_IN_PLACE,
            ANY_FRAME,
            PROMOTE_DONE,
            PROMOTE_ALREADY,
            PROMOTE_NOT_ELIGIBLE,
            PROMOTE_NOT_HUGE,
            PROMOTE_BUSY,
            PROMOTE_NO_CHUNK,
            PROMOTE_SIGNAL,
            PROMOTE_WOULD_MOVE,
            DEMOTE_DONE,
            DEMOTE_NOT_GIANT,
        );
        all.push(("MEGA_INTERFACE_VERSION".to_owned(), VERSION.into()));
        all.push(("MEGA_IOC_INFO".to_owned(), request::<Info>()));
        all.push(("MEGA_IOC_SCAN_TASK".to_owned(), request::<ScanTask>()));
        all.push(("MEGA_IOC_SCAN_BLOCKS".to_owned(), request::<ScanBlocks>()));
        all.push(("MEGA_IOC_COMPACT".to_owned(), request::<Compact>()));
        all.push(("MEGA_IOC_PROMOTE".to_owned(), request::<Promote>()));
        all.push(("MEGA_IOC_DEMOTE".to_owned(), request::<Demote>()));
        all.push(("MEGA_IOC_FREE_ZERO".to_owned(), request::<FreeZero>()));
        all.push(("MEGA_SPAN_BYTES".to_owned(), mega_core::GIANT_PAGE_SIZE));
        all
    }

    #[test]
    fn every_size_offset_and_number_is_the_headers() {
        let header =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../kernel/module/mega_ioctl.h");
        let mut program = String::from("#include <stddef.h>\n#include \"mega_ioctl.h\"\n");
        for (expression, value) in expectations() {
            writeln!(
                program,
                "_Static_assert(({expression}) == {value}ULL, \"{expression} is not {value}\");"
            )
            .expect("a String takes everything");
        }
        writeln!(
            program,
            "_Static_assert(sizeof(MEGA_DEVICE) == {}, \"device\");",
            DEVICE.len() + 1
        )
        .expect("a String takes everything");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("interface.c");
        std::fs::write(&source, program).expect("it can be written");
        // clang is there because the BPF tracker is built with it.
        let output = Command::new("clang")
            .args(["-std=gnu11", "-fsyntax-only", "-I"])
            .arg(header.parent().expect("a file has a folder"))
            .arg(&source)
            .output()
            .expect("clang runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
