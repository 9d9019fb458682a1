//! `mega scan` against workloads that know what they touch.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use live::folios::FolioMode;
use live::{HUGE_PAGE, PAGE, area, finish, json, mega, number, regions_of, skip, start, workload};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use serde_json::{Value, json};

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
        assert_eq!(region["folios"], json!([]), "they are base pages");
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

/// Three pieces of shared memory of 8 MiB and a page, mapped for as long as this process runs: their starts.
fn map_shared() -> [u64; 3] {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let length = (8 << 20) + 4096;
    [(); 3].map(|()| {
        // SAFETY: without MAP_FIXED the kernel chooses addresses where nothing is mapped.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::SHARED) };
        mapped.expect("shared memory").addr() as u64
    })
}

#[test]
fn shared_memory_that_cannot_be_huge_is_listed_with_a_remedy() {
    let name = "shared_memory_that_cannot_be_huge_is_listed_with_a_remedy";
    if !live::can_run(name) {
        return;
    }
    let starts = map_shared();
    let own = std::process::id();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("its memory");
    let scan = scan_half_a_second(own, &[]);
    let words = live::run(mega().args(["scan", &own.to_string(), "--dry-run"]));
    let shared: Vec<(u64, u64)> = maps
        .lines()
        .filter(|line| line.contains("/dev/zero (deleted)"))
        .map(|line| {
            // "start-end rw-s offset ..."
            let fields: Vec<&str> = line.split(['-', ' ']).collect();
            let hexadecimal = |index: usize| u64::from_str_radix(fields[index], 16).expect(line);
            (hexadecimal(0), hexadecimal(4))
        })
        .collect();
    for start in starts {
        assert!(shared.iter().any(|(first, _)| *first == start), "{maps}");
    }
    let listed = scan["not_eligible"].as_array().expect("a list");
    for &(start, offset) in &shared {
        let first_region = start.next_multiple_of(HUGE_PAGE);
        let part = listed
            .iter()
            .find(|part| number(part, "start") == first_region);
        let misaligned = start.wrapping_sub(offset) % HUGE_PAGE != 0;
        assert_eq!(part.is_some(), misaligned, "{start:x} {offset:x}: {scan}");
        let Some(part) = part else { continue };
        assert!(number(part, "length") >= 3 * HUGE_PAGE);
        assert_eq!(part["reason"], "misaligned_shared_memory");
        let remedy = part["remedy"].as_str().expect("a sentence");
        assert!(remedy.contains("shmem_enabled"), "{remedy}");
    }
    if listed.is_empty() {
        skip(
            name,
            "shmem_enabled is not `never`: the kernel chose addresses that fit",
        );
        return;
    }
    let words = live::text(&words.stdout);
    assert!(
        words.contains("left alone") && words.contains("What to do"),
        "{words}"
    );
}

/// A region of this process's own: its first 16 pages are base pages, the others are in folios of 64 KiB. Its start.
fn region_in_small_folios() -> u64 {
    let length = 2 << 21;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without MAP_FIXED the kernel chooses addresses where nothing is mapped.
    let mapped =
        unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE) };
    let mapped = mapped.expect("memory");
    let start = (mapped.addr() as u64).next_multiple_of(HUGE_PAGE);
    let into = usize::try_from(start - mapped.addr() as u64).expect("less than a region");
    let advise = |advice| {
        // SAFETY: the mapping is this function's own, and advice about huge pages changes none of its bytes.
        unsafe { madvise(mapped, length, advice) }.expect("advice is taken");
    };
    let touch = |page: usize| {
        let byte = mapped.cast::<u8>().wrapping_add(into + page * 4096);
        // SAFETY: `into` and a region lie within the mapping, which nobody else uses.
        unsafe { byte.write_volatile(1) };
    };
    // With a base page in it no fault takes a huge page, and none a folio over the first 16 pages.
    advise(Advice::LinuxNoHugepage);
    touch(0);
    let _small = FolioMode::set(64, "madvise");
    advise(Advice::LinuxHugepage);
    (1..512).for_each(touch);
    start
}

#[test]
fn memory_in_folios_between_base_and_huge_pages_is_told_from_base_pages() {
    let name = "memory_in_folios_between_base_and_huge_pages_is_told_from_base_pages";
    // Before, no kernel takes any.
    if !live::can_run(name) || live::kernel_version() < (6, 8) {
        return;
    }
    let own = std::process::id().to_string();
    let look = || {
        let start = region_in_small_folios();
        let words = live::run(mega().args(["scan", &own, "--dry-run"])).stdout;
        let scan = json(mega().args(["scan", &own, "--dry-run", "--json"]));
        let regions = scan["regions"].as_array().expect("regions");
        let region = regions
            .iter()
            .find(|region| number(region, "start") == start);
        (live::text(&words), region.expect("the region").clone())
    };
    // khugepaged comes by every ten seconds, and may have made it huge. What is not at the end was not before.
    let found = (0..3)
        .map(|_| look())
        .find(|(_, seen)| seen["page_size"] == PAGE);
    let (words, found) = found.expect("a region that khugepaged left alone");
    assert_eq!(number(&found, "mapped"), HUGE_PAGE);
    let wanted = json!([{"size": 16 * PAGE, "mapped": 31 * 16 * PAGE}]);
    assert_eq!(found["folios"], wanted);
    assert!(words.contains("in larger folios"), "{words}");
}
