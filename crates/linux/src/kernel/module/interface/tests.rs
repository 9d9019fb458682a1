//! Every size, offset and number is the header's.

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
        avoid
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
        exchanged,
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
    structure!(
        "mega_exchange",
        Exchange,
        size,
        flags,
        pidfd,
        count,
        pairs,
        nanoseconds,
        exchanged,
        reserved
    );
    structure!("mega_pair", Pair, first, second, result, reserved);
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
        FEATURE_KEEPS_YOUNG,
        FEATURE_GIANT,
        FEATURE_FREE_ZERO,
        FEATURE_EXCHANGE,
        FEATURE_AVOID,
        FEATURE_EXCHANGE_PAIRS,
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
        PAIR_EXCHANGED,
        PAIR_NOT_ELIGIBLE,
        PAIR_NOT_HUGE,
        PAIR_SHARED,
        PAIR_HELD,
        PAIR_BUSY,
        PAIR_POISONED,
        PAIR_LOGGED,
    );
    all.push(("MEGA_MAX_AVOID".to_owned(), MAX_AVOID as u64));
    all.push(("MEGA_MAX_PAIRS".to_owned(), MAX_PAIRS as u64));
    all.push(("MEGA_INTERFACE_VERSION".to_owned(), VERSION.into()));
    all.push(("MEGA_IOC_INFO".to_owned(), request::<Info>()));
    all.push(("MEGA_IOC_SCAN_TASK".to_owned(), request::<ScanTask>()));
    all.push(("MEGA_IOC_SCAN_BLOCKS".to_owned(), request::<ScanBlocks>()));
    all.push(("MEGA_IOC_COMPACT".to_owned(), request::<Compact>()));
    all.push(("MEGA_IOC_PROMOTE".to_owned(), request::<Promote>()));
    all.push(("MEGA_IOC_DEMOTE".to_owned(), request::<Demote>()));
    all.push(("MEGA_IOC_FREE_ZERO".to_owned(), request::<FreeZero>()));
    all.push(("MEGA_IOC_EXCHANGE".to_owned(), request::<Exchange>()));
    all.push(("MEGA_SPAN_BYTES".to_owned(), mega_core::GIANT_PAGE_SIZE));
    all
}

#[test]
fn every_size_offset_and_number_is_the_headers() {
    let header = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../kernel/module/mega_ioctl.h");
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
