//! `mega scan` against workloads that know what they touch.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use live::{HUGE_PAGE, PAGE, area, finish, json, mega, number, regions_of, skip, start, workload};
use serde_json::Value;

/// Looks at a process for half a second.
fn scan_half_a_second(pid: u32, options: &[&str]) -> Value {
    let pid = pid.to_string();
    json(
        mega()
            .args(["scan", &pid, "--window", "500ms", "--json"])
            .args(options),
    )
}

/// Whether the tracker in use sees accesses; says so where it does not.
fn sees_accesses(name: &str, scan: &Value) -> bool {
    let sees = !scan["totals"]["accessed"].is_null();
    if !sees {
        let reason = format!("the tracker here, {}, sees no accesses", scan["tracker"]);
        skip(name, &reason);
    }
    sees
}

#[test]
fn hot_regions_are_accessed_and_cold_ones_are_not() {
    let name = "hot_regions_are_accessed_and_cold_ones_are_not";
    if !live::can_run(name) {
        return;
    }
    let (target, ready) = start(&mut workload(&["hot-cold", "--size=64MiB", "--until-eof"]));
    // Other users of Accessed bits (DAMON, reclaim) may clear a few between the access and the look.
    let is_hot = |region: &Value| number(region, "accessed") >= 500 * PAGE;
    // On a busy machine the program may not come to touch all that is hot in half a second: then it is looked at again.
    let mut scan = scan_half_a_second(ready.pid, &[]);
    if !sees_accesses(name, &scan) {
        return;
    }
    for _ in 0..100 {
        let hot = regions_of(&scan, area(&ready, "hot"));
        if hot.into_iter().all(is_hot) {
            break;
        }
        scan = scan_half_a_second(ready.pid, &[]);
    }
    for region in regions_of(&scan, area(&ready, "hot")) {
        assert_eq!(number(region, "mapped"), HUGE_PAGE);
        assert!(is_hot(region), "{region}");
    }
    for region in regions_of(&scan, area(&ready, "cold")) {
        assert_eq!(number(region, "mapped"), HUGE_PAGE);
        assert_eq!(number(region, "accessed"), 0, "{region}");
    }
    finish(target);
}

#[test]
fn a_sparse_area_is_mapped_one_page_in_eight_and_idle() {
    let name = "a_sparse_area_is_mapped_one_page_in_eight_and_idle";
    if !live::can_run(name) {
        return;
    }
    let command = &mut workload(&["sparse", "--size=64MiB", "--until-eof", "--no-huge-pages"]);
    let (target, ready) = start(command);
    let scan = scan_half_a_second(ready.pid, &[]);
    for region in regions_of(&scan, area(&ready, "sparse")) {
        assert_eq!(number(region, "mapped"), HUGE_PAGE / 8);
        assert_eq!(number(region, "page_size"), PAGE);
        if !sees_accesses(name, &scan) {
            return;
        }
        assert_eq!(number(region, "accessed"), 0);
    }
    for (policy, would) in scan["would"].as_object().expect("policies") {
        assert_eq!(number(would, "demotions"), 0, "{policy}");
    }
    finish(target);
}

#[test]
fn zero_filled_pages_of_huge_pages_are_counted_as_bloat() {
    let name = "zero_filled_pages_of_huge_pages_are_counted_as_bloat";
    if !live::can_run(name) {
        return;
    }
    let (target, ready) = start(&mut workload(&["zeros", "--size=64MiB", "--until-eof"]));
    let zeros = area(&ready, "zeros");
    if mega_lab::resident::of(ready.pid)
        .expect("its memory")
        .huge_bytes
        < zeros.bytes
    {
        skip(
            name,
            "the kernel gave no huge pages at fault (THP mode never, or no contiguity)",
        );
        return;
    }
    let scan = scan_half_a_second(ready.pid, &["--bloat"]);
    for region in regions_of(&scan, zeros) {
        assert_eq!(number(region, "page_size"), HUGE_PAGE);
        assert_eq!(number(region, "zero_filled"), HUGE_PAGE * 3 / 4);
    }
    assert!(number(&scan["totals"], "bloat") >= zeros.zero_pages * PAGE);
    finish(target);
}

#[test]
fn a_dry_run_clears_no_accessed_bits() {
    let name = "a_dry_run_clears_no_accessed_bits";
    if !live::can_run(name) {
        return;
    }
    let (target, ready) = start(&mut workload(&["hot-cold", "--size=16MiB", "--until-eof"]));
    let scan = scan_half_a_second(ready.pid, &["--dry-run"]);
    assert!(scan["totals"]["accessed"].is_null());
    let referenced = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", ready.pid))
        .expect("its memory")
        .lines()
        .find_map(|line| {
            line.strip_prefix("Referenced:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .map_or(0, |kib: u64| kib * 1024);
    // The cold half was touched once, before the scan: its bits are still set.
    let cold = area(&ready, "cold").bytes;
    assert!(
        referenced >= area(&ready, "hot").bytes + cold / 2,
        "{referenced}"
    );
    finish(target);
}
