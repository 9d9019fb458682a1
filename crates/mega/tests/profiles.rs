//! `mega profiles`: listed, shown and forgotten; a damaged one is told of and disturbs nothing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod live;

use std::process::{Command, Output};

use live::{mega, run, text};
use mega_core::profile::{Key, MappingClass, MappingKind, MappingSummary, Profile, RunSummary};
use mega_core::worth::Estimate;
use mega_linux::profile::Store;
use serde_json::Value;
use tempfile::TempDir;

/// A state directory with a profile of a program that fills its memory, and one of a sparse one.
struct Place {
    folder: TempDir,
    names: [String; 2],
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::at(folder.path());
        let names = [("/usr/bin/dense", 512), ("/usr/bin/sparse", 16)].map(|(program, pages)| {
            let mut profile = Profile::new(Key::new(program, ["serve", "--port", "1"], None));
            profile.learn(&RunSummary {
                mappings: vec![MappingSummary {
                    class: MappingClass::of(MappingKind::Anonymous, 1 << 30),
                    touched_regions: 512,
                    known_regions: 512,
                    known_pages: 512 * pages,
                    huge_regions: 0,
                    filled_seconds: 1.5,
                    zeros_when_full: None,
                    zeros_when_unknown: None,
                }],
                resident: 1 << 30,
                started_huge: false,
                seconds: 10.0,
            });
            if pages == 512 {
                let share = Estimate::within(0.31, 0.27, 0.35);
                profile.learn_gain(&RunSummary::default(), share);
            }
            store.write(&profile).expect("written");
            profile.key.name
        });
        Place { folder, names }
    }

    fn mega(&self) -> Command {
        let mut command = mega();
        command.env("MEGA_STATE_DIR", self.folder.path());
        command.arg("profiles");
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        live::json(self.mega().args(arguments).arg("--json"))
    }
}

/// One line on standard error, nothing on standard output, and this exit code.
fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn profiles_are_listed_and_shown() {
    let place = Place::new();
    let listed = text(&run(&mut place.mega()).stdout);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    for name in &place.names {
        assert!(listed.contains(name.as_str()), "{listed}");
    }
    for arguments in [&[][..], &["list"]] {
        let json = place.json(arguments);
        assert_eq!(json["version"], 1);
        assert_eq!(json["profiles"].as_array().map(Vec::len), Some(2));
    }
    let shown = place.json(&["show", "dense"]);
    assert_eq!(shown["name"], place.names[0]);
    assert_eq!(shown["executable"], "/usr/bin/dense");
    assert_eq!(shown["arguments"], "serve --port _");
    assert_eq!(shown["mappings"][0]["next_time"]["faults"], "huge");
    assert_eq!(shown["as_a_whole"]["faults"], "huge");
    let shown = place.json(&["show", &place.names[1]]);
    assert_eq!(shown["mappings"][0]["next_time"]["faults"], "base");
    assert_eq!(shown["mappings"][0]["next_time"]["why"], "sparse");
    for (name, says) in [
        ("sparse", ["base pages (sparse)", "save not measured"]),
        (
            "dense",
            ["huge pages", "save 31 % (27 to 35 %) of its CPU time"],
        ),
    ] {
        let words = text(&run(place.mega().args(["show", name])).stdout);
        assert!(says.iter().all(|says| words.contains(says)), "{words}");
    }
}

#[test]
fn what_is_forgotten_is_gone() {
    let place = Place::new();
    let forgotten = place.json(&["forget", "dense"]);
    assert_eq!(forgotten["forgotten"], serde_json::json!([place.names[0]]));
    let said = refused(&run(place.mega().args(["show", "dense"])), 1);
    assert!(said.contains("mega profiles"), "{said}");
    let forgotten = place.json(&["forget", "--all"]);
    assert_eq!(forgotten["forgotten"], serde_json::json!([place.names[1]]));
    assert_eq!(
        place.json(&["list"])["profiles"].as_array().map(Vec::len),
        Some(0)
    );
    // Nothing to forget is no failure; a name that there is not is one.
    assert!(run(place.mega().args(["forget", "--all"])).status.success());
    refused(&run(place.mega().args(["forget", "dense"])), 1);
}

#[test]
fn a_damaged_profile_is_told_in_one_line_and_the_others_are_listed() {
    let place = Place::new();
    let path = place.folder.path().join("profiles");
    let path = path.join(format!("{}.json", place.names[0]));
    std::fs::write(&path, b"\xff{").expect("written");
    let output = run(&mut place.mega());
    assert_eq!(output.status.code(), Some(0));
    let (listed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(listed.contains(&place.names[1]), "{listed}");
    assert!(!listed.contains(&place.names[0]), "{listed}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&place.names[0]), "{said}");
    refused(&run(place.mega().args(["show", "dense"])), 1);
    assert!(run(place.mega().args(["forget", "dense"])).status.success());
    assert!(!path.exists());
}

#[test]
fn a_prefix_of_several_names_is_refused() {
    let place = Place::new();
    let key = Key::new("/opt/dense", ["other"], None);
    Store::at(place.folder.path())
        .write(&Profile::new(key))
        .expect("written");
    let said = refused(&run(place.mega().args(["forget", "dense"])), 1);
    assert!(said.contains("2 profiles"), "{said}");
    for wrong in [
        &["forget"][..],
        &["forget", "x", "--all"],
        &["show"],
        &["lis"],
    ] {
        let output = run(place.mega().args(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
