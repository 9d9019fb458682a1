//! `mega promote` and `mega demote` by hand.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use live::{
    HUGE_PAGE, PAGE, area, finish, json, kernel_version, mega, number, skip, start, workload,
};
use mega_lab::resident;
use serde_json::Value;

/// Promotes or demotes an area.
fn act(action: &str, pid: u32, area: &mega_lab::workload::report::AreaReport) -> Value {
    let range = format!("{:#x}+{}", area.start, area.bytes);
    json(mega().args([action, &pid.to_string(), &range, "--json"]))
}

#[test]
fn promoted_memory_is_huge_and_right() {
    if !live::can_run("promoted_memory_is_huge_and_right") {
        return;
    }
    let command = &mut workload(&["hot-cold", "--size=64MiB", "--until-eof"]);
    let (target, ready) = start(command);
    let hot = area(&ready, "hot");
    let before = resident::of(ready.pid).expect("its memory");
    if before.huge_bytes > 0 {
        skip(
            "promoted_memory_is_huge_and_right",
            "faults take huge pages here (THP mode always)",
        );
        return;
    }
    let report = act("promote", ready.pid, hot);
    assert_eq!(number(&report, "done"), hot.bytes / HUGE_PAGE, "{report}");
    let after = resident::of(ready.pid).expect("its memory");
    assert_eq!(
        after.huge_bytes, hot.bytes,
        "the range asked for and no more"
    );
    let again = act("promote", ready.pid, hot);
    assert_eq!(
        number(&again, "already_so"),
        hot.bytes / HUGE_PAGE,
        "{again}"
    );
    finish(target);
}

/// Whether splitting a huge page frees its zero-filled base pages: since Linux 6.12.
fn splits_give_zero_pages_back() -> bool {
    kernel_version() >= (6, 12)
}

#[test]
fn a_demoted_huge_page_gives_its_zero_pages_back() {
    let name = "a_demoted_huge_page_gives_its_zero_pages_back";
    if !live::can_run(name) {
        return;
    }
    let (target, ready) = start(&mut workload(&["zeros", "--size=64MiB", "--until-eof"]));
    let zeros = area(&ready, "zeros");
    let before = resident::of(ready.pid).expect("its memory");
    if before.huge_bytes < zeros.bytes {
        skip(
            name,
            "the kernel gave no huge pages at fault (THP mode never, or no contiguity)",
        );
        return;
    }
    let report = act("demote", ready.pid, zeros);
    assert_eq!(number(&report, "done"), zeros.bytes / HUGE_PAGE, "{report}");
    let after = resident::of(ready.pid).expect("its memory");
    assert_eq!(after.huge_bytes, 0);
    let given_back = before.resident_bytes.saturating_sub(after.resident_bytes);
    // The program may have touched a few pages of its own meanwhile.
    let few = 16 * PAGE;
    if splits_give_zero_pages_back() {
        assert!(given_back + few >= zeros.zero_pages * PAGE, "{given_back}");
    } else {
        assert!(given_back <= few, "{given_back}");
    }
    finish(target);
}

#[test]
fn what_promotion_filled_up_demotion_gives_back() {
    let name = "what_promotion_filled_up_demotion_gives_back";
    if !live::can_run(name) {
        return;
    }
    let (target, ready) = start(&mut workload(&["sparse", "--size=64MiB", "--until-eof"]));
    let sparse = area(&ready, "sparse");
    let before = resident::of(ready.pid).expect("its memory");
    act("promote", ready.pid, sparse);
    let promoted = resident::of(ready.pid).expect("its memory");
    assert!(promoted.resident_bytes >= sparse.bytes, "{promoted:?}");
    act("demote", ready.pid, sparse);
    let after = resident::of(ready.pid).expect("its memory");
    let kept = if splits_give_zero_pages_back() {
        before.resident_bytes
    } else {
        promoted.resident_bytes
    };
    assert!(
        after.resident_bytes.abs_diff(kept) <= 16 * PAGE,
        "{before:?}, {promoted:?}, {after:?}"
    );
    finish(target);
}
