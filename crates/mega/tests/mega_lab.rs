//! `mega lab`, `mega demo` and `mega workload` become mega-lab: nobody who starts them can tell.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::mega_lab::subject::Subject;
use live::{mega, mega_lab, run, text};
use tempfile::TempDir;

/// Both programs in folders as they are installed in; a `PATH` that names neither.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        // On the file system of the programs, which are linked to.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let installed = Installed(folder);
        installed.put(Path::new(env!("CARGO_BIN_EXE_mega")), "bin/mega");
        installed
    }

    fn with_lab(place: &str) -> Self {
        let installed = Self::new();
        installed.put(&mega_lab(), place);
        installed
    }

    fn put(&self, program: &Path, place: &str) {
        let place = self.path(place);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::hard_link(program, place).expect("linked");
    }

    fn path(&self, place: &str) -> PathBuf {
        self.0.path().join(place)
    }

    fn mega(&self) -> Command {
        let mut command = Command::new(self.path("bin/mega"));
        command.env("PATH", self.path("on-path"));
        command
    }
}

#[test]
fn the_pid_stays() {
    let mut command = mega();
    command.args(["workload", "random", "--size=4MiB", "--until-eof", "--json"]);
    let mut subject = Subject::start(command.stderr(Stdio::null())).expect("it starts");
    let ready = subject.ready().expect("the workload gets ready");
    assert_eq!(ready.pid, subject.child.id());
    let done = subject.finish().expect("it ends well");
    assert!(done.verified);
}

#[test]
fn the_help_names_the_command_as_it_was_typed() {
    for (arguments, usage) in [
        (["lab", "--help"].as_slice(), "Usage: mega lab "),
        (&["lab", "live", "--help"], "Usage: mega lab live "),
        (&["demo", "--help"], "Usage: mega demo "),
        (
            &["workload", "random", "--help"],
            "Usage: mega workload random ",
        ),
    ] {
        let output = run(mega().args(arguments));
        let said = text(&output.stdout);
        assert!(output.status.success() && said.contains(usage), "{said}");
    }
}

#[test]
fn options_and_exit_codes_are_those_of_mega_lab() {
    for arguments in [
        ["lab", "live", "--wrong"],
        ["workload", "random", "--size=x"],
        ["demo", "--seconds=1", "--json"],
    ] {
        let output = run(mega().args(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn it_is_found_where_it_is_installed() {
    for place in [
        "bin/mega-lab",
        "libexec/mega/mega-lab",
        "lib/mega/mega-lab",
        "on-path/mega-lab",
    ] {
        let output = run(Installed::with_lab(place).mega().args(["lab", "list"]));
        assert!(output.status.success(), "{place}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("gups"), "{place}");
    }
}

#[test]
fn where_it_is_missing_one_line_says_so() {
    let installed = Installed::new();
    for arguments in [["lab", "list"], ["demo", "--json"], ["workload", "random"]] {
        let output = run(installed.mega().args(arguments));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let lacking = installed.path("bin/mega-lab").display().to_string();
        assert!(
            said.starts_with("mega: ") && said.contains(&lacking),
            "{said}"
        );
        assert_eq!(text(&output.stdout), "");
    }
    // What mega itself does needs no experiments.
    assert!(run(installed.mega().arg("policies")).status.success());
    assert!(text(&run(installed.mega().arg("--help")).stdout).contains("workload"));
}
