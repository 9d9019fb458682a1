//! `mega hz` where hzmem's kernel module is not loaded, and with wrong arguments.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod live;

use std::path::Path;

use live::{mega, run, skip, text};

/// The exit code and what was said on standard error, which is all there is.
fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(mega().args(arguments));
    assert!(output.stdout.is_empty(), "{arguments:?} printed data");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn without_the_module_one_line_says_what_is_missing() {
    if Path::new("/sys/fs/hzmem").exists() {
        return skip(
            "without_the_module_one_line_says_what_is_missing",
            "the module is loaded here",
        );
    }
    for arguments in [
        &["hz", "status"] as &[&str],
        &["hz", "status", "--json"],
        &["hz", "grow", "128MiB"],
        &["hz", "grow", "1GiB", "--node", "0", "--json"],
        &["hz", "shrink", "all"],
        &["hz", "shrink", "0x100000000", "--json"],
    ] {
        let (code, said) = refusal(arguments);
        assert_eq!(code, Some(3), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(
            said.starts_with("mega: the kernel module hzmem (/sys/fs/hzmem) is missing: "),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn what_to_do_must_be_said_rightly() {
    for wrong in [
        &["hz"] as &[&str],
        &["hz", "grow"],
        &["hz", "grow", "0"],
        &["hz", "grow", "much"],
        &["hz", "grow", "1GiB", "--node", "x"],
        &["hz", "shrink"],
        &["hz", "shrink", "everything"],
        &["hz", "status", "now"],
    ] {
        let (code, said) = refusal(wrong);
        assert_eq!(code, Some(2), "{wrong:?}: {said}");
    }
}

#[test]
fn the_doctor_names_hzmem() {
    let output = run(mega().args(["doctor", "--json"]));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let features = report["features"].as_array().unwrap();
    let hzmem = features
        .iter()
        .find(|feature| feature["name"] == "hzmem")
        .expect("it is listed");
    let loaded = Path::new("/sys/fs/hzmem").exists();
    let expected = if loaded { "available" } else { "missing" };
    assert_eq!(hzmem["state"], expected);
    assert_eq!(hzmem["required"], false);
}
