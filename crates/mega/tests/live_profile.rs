//! `mega run`: what a program did last time decides how it starts, and is corrected where it was wrong. The
//! policy is `base`, so that whatever is huge is so by the profile.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use live::{HUGE_PAGE, area, done, finish, mega, mega_run, number, start, until_huge};
use mega_core::profile::{Reason, Verdict};
use mega_lab::workload::report::Done;
use mega_linux::profile::Store;
use serde_json::Value;
use tempfile::TempDir;

/// Profiles, and the reports of runs that use them.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().expect("a folder"))
    }

    fn state(&self) -> &Path {
        self.0.path()
    }

    /// A workload under `mega run`.
    fn run(&self, options: &[&str], workload: &[&str]) -> Command {
        let report = format!("--report={}", self.state().join("report").display());
        let common = [report.as_str(), "--policy=base", "--interval=200ms"];
        let options: Vec<&str> = common.iter().chain(options).copied().collect();
        let mut command = mega_run(&options, workload);
        command.env("MEGA_STATE_DIR", self.state());
        command
    }

    /// What the last run's report says of the one profile.
    fn report(&self) -> Value {
        let text = std::fs::read(self.state().join("report")).expect("a report");
        let report: Value = serde_json::from_slice(&text).expect("one JSON object");
        let profiles = report["profiles"].as_array().expect("profiles");
        assert_eq!(profiles.len(), 1, "{report}");
        profiles[0].clone()
    }

    /// The profiles, by `mega profiles`.
    fn profiles(&self) -> Vec<Value> {
        let mut command = mega();
        command.env("MEGA_STATE_DIR", self.state());
        let listed = live::json(command.args(["profiles", "list", "--json"]));
        listed["profiles"].as_array().expect("profiles").clone()
    }

    /// The one profile.
    fn profile(&self) -> Value {
        let profiles = self.profiles();
        assert_eq!(profiles.len(), 1, "{profiles:?}");
        profiles[0].clone()
    }

    /// Runs a workload, which ends when it is told to, until `learnt` says so of its profile.
    fn run_until(&self, workload: &[&str], learnt: impl Fn(&Value) -> bool) -> Done {
        for seconds in live::UNTIL_LEARNT {
            let (target, _) = start(&mut self.run(&[], workload));
            std::thread::sleep(Duration::from_secs(seconds));
            let done = finish(target);
            if self.profiles().iter().any(&learnt) {
                return done;
            }
        }
        panic!("never learnt: {:?}", self.profiles());
    }
}

#[test]
fn a_program_that_filled_its_memory_starts_with_huge_pages_next_time() {
    let name = "a_program_that_filled_its_memory_starts_with_huge_pages_next_time";
    if !live::can_run(name) {
        return;
    }
    let place = Place::new();
    let workload = ["random", "--size=128MiB", "--until-eof"];
    let says_huge = |profile: &Value| profile["mappings"][0]["next_time"]["faults"] == "huge";
    let first = place.run_until(&workload, says_huge);
    assert_eq!(first.huge_bytes, 0, "{first:?}");
    assert_eq!(number(&place.report(), "made_ready"), 0);
    let runs = number(&place.profile(), "runs");

    let (target, ready) = start(&mut place.run(&[], &workload));
    let bytes = area(&ready, "random").bytes;
    until_huge(ready.pid, bytes, 95);
    let second = finish(target);
    // It asked for this memory and for nothing else.
    assert!(
        second.resident_bytes <= first.resident_bytes + 2 * HUGE_PAGE,
        "{second:?}"
    );
    let report = place.report();
    let made = number(&report, "made_ready") + number(&report, "promoted");
    assert!(made >= bytes / HUGE_PAGE / 100 * 95, "{report}");
    assert_eq!(report["wrong"], serde_json::json!([]), "{report}");
    assert_eq!(number(&place.profile(), "runs"), runs + 1);
}

#[test]
fn base_and_inherit_have_nothing_to_do_with_profiles() {
    if !live::can_run("base_and_inherit_have_nothing_to_do_with_profiles") {
        return;
    }
    let place = Place::new();
    let workload = ["random", "--size=64MiB", "--seconds=1"];
    for option in ["--fault=base", "--fault=inherit", "--dry-run"] {
        done(&mut place.run(&[option], &workload));
        let store = Store::at(place.state());
        assert!(store.names().expect("names").is_empty(), "{option}");
    }
}

/// Runs `sparse` for long enough to be looked into.
fn sparse(place: &Place) -> Done {
    done(&mut place.run(&[], &["sparse", "--size=128MiB", "--seconds=6"]))
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_sparse_program_keeps_base_pages_and_a_wrong_profile_is_corrected() {
    let name = "a_sparse_program_keeps_base_pages_and_a_wrong_profile_is_corrected";
    if !live::can_run(name) {
        return;
    }
    let place = Place::new();
    let alone = sparse(&place);
    for _ in 0..2 {
        let why = place.profile()["mappings"][0]["next_time"]["why"].clone();
        assert_eq!(why, "sparse");
        let again = sparse(&place);
        assert_eq!(again.huge_bytes, 0, "{again:?}");
        // Within 2 %, and what a program's own memory differs by from run to run.
        let allowed = alone.resident_bytes / 50 + (1 << 20);
        assert!(
            again.resident_bytes <= alone.resident_bytes + allowed,
            "{again:?}"
        );
    }

    // As if it had filled its memory last time.
    let store = Store::at(place.state());
    let names = store.names().expect("names");
    let mut profile = store
        .read(&names[0])
        .expect("read")
        .expect("it is there")
        .profile;
    for known in &mut profile.mappings {
        known.filled = Some(1.0);
        known.touched = known.touched.max(64 << 20);
    }
    store.write(&profile).expect("written");
    let class = profile.mappings[0].class;
    assert_eq!(profile.verdict(class), Verdict::Huge);

    let wrong = sparse(&place);
    let report = place.report();
    assert!(number(&report, "promoted") > 0, "{report}");
    assert_eq!(
        report["wrong"].as_array().map(Vec::len),
        Some(1),
        "{report}"
    );
    if live::kernel_version() >= (6, 12) {
        // What was wasted was given back while it ran.
        assert!(number(&report, "given_back") > 0, "{report}");
        let allowed = alone.resident_bytes / 50 + (1 << 20);
        assert!(
            wrong.resident_bytes <= alone.resident_bytes + allowed,
            "{wrong:?}"
        );
    }
    let corrected = store
        .read(&names[0])
        .expect("read")
        .expect("it is there")
        .profile;
    assert_eq!(corrected.verdict(class), Verdict::Base(Reason::Wasted));
    let after = sparse(&place);
    assert_eq!(after.huge_bytes, 0, "{after:?}");
}

#[test]
fn a_damaged_profile_is_told_in_one_line_and_counts_for_nothing() {
    if !live::can_run("a_damaged_profile_is_told_in_one_line_and_counts_for_nothing") {
        return;
    }
    let place = Place::new();
    let workload = ["random", "--size=64MiB", "--seconds=4"];
    done(&mut place.run(&[], &workload));
    let store = Store::at(place.state());
    let name = store.names().expect("names")[0].clone();
    let path = store.path().join(format!("{name}.json"));
    std::fs::write(&path, b"{\"version\": 1, \xff").expect("written");

    let output = live::run(&mut place.run(&[], &workload));
    assert!(output.status.success());
    let said = live::text(&output.stderr);
    let told: Vec<&str> = said.lines().filter(|line| line.contains(&name)).collect();
    assert!(told.iter().any(|line| line.contains("damaged")), "{said}");
    assert_eq!(number(&place.report(), "made_ready"), 0);
    assert_eq!(number(&place.profile(), "runs"), 1);
}
