//! `mega frag` and `mega compact` on the running kernel, as its `/proc` shows physical memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod live;

use std::path::Path;
use std::process::Command;

use live::skip;
use serde_json::Value;

fn mega() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mega"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn json(arguments: &[&str]) -> Value {
    let output = mega().args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{arguments:?}: {error}: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

#[test]
fn frag_counts_every_page_of_every_block_once() {
    if !is_root() {
        return skip(
            "frag_counts_every_page_of_every_block_once",
            "only root reads kpageflags",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("frag.svg");
    let report = json(&["frag", "--json", "--svg", picture.to_str().unwrap()]);
    assert_eq!(report["version"], 1);
    let zones = report["zones"].as_array().unwrap();
    assert!(!zones.is_empty());
    for zone in zones {
        let blocks = zone["blocks"].as_array().unwrap();
        let kinds = [
            "free_blocks",
            "movable_blocks",
            "full_blocks",
            "unmovable_blocks",
        ];
        let counted: u64 = kinds.iter().map(|kind| zone[kind].as_u64().unwrap()).sum();
        assert_eq!(counted, blocks.len() as u64);
        for block in blocks {
            let count = |name: &str| block[name].as_u64().unwrap();
            assert!(count("free") + count("movable") + count("unmovable") <= 512);
            assert_eq!(count("pfn") % 512, 0);
        }
        let fmfi = zone["fmfi"].as_array().unwrap();
        let ascending = fmfi
            .windows(2)
            .all(|pair| pair[0].as_f64() <= pair[1].as_f64());
        assert!(ascending, "a larger area is harder to find: {fmfi:?}");
    }
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

#[test]
fn frag_draws_without_colours_into_a_pipe() {
    if !is_root() {
        return skip(
            "frag_draws_without_colours_into_a_pipe",
            "only root reads kpageflags",
        );
    }
    let output = mega().arg("frag").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("FMFI, all zones") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn a_dry_run_changes_nothing_and_needs_no_module() {
    if !is_root() {
        return skip(
            "a_dry_run_changes_nothing_and_needs_no_module",
            "only root reads kpageflags",
        );
    }
    for policy in ["mega", "trident", "ingens", "sequential", "linux"] {
        let report = json(&[
            "compact",
            "--blocks",
            "2",
            "--policy",
            policy,
            "--dry-run",
            "--json",
        ]);
        assert_eq!(report["policy"], policy);
        assert_eq!(report["dry_run"], true);
        assert_eq!(report["migrated"], 0);
        assert!(report["emptied"].as_u64().unwrap() <= 2);
    }
}

#[test]
fn without_the_module_compact_says_what_is_missing() {
    if Path::new("/dev/mega").exists() {
        return skip(
            "without_the_module_compact_says_what_is_missing",
            "the module is loaded here",
        );
    }
    let (code, said) = refusal(&["compact", "--blocks", "1"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("the kernel module (/dev/mega) is missing"),
        "{said}"
    );
}

/// The exit code and what was said.
fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let output = mega().args(arguments).output().unwrap();
    assert!(output.stdout.is_empty(), "{arguments:?} printed data");
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn how_much_must_be_said_once_and_be_something() {
    for wrong in [
        &["compact"] as &[&str],
        &["compact", "--blocks", "0"],
        &["compact", "--blocks", "x"],
        &["compact", "--blocks", "1", "--chunks", "1"],
        &["compact", "--blocks", "1", "--policy", "tridnt"],
    ] {
        let (code, said) = refusal(wrong);
        assert_eq!(code, Some(2), "{wrong:?}: {said}");
    }
    let (_, said) = refusal(&["compact", "--blocks", "1", "--policy", "tridnt"]);
    assert!(said.contains("did you mean 'trident'?"), "{said}");
}
