//! What the packages hold fits the program: the configuration and its examples are right, the unit is bounded, and the
//! versions agree. `make test-packages` installs the packages themselves.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod live;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use live::{mega, run, skip, text};

/// The highest exposure, by `systemd-analyze security`, in tenths.
const EXPOSURE: u32 = 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The paths in a folder of the repository that end so.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect()
}

#[test]
fn the_configuration_is_right_alone_and_with_all_examples() {
    let folder = tempfile::tempdir().expect("a folder");
    let main = folder.path().join("mega.toml");
    let drop_ins = folder.path().join("mega.toml.d");
    std::fs::create_dir(&drop_ins).expect("a folder");
    std::fs::copy(root().join("packaging/mega.toml"), &main).expect("a copy");
    std::fs::copy(
        root().join("packaging/90-large.toml"),
        drop_ins.join("90-large.toml"),
    )
    .expect("a copy");
    let check = || run(mega().args(["daemon", "--check", "--config"]).arg(&main));
    assert!(check().status.success(), "{}", text(&check().stderr));

    let examples = files("packaging/examples", ".toml");
    assert!(examples.len() >= 4, "{examples:?}");
    for example in examples {
        let name = example.file_name().expect("a name");
        std::fs::copy(&example, drop_ins.join(name)).expect("a copy");
        let done = check();
        assert!(
            done.status.success(),
            "{}: {}",
            example.display(),
            text(&done.stderr)
        );
    }
}

/// The keys that the files of a folder read from a configuration: what is between the quotes after these words.
fn keys() -> BTreeSet<String> {
    let files =
        ["load.rs", "metrics.rs"].map(|file| read(&format!("crates/mega/src/config/{file}")));
    let mut keys = BTreeSet::new();
    for text in files {
        for call in ["optional(", "raw("] {
            for rest in text.split(call).skip(1) {
                let rest = rest.trim_start().strip_prefix('"');
                keys.extend(
                    rest.and_then(|rest| rest.split('"').next())
                        .map(str::to_owned),
                );
            }
        }
    }
    keys
}

#[test]
fn the_man_page_of_the_configuration_has_every_key() {
    let page = read("packaging/mega.toml.5");
    let keys = keys();
    assert!(keys.len() > 20 && keys.contains("min_resident"), "{keys:?}");
    for key in keys {
        let is_named = page
            .lines()
            .filter(|line| line.starts_with(".B") || line.starts_with(".SH"))
            .any(|line| {
                line.split([' ', '"', ',', '[', ']'])
                    .any(|word| word == key)
            });
        assert!(is_named, "mega.toml(5) has no {key}");
    }
    // Its example is a configuration.
    let (_, example) = page.split_once(".EX\n").expect("an example");
    let (example, _) = example.split_once(".EE").expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mega.toml");
    std::fs::write(&file, example).expect("written");
    let check = run(mega().args(["daemon", "--check", "--config"]).arg(&file));
    assert!(check.status.success(), "{}", text(&check.stderr));
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let says = text(&run(mega().arg("--version")).stdout);
    assert!(says.starts_with(&format!("mega {version}")), "{says}");
    let first = |page: &str, mark: &str| {
        let text = read(page);
        let line = text.lines().find(|line| line.starts_with(mark));
        line.unwrap_or_else(|| panic!("{page} has no {mark}"))
            .to_owned()
    };
    let latest = first("CHANGELOG.md", "## ");
    assert!(latest.starts_with(&format!("## {version}")), "{latest}");
    let package = first("debian/changelog", "mega (");
    assert!(
        package.starts_with(&format!("mega ({version}-")),
        "{package}"
    );
}

#[test]
fn the_version_names_the_commit_of_the_checkout() {
    let git = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(root())
        .output();
    let commit = git.map(|output| text(&output.stdout)).unwrap_or_default();
    if commit.is_empty() {
        return skip(
            "the_version_names_the_commit_of_the_checkout",
            "this is no git checkout",
        );
    }
    let says = text(&run(mega().arg("--version")).stdout);
    assert!(says.contains(&format!("({})", &commit[..12])), "{says}");
}

#[test]
fn an_archive_of_the_sources_names_its_commit() {
    let archive = Command::new("sh")
        .args([
            "-c",
            "git archive HEAD crates/mega/commit.rs | tar -x -O && git rev-parse HEAD",
        ])
        .current_dir(root())
        .output()
        .expect("sh runs");
    if !archive.status.success() {
        return skip(
            "an_archive_of_the_sources_names_its_commit",
            "this is no git checkout",
        );
    }
    let says = text(&archive.stdout);
    let commit = says.lines().last().expect("a commit");
    assert!(
        says.contains(&format!("const ARCHIVED: &str = \"{commit}\";")),
        "{says}"
    );
}

#[test]
fn make_install_finds_the_program_in_each_unit() {
    for unit in files("packaging", ".service") {
        let name = unit.display().to_string();
        let text = std::fs::read_to_string(unit).expect("a unit");
        let started = text.lines().filter(|line| line.starts_with("Exec"));
        for line in started.filter(|line| line.contains("mega")) {
            assert!(line.contains("/usr/bin/mega "), "{name}: {line}");
        }
    }
}

#[test]
fn the_service_is_bounded() {
    let name = "the_service_is_bounded";
    let unit = root().join("packaging/mega.service");
    // The tool takes the unit by name from a folder of units, and 252 also by path.
    let done = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--no-pager"])
        .arg(format!("--threshold={EXPOSURE}"))
        .arg(unit)
        .output();
    match done {
        Err(error) => skip(name, &format!("systemd-analyze does not run: {error}")),
        Ok(done) => {
            let says = text(&done.stdout) + &text(&done.stderr);
            assert!(says.contains("exposure level"), "{says}");
            assert!(done.status.success(), "{says}");
        }
    }
}
