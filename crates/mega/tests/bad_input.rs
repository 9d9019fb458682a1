//! Bad input gets one clear line and the right exit code, and changes nothing.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use live::{can_run, mega, run, skip, text};
use tempfile::TempDir;

/// The user and the group that own nothing.
const NOBODY: u32 = 65534;

/// A program that does nothing until it is killed.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Sleeper(
            Command::new("sleep")
                .arg("60")
                .stdin(Stdio::null())
                .spawn()
                .expect("sleep starts"),
        )
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A copy of the binary in a place that everyone may execute, to be run with no privileges.
struct Unprivileged(TempDir);

impl Unprivileged {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        open_to_all(folder.path(), 0o777);
        // By another program: a child that another test starts just then would inherit the file as we write it, and
        // what is open for writing cannot be run.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_mega"))
            .arg(folder.path())
            .status();
        assert!(copied.expect("cp runs").success());
        Unprivileged(folder)
    }

    /// The binary, as nobody where this is root.
    fn mega(&self) -> Command {
        let mut command = Command::new(self.0.path().join("mega"));
        command
            .env("MEGA_RUN_DIR", self.0.path().join("run"))
            .env("MEGA_STATE_DIR", self.0.path().join("state"));
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("opened");
}

/// That it ended with `code` and said one line on standard error, which is returned.
fn refused(output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("mega: "), "{said}");
    assert_eq!(text(&output.stdout), "");
    said
}

/// That the command line was refused with exit code 2; what was said is returned.
fn misused(arguments: &[&str]) -> String {
    let output = run(mega().args(arguments));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(text(&output.stdout), "");
    said
}

#[test]
fn a_process_that_does_not_exist() {
    // Above every pid there can be by default, and within what Linux allows at most.
    for command in ["scan", "promote", "demote"] {
        let said = refused(&run(mega().args([command, "4194304"])), 1);
        assert_eq!(said, "mega: process 4194304: there is no such process");
    }
}

#[test]
fn a_process_of_someone_else() {
    let name = "a_process_of_someone_else";
    if !rustix::process::geteuid().is_root() {
        return skip(name, "needs root, to be able to be someone else");
    }
    let (sleeper, unprivileged) = (Sleeper::start(), Unprivileged::new());
    for command in ["scan", "promote", "demote"] {
        let said = refused(&run(unprivileged.mega().args([command, &sleeper.pid()])), 3);
        assert!(said.contains("not permitted"), "{said}");
    }
}

#[test]
fn a_kernel_thread() {
    if !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        return skip(
            "a_kernel_thread",
            "process 2 is none here, as in a container",
        );
    }
    for command in ["scan", "promote", "demote"] {
        let said = refused(&run(mega().args([command, "2"])), 1);
        assert!(said.contains("kernel thread"), "{said}");
    }
}

#[test]
fn a_range_that_is_not_mapped() {
    if !can_run("a_range_that_is_not_mapped") {
        return;
    }
    let sleeper = Sleeper::start();
    for command in ["promote", "demote"] {
        // Below the lowest address that may be mapped in a 64-bit program of today.
        let said = refused(
            &run(mega().args([command, &sleeper.pid(), "200000-400000"])),
            1,
        );
        assert!(
            said.contains("nothing is mapped in 0x200000-0x400000"),
            "{said}"
        );
    }
}

#[test]
fn a_process_that_ends_in_the_window() {
    if !can_run("a_process_that_ends_in_the_window") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let sleeper = Sleeper::start();
    let scan = mega()
        .env("MEGA_RUN_DIR", folder.path().join("run"))
        .args(["scan", &sleeper.pid(), "--window=1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mega starts");
    // From when it has claimed the process on, it knows it.
    let claims = folder.path().join("run/claims.lock");
    live::until("the claim", || {
        std::fs::metadata(&claims).is_ok_and(|claims| claims.len() > 0)
    });
    drop(sleeper);
    let said = refused(&scan.wait_with_output().expect("its output"), 1);
    assert!(said.contains("has ended"), "{said}");
}

#[test]
fn a_malformed_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mega.toml");
    std::fs::write(
        &path,
        "[[select]]\nname = \"web\"\n\nexecutble = \"/usr/bin/web\"\n",
    )
    .expect("written");
    for check in [&["--check"][..], &[]] {
        let said = refused(
            &run(mega().args(["daemon", "--config"]).arg(&path).args(check)),
            1,
        );
        let wanted = format!(
            "mega: {}:4: unknown key 'executble'; did you mean 'executable'?",
            path.display()
        );
        assert_eq!(said, wanted);
    }
}

#[test]
fn a_configuration_that_is_not_there() {
    let said = refused(
        &run(mega().args(["daemon", "--config", "/nowhere/mega.toml"])),
        1,
    );
    assert!(
        said.starts_with("mega: /nowhere/mega.toml: there is no configuration"),
        "{said}"
    );
}

#[test]
fn no_privileges() {
    let folder = tempfile::tempdir().expect("a folder");
    open_to_all(folder.path(), 0o755);
    let unprivileged = Unprivileged::new();
    let path = folder.path().join("mega.toml");
    std::fs::write(&path, "[[select]]\nname = \"all\"\nmin_resident = \"0\"\n").expect("written");
    let said = refused(
        &run(unprivileged.mega().args(["run", "--", "echo", "started"])),
        3,
    );
    assert!(said.contains("is missing"), "{said}");
    let output = run(unprivileged.mega().args(["daemon", "--config"]).arg(&path));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("is missing"),
        "{}",
        text(&output.stderr)
    );
    let output = run(unprivileged.mega().arg("doctor"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("missing"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn an_unknown_policy_or_parameter_names_the_nearest() {
    let said = misused(&["run", "--policy=adaptiv", "--", "echo", "started"]);
    assert_eq!(
        said,
        "mega: unknown policy 'adaptiv'; did you mean 'adaptive'?; see `mega policies`"
    );
    let said = misused(&[
        "run",
        "--policy=mega",
        "--set=scan=5",
        "--",
        "echo",
        "started",
    ]);
    assert!(said.contains("did you mean 'scans'?"), "{said}");
    let said = misused(&[
        "run",
        "--policy=mega",
        "--set=scans=0",
        "--",
        "echo",
        "started",
    ]);
    assert!(said.contains("from 1 to"), "{said}");
}

#[test]
fn values_that_make_no_sense() {
    for arguments in [
        &["run"][..],
        &["run", "--interval=0s", "--", "echo", "started"],
        &["run", "--interval=5", "--", "echo", "started"],
        &["run", "--cpu-budget=25", "--", "echo", "started"],
        &["run", "--cpu-budget=0%", "--", "echo", "started"],
        &["run", "--copy-budget=much", "--", "echo", "started"],
        &["run", "--lock-bound=1h", "--", "echo", "started"],
        &["run", "--fault=huge", "--", "echo", "started"],
        &["run", "--tracker=best", "--", "echo", "started"],
        &["run", "--set=scans", "--", "echo", "started"],
        &["scan", "one"],
        &["scan", "0"],
        &["scan", "-1"],
        &["scan", "1", "--window=0s"],
        &["promote", "1", "somewhere"],
        &["promote", "1", "3000-1000"],
        &["demote", "99999999999"],
        &["stauts"],
    ] {
        misused(arguments);
    }
}

#[test]
fn a_program_that_cannot_be_started() {
    if !can_run("a_program_that_cannot_be_started") {
        return;
    }
    let said = refused(&run(mega().args(["run", "--", "/nowhere/program"])), 127);
    assert!(said.contains("cannot run /nowhere/program"), "{said}");
    refused(&run(mega().args(["run", "--", "/proc"])), 126);
}

#[test]
fn a_report_that_cannot_be_written_is_found_out_before_the_program_starts() {
    if !can_run("a_report_that_cannot_be_written_is_found_out_before_the_program_starts") {
        return;
    }
    let report = "--report=/nowhere/report.json";
    let said = refused(
        &run(mega().args(["run", report, "--", "echo", "started"])),
        1,
    );
    assert!(
        said.contains("cannot write the report to /nowhere/report.json"),
        "{said}"
    );
}

#[test]
fn nobody_listening_is_no_failure_and_a_full_disk_is_one() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = run(mega().arg("policies").stdout(writer));
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("opened");
    let said = refused(&run(mega().arg("policies").stdout(full)), 1);
    assert!(said.contains("cannot write to standard output"), "{said}");
}

#[test]
fn nothing_running_has_no_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = refused(
        &run(mega().arg("status").env("MEGA_RUN_DIR", folder.path())),
        1,
    );
    assert_eq!(
        said,
        "mega: no `mega daemon` and no `mega run` is running; `mega top --observe` looks without one"
    );
}
