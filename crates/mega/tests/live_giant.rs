//! Giant pages on the patched kernel: made and broken up by hand and by the policies, under programs that know their
//! own data.
//!
//! Ignored where cargo runs all tests: `kernel/vm/suites/run giant-live` runs them in a guest of such a kernel with the module.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::process::Child;
use std::time::{Duration, Instant};

use live::{
    HUGE_PAGE, WHOLE_CORE, area, finish, json, mega, mega_run, number, run, start, text, workload,
};
use mega_lab::mapping::{Area, HUGE_PAGE as HUGE_PAGE_BYTES};
use mega_lab::resident;
use mega_lab::workload::report::{AreaReport, Ready};
use serde_json::Value;

const GIANT_PAGE: u64 = 1 << 30;
/// Wherever it begins, a program of this size has a whole span.
const ONE_SPAN: &str = "--size=2046MiB";
const BYTES: u64 = 2046 << 20;
const WORDS_PER_HUGE_PAGE: usize = HUGE_PAGE_BYTES / 8;
/// Whether the kernel empties one chunk after the other.
const SEQUENTIAL: &str = "/sys/kernel/debug/anon_pud/sequential";
/// How long a manager is waited for.
const LONG: Duration = Duration::from_secs(900);
/// How often an action on pages that are busy is tried.
const TRIES: usize = 50;

/// The spans that lie wholly in an area.
fn spans(area: &AreaReport) -> u64 {
    let first = area.start.next_multiple_of(GIANT_PAGE);
    (area.start + area.bytes - first) / GIANT_PAGE
}

/// `mega promote` or `demote` of the spans in an area, until none is busy; counts of all tries together.
fn act(action: &str, ready: &Ready, area: &AreaReport) -> Value {
    by_hand(action, "--page-size=1G", ready.pid, area.start, area.bytes)
}

/// The same with any option, and any memory.
fn by_hand(action: &str, option: &str, pid: u32, start: u64, bytes: u64) -> Value {
    let range = format!("{start:#x}+{bytes}");
    let mut sums = ["done", "copied", "resident_before", "resident_after"].map(|name| (name, 0));
    for _ in 0..TRIES {
        let output = run(mega().args([action, &pid.to_string(), &range, option, "--json"]));
        let mut report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{action}: {}", text(&output.stderr)));
        for (name, sum) in &mut sums {
            *sum += number(&report, name);
        }
        if output.status.success() {
            for (name, sum) in sums {
                report[name] = sum.into();
            }
            return report;
        }
        let mut causes = report["failures"].as_object().expect("causes").keys();
        assert!(causes.all(|cause| cause == "busy"), "{report}");
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{action}: busy at every try");
}

fn giant_bytes(pid: u32) -> u64 {
    resident::of(pid).expect("its memory").giant_bytes
}

/// The regions of a scan that a giant page maps.
fn giant_regions(pid: u32, options: &[&str]) -> (u64, Value) {
    let scan = json(
        mega()
            .args(["scan", &pid.to_string(), "--window=100ms", "--json"])
            .args(options),
    );
    let regions = scan["regions"].as_array().expect("regions");
    let is_giant = |region: &&Value| number(region, "page_size") == GIANT_PAGE;
    (regions.iter().filter(is_giant).count() as u64, scan)
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn the_doctor_finds_giant_pages() {
    let doctor = json(mega().args(["doctor", "--json"]));
    let features = doctor["features"].as_array().expect("features");
    let feature = features
        .iter()
        .find(|feature| feature["name"] == "transparent 1 GiB pages")
        .expect("it is named");
    assert_eq!(feature["state"], "available", "{feature}");
    assert_eq!(doctor["tracker"]["chosen"], "module", "{doctor}");
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn a_span_is_promoted_seen_and_demoted_by_hand() {
    let (target, ready) = start(&mut workload(&["random", ONE_SPAN, "--until-eof"]));
    let random = area(&ready, "random");
    let whole = spans(random);
    assert!(whole > 0, "{random:?} holds a whole span");

    let range = format!("{:#x}+{}", random.start, random.bytes);
    let report = json(
        mega()
            .args(["promote", &ready.pid.to_string(), &range])
            .args(["--page-size=1G", "--dry-run", "--json"]),
    );
    assert_eq!(number(&report, "not_tried"), whole, "{report}");
    assert_eq!(number(&report, "done"), 0, "{report}");
    assert_eq!(giant_bytes(ready.pid), 0);

    let report = act("promote", &ready, random);
    assert_eq!(number(&report, "done"), whole, "{report}");
    assert_eq!(giant_bytes(ready.pid), whole * GIANT_PAGE);
    let again = act("promote", &ready, random);
    assert_eq!(number(&again, "already_so"), whole, "{again}");

    // Observing does not break it up, by whichever tracker.
    for tracker in ["--tracker=module", "--tracker=mapped"] {
        let (regions, scan) = giant_regions(ready.pid, &[tracker]);
        assert_eq!(regions, whole * 512, "{tracker}");
        assert_eq!(number(&scan["totals"], "giant"), whole * GIANT_PAGE);
        assert!(number(&scan["totals"], "huge") >= whole * GIANT_PAGE);
    }
    assert_eq!(giant_bytes(ready.pid), whole * GIANT_PAGE);

    let report = act("demote", &ready, random);
    assert_eq!(number(&report, "done"), whole, "{report}");
    assert_eq!(giant_bytes(ready.pid), 0);
    let huge = resident::of(ready.pid).expect("its memory").huge_bytes;
    assert!(huge >= whole * GIANT_PAGE, "huge pages are left: {huge}");

    // They lie where they have to already.
    let report = act("promote", &ready, random);
    assert_eq!(
        (number(&report, "done"), number(&report, "copied")),
        (whole, 0),
        "{report}"
    );
    // A part of it is split, and no more than that part.
    let first = random.start.next_multiple_of(GIANT_PAGE);
    let range = format!("{first:#x}+{HUGE_PAGE}");
    let report = json(mega().args(["demote", &ready.pid.to_string(), &range, "--json"]));
    assert_eq!(number(&report, "done"), 1, "{report}");
    let after = resident::of(ready.pid).expect("its memory");
    assert_eq!(after.giant_bytes, (whole - 1) * GIANT_PAGE);
    assert!(
        after.huge_bytes >= whole * GIANT_PAGE - HUGE_PAGE,
        "{after:?}"
    );
    // It checks its data.
    finish(target);
}

/// Of every four huge pages of it one holds something, the others a zero that was written.
fn sparse_area() -> Area {
    let mut area = Area::map(BYTES.try_into().expect("it fits")).expect("memory");
    area.advise_huge().expect("huge pages");
    for (index, page) in area.words_mut().chunks_mut(WORDS_PER_HUGE_PAGE).enumerate() {
        page[0] = value_of(index);
    }
    area
}

fn value_of(index: usize) -> u64 {
    match index % 4 {
        0 => index as u64 + 1,
        _ => 0,
    }
}

/// That it holds what it did.
fn check_sparse(area: &Area) {
    for (index, page) in area.words().chunks(WORDS_PER_HUGE_PAGE).enumerate() {
        assert_eq!(page[0], value_of(index), "the first word of page {index}");
        assert!(page[1..].iter().all(|word| *word == 0), "page {index}");
    }
}

/// Has the spans of this test's own area promoted; returns how many there are.
fn promote_own(area: &Area) -> u64 {
    let (start, bytes) = (area.start(), area.bytes() as u64);
    let whole = (start + bytes - start.next_multiple_of(GIANT_PAGE)) / GIANT_PAGE;
    let own = std::process::id();
    let report = by_hand("promote", "--page-size=1G", own, start, bytes);
    assert_eq!(number(&report, "done"), whole, "{report}");
    assert_eq!(giant_bytes(own), whole * GIANT_PAGE);
    whole
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn spans_give_back_what_was_never_used() {
    // This program is the target: it knows best which of its memory holds what.
    let area = sparse_area();
    let whole = promote_own(&area);
    let (pid, start, bytes) = (std::process::id(), area.start(), area.bytes() as u64);
    let before = resident::of(pid).expect("its memory");

    let range = format!("{start:#x}+{bytes}");
    let report = json(mega().args(["demote", &pid.to_string(), &range]).args([
        "--zero-filled",
        "--dry-run",
        "--json",
    ]));
    assert_eq!(number(&report, "not_tried"), whole, "{report}");
    assert_eq!(giant_bytes(pid), whole * GIANT_PAGE);

    let report = by_hand("demote", "--zero-filled", pid, start, bytes);
    let kept = whole * GIANT_PAGE / 4;
    assert_eq!(number(&report, "done"), whole, "{report}");
    assert_eq!(number(&report, "resident_before"), whole * GIANT_PAGE);
    assert_eq!(number(&report, "resident_after"), kept, "{report}");
    let after = resident::of(pid).expect("its memory");
    assert_eq!(after.giant_bytes, 0);
    let given_back = before.huge_bytes - after.huge_bytes;
    assert_eq!(given_back, whole * GIANT_PAGE - kept);
    let again = by_hand("demote", "--zero-filled", pid, start, bytes);
    assert_eq!(number(&again, "already_so"), whole, "{again}");
    check_sparse(&area);
}

/// A daemon, ended with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn adaptive_gives_back_before_it_breaks_up() {
    let area = sparse_area();
    let whole = promote_own(&area);
    let config = tempfile::NamedTempFile::new().expect("a file");
    // Memory counts as short as long as not all of it is available.
    let select = format!(
        "[defaults]\ninterval = \"1s\"\ncpu_budget = \"100%\"\n[[select]]\nname = \"this\"\nexecutable = \"{}\"\n\
         parameters = {{ keep_available = 1.0 }}\n",
        std::env::current_exe().expect("a program").display()
    );
    std::fs::write(config.path(), select).expect("written");
    let daemon = mega()
        .args(["daemon", "--config"])
        .arg(config.path())
        .spawn();
    let _daemon = Daemon(daemon.expect("mega starts"));
    let group = until_group_counts("freed_zero", whole);
    let actions = &group["actions"];
    assert_eq!(number(actions, "demoted_giant"), 0, "{group}");
    let least = whole * GIANT_PAGE / 4 * 3;
    assert!(number(actions, "bytes_given_back") >= least, "{group}");
    assert_eq!(giant_bytes(std::process::id()), 0);
    check_sparse(&area);
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn a_span_in_use_stays_giant_when_it_is_searched() {
    let (target, ready) = start(&mut workload(&["random", ONE_SPAN, "--until-eof"]));
    let random = area(&ready, "random");
    let whole = spans(random);
    act("promote", &ready, random);
    let report = by_hand(
        "demote",
        "--zero-filled",
        ready.pid,
        random.start,
        random.bytes,
    );
    assert_eq!(number(&report, "already_so"), whole, "{report}");
    assert_eq!(giant_bytes(ready.pid), whole * GIANT_PAGE);
    finish(target);
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn a_range_without_a_span_is_refused() {
    let (target, ready) = start(&mut workload(&["random", "--size=64MiB", "--until-eof"]));
    let random = area(&ready, "random");
    let pid = ready.pid.to_string();
    let range = format!("{:#x}+{}", random.start, random.bytes);
    let refused = run(mega().args(["promote", &pid, &range, "--page-size=1G"]));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("no whole 1 GiB span"));
    finish(target);
}

/// The one group of the one manager there is, once it counts that many of an action. These programs are large, and an
/// emulated machine that is not alone may take minutes to copy one.
fn until_group_counts(action: &str, count: u64) -> Value {
    let started = Instant::now();
    loop {
        // Just started, it has no status yet.
        let output = run(mega().args(["status", "--json"]));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let group = &status["managers"][0]["groups"][0];
        if group["actions"][action].as_u64() >= Some(count) {
            return group.clone();
        }
        assert!(
            started.elapsed() < LONG,
            "{action} never came to {count}: {group}"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Under `mega run` with these options, a program of a whole span and more gets giant pages and keeps its data.
fn gets_giant_pages(options: &[&str]) {
    let options: Vec<&str> = ["--interval=1s", WHOLE_CORE, "--copy-budget=2GiB"]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    let (target, ready) = start(&mut mega_run(
        &options,
        &["random", ONE_SPAN, "--until-eof"],
    ));
    let whole = spans(area(&ready, "random"));
    let group = until_group_counts("promoted_giant", whole);
    assert_eq!(giant_bytes(ready.pid), whole * GIANT_PAGE, "{group}");
    // It stays so while it is observed.
    let group = until_group_counts("steps", number(&group["actions"], "steps") + 3);
    assert_eq!(number(&group["totals"], "giant"), whole * GIANT_PAGE);
    assert!(number(&group["totals"], "huge") >= BYTES / 10 * 9);
    assert_eq!(giant_bytes(ready.pid), whole * GIANT_PAGE);
    finish(target);
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn trident_maps_a_program_by_giant_pages() {
    gets_giant_pages(&["--policy=trident"]);
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn trident_with_giant_pages_only_leaves_the_rest_to_base_pages() {
    let options = [
        "--policy=trident-1g-only",
        "--interval=1s",
        WHOLE_CORE,
        "--copy-budget=2GiB",
    ];
    let (target, ready) = start(&mut mega_run(
        &options,
        &["random", ONE_SPAN, "--until-eof"],
    ));
    let whole = spans(area(&ready, "random"));
    let group = until_group_counts("promoted_giant", whole);
    let after = resident::of(ready.pid).expect("its memory");
    assert_eq!(after.giant_bytes, whole * GIANT_PAGE, "{group}");
    assert_eq!(after.huge_bytes, after.giant_bytes, "{group}");
    finish(target);
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn trident_without_smart_compaction_has_chunks_emptied_one_after_the_other() {
    let sequential = || std::fs::read_to_string(SEQUENTIAL).expect(SEQUENTIAL);
    assert_eq!(sequential(), "N\n");
    let options = ["--policy=trident-nc", "--interval=1s", WHOLE_CORE];
    let (target, _) = start(&mut mega_run(
        &options,
        &["random", ONE_SPAN, "--until-eof"],
    ));
    until_group_counts("promoted_giant", 1);
    assert_eq!(sequential(), "Y\n");
    finish(target);
    assert_eq!(sequential(), "N\n");
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn adaptive_maps_a_program_by_giant_pages() {
    // In a TLB of this size it does not fit by huge pages, as a larger program does not fit a larger one.
    gets_giant_pages(&["--policy=adaptive", "--set=tlb_entries=16"]);
}
