//! `mega run` with workloads that know what they need.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::PathBuf;

use live::{
    HUGE_PAGE, WHOLE_CORE, area, done, finish, json, mega, mega_run, number, skip, start, text,
    until_counted, until_huge, until_promoted, workload,
};
use mega_lab::workload::report::Event;
use serde_json::Value;

/// A place for a report, and the report once it is written.
struct Report(tempfile::TempDir);

impl Report {
    fn new() -> Self {
        Report(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("report.json")
    }

    fn option(&self) -> String {
        format!("--report={}", self.path().display())
    }

    fn read(&self) -> Value {
        let text = std::fs::read(self.path()).expect("a report");
        serde_json::from_slice(&text).expect("one JSON object")
    }

    /// What was done, of the one group there is.
    fn actions(&self) -> Value {
        self.read()["groups"][0]["actions"].clone()
    }
}

#[test]
fn a_random_access_program_gets_huge_pages_and_keeps_its_data() {
    if !live::can_run("a_random_access_program_gets_huge_pages_and_keeps_its_data") {
        return;
    }
    let report = Report::new();
    let (target, ready) = start(&mut mega_run(
        &["--interval=300ms", WHOLE_CORE, &report.option()],
        &["random", "--size=128MiB", "--until-eof"],
    ));
    let bytes = area(&ready, "random").bytes;
    let regions = bytes / HUGE_PAGE;
    until_huge(ready.pid, bytes, 90);
    until_promoted(target.child.id(), regions / 10 * 9);
    let done = finish(target);
    assert!(done.huge_bytes >= bytes / 10 * 9, "{done:?}");
    let actions = report.actions();
    assert!(
        number(&actions, "promoted") >= regions / 10 * 9,
        "{actions}"
    );
    // Each is promoted once and stays so.
    assert_eq!(number(&actions, "demoted"), 0, "{actions}");
    assert_eq!(report.read()["exit_status"], 0);
}

#[test]
fn a_sparse_program_stays_as_small_as_with_base_pages() {
    if !live::can_run("a_sparse_program_stays_as_small_as_with_base_pages") {
        return;
    }
    // So large that it does not matter how much of its executable is mapped: that differs by a megabyte from run to run.
    let size = "--size=1GiB";
    let (target, _) = start(&mut mega_run(
        &["--interval=300ms"],
        &["sparse", size, "--until-eof"],
    ));
    until_counted(target.child.id(), "steps", 4);
    let managed = finish(target);
    let arguments = ["sparse", size, "--seconds=0", "--no-huge-pages"];
    let base = done(&mut workload(&arguments));
    assert!(
        managed.resident_bytes <= base.resident_bytes / 100 * 102,
        "{} against {} with base pages",
        managed.resident_bytes,
        base.resident_bytes
    );
}

#[test]
fn a_program_within_the_tlbs_reach_is_left_alone() {
    if !live::can_run("a_program_within_the_tlbs_reach_is_left_alone") {
        return;
    }
    let report = Report::new();
    let options = ["--interval=200ms", &report.option()];
    let (target, _) = start(&mut mega_run(&options, &["small", "--until-eof"]));
    until_counted(target.child.id(), "steps", 5);
    let done = finish(target);
    assert_eq!(done.huge_bytes, 0);
    let actions = report.actions();
    assert_eq!(number(&actions, "promoted"), 0, "{actions}");
}

#[test]
fn descendants_are_managed() {
    if !live::can_run("descendants_are_managed") {
        return;
    }
    let (mut target, _) = start(&mut mega_run(
        &["--interval=300ms", WHOLE_CORE],
        &["fork", "--children=2", "--size=128MiB", "--until-eof"],
    ));
    let children = [(); 2].map(|()| target.ready().expect("a child gets ready"));
    for child in &children {
        until_huge(child.pid, area(child, "random").bytes, 90);
    }
    target.end();
    // Two children and their parent, all of which check their data.
    for _ in 0..3 {
        match target.event().expect("an event") {
            Event::Done(done) => assert!(done.verified),
            other => panic!("one more was started: {other:?}"),
        }
    }
    assert!(target.child.wait().expect("its status").success());
}

#[test]
fn mappings_that_vanish_under_mega_keep_their_data() {
    if !live::can_run("mappings_that_vanish_under_mega_keep_their_data") {
        return;
    }
    let options = ["--interval=20ms", "--policy=ingens", WHOLE_CORE];
    let (target, _) = start(&mut mega_run(
        &options,
        &["churn", "--size=64MiB", "--until-eof"],
    ));
    until_counted(target.child.id(), "steps", 50);
    let done = finish(target);
    assert!(done.verified && done.operations > 0);
}

#[test]
fn a_killed_mega_leaves_its_program_unharmed() {
    if !live::can_run("a_killed_mega_leaves_its_program_unharmed") {
        return;
    }
    let (mut target, ready) = start(&mut mega_run(
        &["--interval=300ms", WHOLE_CORE],
        &["random", "--size=64MiB", "--until-eof"],
    ));
    until_huge(ready.pid, area(&ready, "random").bytes, 50);
    target.child.kill().expect("a signal");
    target.child.wait().expect("its status");
    // The program still has its standard streams: it works on, ends in good order and finds its data right.
    target.end();
    match target.event().expect("an event") {
        Event::Done(done) => assert!(done.verified, "{done:?}"),
        other => panic!("one more was started: {other:?}"),
    }
}

/// Bytes of a process in huge pages.
fn huge_bytes(pid: u32) -> u64 {
    mega_lab::resident::of(pid).expect("its memory").huge_bytes
}

/// Bytes of a process that were accessed since their Accessed bits were cleared.
fn referenced(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("its memory");
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Referenced:"))
        .expect("a line `Referenced:`");
    let kib = line.split_whitespace().next().expect("a number");
    kib.parse::<u64>().expect("a number") << 10
}

#[test]
fn a_dry_run_promotes_nothing() {
    if !live::can_run("a_dry_run_promotes_nothing") {
        return;
    }
    // The same program and policy with and without: what is left undone could have been done.
    let program = ["random", "--size=64MiB", "--until-eof"];
    let options = ["--interval=200ms", "--policy=ingens", WHOLE_CORE];
    let dry = [&options[..], &["--dry-run", "--fault=inherit"]].concat();
    let (target, ready) = start(&mut mega_run(&dry, &program));
    let before = huge_bytes(ready.pid);
    let regions = (area(&ready, "random").bytes - before) / HUGE_PAGE;
    if regions == 0 {
        skip("a_dry_run_promotes_nothing", "the THP mode is `always`");
        return;
    }
    until_counted(target.child.id(), "would_promote", regions);
    assert_eq!(huge_bytes(ready.pid), before);
    assert_eq!(finish(target).huge_bytes, before);
    let (target, _) = start(&mut mega_run(&options, &program));
    until_promoted(target.child.id(), regions);
    finish(target);
}

#[test]
fn a_dry_run_clears_and_demotes_nothing() {
    let name = "a_dry_run_clears_and_demotes_nothing";
    if !live::can_run(name) {
        return;
    }
    let program = ["zeros", "--size=64MiB", "--until-eof"];
    let options = ["--interval=200ms", "--policy=mega", WHOLE_CORE];
    let dry = [&options[..], &["--dry-run", "--fault=inherit"]].concat();
    let inherit = [&options[..], &["--fault=inherit"]].concat();
    let (target, ready) = start(&mut mega_run(&inherit, &program));
    let bytes = area(&ready, "zeros").bytes;
    if huge_bytes(ready.pid) < bytes {
        skip(
            name,
            "the kernel gave no huge pages at fault (THP mode never, or no contiguity)",
        );
        return;
    }
    until_counted(target.child.id(), "steps", 3);
    let tracker = json(mega().args(["status", "--json"]))["managers"][0]["tracker"].clone();
    if tracker == "mapped" {
        skip(
            name,
            "the tracker here, mapped, sees no accesses to demote by",
        );
        return;
    }
    assert!(referenced(ready.pid) < bytes, "they are not cleared");
    until_counted(target.child.id(), "demoted", bytes / HUGE_PAGE / 2);
    finish(target);
    let (target, ready) = start(&mut mega_run(&dry, &program));
    until_counted(target.child.id(), "steps", 40);
    assert!(huge_bytes(ready.pid) >= bytes);
    assert!(referenced(ready.pid) >= bytes);
    finish(target);
}

#[test]
fn the_summary_goes_to_standard_error() {
    if !live::can_run("the_summary_goes_to_standard_error") {
        return;
    }
    let output = live::run(&mut mega_run(
        &["--interval=200ms"],
        &["small", "--seconds=1"],
    ));
    assert!(output.status.success());
    // Standard output is the program's own: two events, nothing else.
    assert_eq!(text(&output.stdout).lines().count(), 2);
    assert!(
        text(&output.stderr).contains("promoted"),
        "{}",
        text(&output.stderr)
    );
}
