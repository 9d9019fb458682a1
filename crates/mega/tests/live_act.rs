//! `mega promote` and `mega demote` by hand.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::thread::sleep;
use std::time::Duration;

use live::{
    HUGE_PAGE, PAGE, area, finish, kernel_version, mega, number, run, skip, start, workload,
};
use mega_lab::mapping::Area;
use mega_lab::resident::{self, Resident};
use serde_json::Value;

/// What a program may touch of its code and its own data meanwhile: a fault maps 16 pages of a file.
const FEW: u64 = 1 << 20;
/// How often an action on pages that are busy is tried.
const TRIES: usize = 50;

/// Promotes or demotes an area; `done` of what it returns counts all tries.
fn act(action: &str, pid: u32, area: &mega_lab::workload::report::AreaReport) -> Value {
    act_on(action, pid, area.start, area.bytes)
}

fn act_on(action: &str, pid: u32, start: u64, bytes: u64) -> Value {
    let range = format!("{start:#x}+{bytes}");
    let mut done = 0;
    for _ in 0..TRIES {
        let output = run(mega().args([action, &pid.to_string(), &range, "--json"]));
        let mut report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        done += number(&report, "done");
        if output.status.success() {
            report["done"] = done.into();
            return report;
        }
        // The kernel's own compaction may have isolated a page.
        let mut causes = report["failures"].as_object().expect("causes").keys();
        assert!(causes.all(|cause| cause == "busy"), "{report}");
        sleep(Duration::from_millis(20));
    }
    panic!("{action}: busy at every try");
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

#[test]
fn what_has_no_page_is_no_failure() {
    let name = "what_has_no_page_is_no_failure";
    if !live::can_run(name) {
        return;
    }
    // This program is the target: of eight whole regions it touches two.
    let mut memory = Area::map(9 * (2 << 20)).expect("memory");
    memory.advise_base().expect("base pages at faults");
    let start = memory.start().next_multiple_of(HUGE_PAGE);
    let first = usize::try_from(start - memory.start()).expect("within the area") / 8;
    let words = (2 << 20) / 8;
    memory.words_mut()[first] = 1;
    memory.words_mut()[first + 5 * words] = 2;
    // Now it may be promoted, and khugepaged, which this wakes up, may be there first.
    memory.advise_huge().expect("huge pages from now on");
    let report = act_on("promote", std::process::id(), start, 8 * HUGE_PAGE);
    let huge = number(&report, "done") + number(&report, "already_so");
    assert_eq!(huge, 2, "{report}");
    assert_eq!(number(&report, "empty"), 6, "{report}");
    assert_eq!(memory.words()[first], 1);
    assert_eq!(memory.words()[first + 5 * words], 2);
}

/// Whether splitting a huge page frees its zero-filled base pages: since Linux 6.12.
fn splits_give_zero_pages_back() -> bool {
    kernel_version() >= (6, 12)
}

/// What a process has after its huge pages were demoted: none but what khugepaged, which may come before this look, made huge again.
fn demoted(pid: u32, collapsed_before: u64) -> Resident {
    let after = resident::of(pid).expect("its memory");
    let again = collapsed_bytes() - collapsed_before;
    assert!(after.huge_bytes <= again, "{after:?}, {again}");
    after
}

/// What khugepaged made huge since the machine started.
fn collapsed_bytes() -> u64 {
    let file = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed";
    let text = std::fs::read_to_string(file).expect(file);
    let regions: u64 = text.trim().parse().expect(file);
    regions * HUGE_PAGE
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
    let collapsed_before = collapsed_bytes();
    let report = act("demote", ready.pid, zeros);
    // What khugepaged made huge again meanwhile may have been demoted twice.
    let all = zeros.bytes / HUGE_PAGE;
    let most = all + (collapsed_bytes() - collapsed_before) / HUGE_PAGE;
    assert!((all..=most).contains(&number(&report, "done")), "{report}");
    let after = demoted(ready.pid, collapsed_before);
    let again = after.huge_bytes;
    let given_back = before.resident_bytes.saturating_sub(after.resident_bytes);
    if splits_give_zero_pages_back() {
        assert!(
            given_back + again + FEW >= zeros.zero_pages * PAGE,
            "{given_back}, {again}"
        );
    } else {
        assert!(given_back <= FEW, "{given_back}");
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
    let collapsed_before = collapsed_bytes();
    act("demote", ready.pid, sparse);
    let after = demoted(ready.pid, collapsed_before);
    let kept = if splits_give_zero_pages_back() {
        before.resident_bytes
    } else {
        promoted.resident_bytes
    };
    assert!(
        after.resident_bytes.abs_diff(kept) <= FEW + after.huge_bytes,
        "{before:?}, {promoted:?}, {after:?}"
    );
    finish(target);
}
