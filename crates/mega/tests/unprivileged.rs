//! Without root: what a user may do with their own programs works, and every other command says in one line what is missing and what to
//! ask the administrator for.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use live::{mega, mega_lab, run, skip, text};
use serde_json::Value;
use tempfile::TempDir;

/// The user `nobody`.
const NOBODY: &str = "65534";

/// A folder of nobody's, with a copy of mega that nobody may execute.
struct Nobody {
    home: TempDir,
}

impl Nobody {
    /// `None`, told under the test's name, where a test cannot become another user.
    fn new(name: &str) -> Option<Self> {
        let Ok(true) = Command::new("setpriv")
            .args([
                "--reuid",
                NOBODY,
                "--regid",
                NOBODY,
                "--clear-groups",
                "true",
            ])
            .status()
            .map(|status| status.success())
        else {
            skip(name, "setpriv cannot become the user nobody: it needs root");
            return None;
        };
        // What is built may lie where only root can go.
        let home = TempDir::new_in("/tmp").expect("a folder");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(home.path(), mode).expect("opened");
        std::fs::copy(mega().get_program(), home.path().join("mega")).expect("a copy");
        let own = home.path().join("own");
        std::fs::create_dir(&own).expect("a folder");
        let uid = NOBODY.parse().expect("a number");
        std::os::unix::fs::chown(&own, Some(uid), Some(uid)).expect("given away");
        Some(Nobody { home })
    }

    fn own(&self) -> PathBuf {
        self.home.path().join("own")
    }

    /// A command of nobody's. `privileges` are options of setpriv.
    fn command(&self, privileges: &[&str], program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .args(privileges)
            .arg(program)
            .current_dir(self.own())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.own())
            .env("XDG_RUNTIME_DIR", self.own());
        command
    }

    fn program(&self) -> String {
        self.home.path().join("mega").to_string_lossy().into_owned()
    }

    /// Runs mega without any privilege.
    fn mega(&self, arguments: &[&str]) -> Output {
        let none = ["--inh-caps=-all", "--bounding-set=-all"];
        run(self.command(&none, &self.program()).args(arguments))
    }

    /// A program of nobody's own with memory, which runs until it is killed.
    fn python(&self) -> Running {
        let script = "import mmap, time\nm = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor at in range(0, 32 << 20, 4096): m[at] = 1\nopen('ready', 'w').close()\ntime.sleep(3600)\n";
        let child = self
            .command(&[], "python3")
            .args(["-c", script])
            .spawn()
            .expect("python3 starts");
        live::until("the program", || self.own().join("ready").exists());
        Running(child)
    }
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn own_programs_can_be_looked_at() {
    let Some(nobody) = Nobody::new("own_programs_can_be_looked_at") else {
        return;
    };
    let program = nobody.python();
    let pid = program.0.id().to_string();
    let answer = |arguments: &[&str]| -> Value {
        let output = nobody.mega(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let scan = answer(&["scan", &pid, "--dry-run", "--json"]);
    assert!(
        scan["totals"]["mapped"].as_u64() >= Some(30 << 20),
        "{scan}"
    );
    let coverage = answer(&["coverage", &pid, "--json"]);
    assert!(
        coverage["processes"][0]["mapped"].as_u64() >= Some(30 << 20),
        "{coverage}"
    );
    let supply = answer(&["coverage", "--json"]);
    assert!(supply["machine"]["now"]["huge"].is_u64(), "{supply}");
    let why = supply["machine"]["unknown"].as_str().expect("a reason");
    assert!(why.contains("run as root"), "{why}");
    let observed = nobody.mega(&[
        "run",
        "--dry-run",
        "--report",
        "report.json",
        "--",
        "sleep",
        "0.5",
    ]);
    assert!(observed.status.success(), "{}", text(&observed.stderr));
    let report = std::fs::read(nobody.own().join("report.json")).expect("the report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(
        (&report["dry_run"], &report["tracker"]),
        (&Value::Bool(true), &"mapped".into())
    );
}

#[test]
fn what_is_not_permitted_is_told_in_one_line() {
    let Some(nobody) = Nobody::new("what_is_not_permitted_is_told_in_one_line") else {
        return;
    };
    let program = nobody.python();
    let pid = program.0.id().to_string();
    let ask = "ask the administrator";
    for (arguments, wanted) in [
        (&["worth", &pid][..], ask),
        (&["worth", "--", "true"], ask),
        (&["run", "--", "true"], ask),
        (&["scan", &pid], ask),
        (&["promote", &pid], ask),
        (&["demote", &pid], ask),
        (&["scan", "1", "--dry-run"], "run as root"),
        (&["coverage", "1"], "run as root"),
        (&["frag"], "run as root"),
        (&["doctor"], ask),
    ] {
        let output = nobody.mega(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    // With nobody to ask these have nothing to tell.
    for command in ["status", "events", "report"] {
        let output = nobody.mega(&[command]);
        let said = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 3)),
            "{command}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{command}: {said}");
    }
}

#[test]
fn with_one_privilege_own_programs_can_be_managed() {
    let name = "with_one_privilege_own_programs_can_be_managed";
    if !live::can_run(name) {
        return;
    }
    let Some(nobody) = Nobody::new(name) else {
        return;
    };
    let privileged = |arguments: &[&str]| {
        let nice = [
            "--inh-caps=+sys_nice",
            "--ambient-caps=+sys_nice",
            "--bounding-set=-all,+sys_nice",
        ];
        run(nobody.command(&nice, &nobody.program()).args(arguments))
    };
    let program = nobody.python();
    let pid = program.0.id().to_string();
    let promoted = privileged(&["promote", &pid, "--json"]);
    assert!(
        promoted.status.success(),
        "{}{}",
        text(&promoted.stdout),
        text(&promoted.stderr)
    );
    let report: Value = serde_json::from_slice(&promoted.stdout).expect("JSON");
    let regions = report["done"].as_u64().unwrap_or(0) + report["already_so"].as_u64().unwrap_or(0);
    assert!(regions >= 15, "{report}");
    let done = privileged(&[
        "run",
        "--policy",
        "ingens",
        "--interval",
        "100ms",
        "--",
        "sleep",
        "0.5",
    ]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(
        text(&done.stderr).contains("tracker mapped"),
        "{}",
        text(&done.stderr)
    );
    // Not those of others.
    let others = privileged(&["promote", &std::process::id().to_string()]);
    assert_eq!(others.status.code(), Some(3), "{}", text(&others.stderr));
}

/// The same demonstration, and it says on what.
#[test]
#[ignore = "takes long: make test-long"]
fn the_demo_is_shown_on_the_simulated_machine() {
    let Some(nobody) = Nobody::new("the_demo_is_shown_on_the_simulated_machine") else {
        return;
    };
    std::fs::copy(mega_lab(), nobody.home.path().join("mega-lab")).expect("a copy");
    let output = nobody.mega(&["demo", "--size=64MiB", "--json"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for line in [
        "mega demo: programs cannot be managed here: ",
        "mega demo: what follows is from a simulated machine (16 GiB, ",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let modes = shown["modes"].as_array().expect("modes").iter();
    let huge = |mode: &Value| mode["huge_bytes"].as_f64().expect("a number");
    let seen: Vec<_> = modes.map(|mode| (&mode["mode"], huge(mode))).collect();
    let [(base, none), (always, all), (managed, most)] = seen.as_slice() else {
        panic!("{shown}");
    };
    assert_eq!([*base, *always, *managed], ["base", "thp_always", "mega"]);
    assert!(*none < 1.0, "{shown}");
    assert!(all.min(*most) > 0.9 * f64::from(64 << 20), "{shown}");
    let picture = std::fs::read_to_string(nobody.own().join("mega-demo.svg"));
    assert!(picture.expect("a picture").starts_with("<svg"));
}
