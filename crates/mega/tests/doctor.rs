//! `mega doctor`: what a killed mega left changed, and a kernel module of another version, which other commands tell too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod live;

use std::process::{Command, Output};

use live::daemon::{Daemon, Place};
use live::{finish, skip, start, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const MEGA: &str = env!("CARGO_BIN_EXE_mega");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_setting_that_a_killed_mega_left_changed_is_shown() {
    let run_dir = tempfile::tempdir().unwrap();
    let record = json!({
        "path": "/sys/kernel/debug/anon_pud/sequential",
        "original": "N",
        "owners": [{ "process": { "pid": 4_000_000, "start_time": 1 }, "serial": 0, "wants": "Y" }],
    });
    let file = run_dir
        .path()
        .join("setting-sys-kernel-debug-anon_pud-sequential.json");
    std::fs::write(&file, record.to_string()).unwrap();
    let doctor = |arguments: &[&str]| {
        let mut command = Command::new(MEGA);
        command.arg("doctor").args(arguments);
        command.env("MEGA_RUN_DIR", run_dir.path());
        command.output().unwrap()
    };

    let words = text(&doctor(&[]).stdout);
    let expected = "left by a killed mega: /sys/kernel/debug/anon_pud/sequential is Y, it was N";
    assert!(words.contains(expected), "{words}");
    let report: Value = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    let stale = json!([{ "path": record["path"], "set": "Y", "original": "N" }]);
    assert_eq!(report["stale_settings"], stale);
    assert_eq!(report["stale_state"], Value::Null);

    std::fs::write(&file, "{").unwrap();
    let words = text(&doctor(&[]).stdout);
    assert!(
        words.contains("what killed megas left changed is not known"),
        "{words}"
    );
}

#[test]
#[ignore = "takes long: make test-long"]
fn what_touches_cost_is_shown_where_it_is_known() {
    let state_dir = tempfile::tempdir().unwrap();
    let doctor = |arguments: &[&str]| {
        let mut command = Command::new(MEGA);
        command.arg("doctor").args(arguments);
        command.env("MEGA_STATE_DIR", state_dir.path());
        command.output().unwrap()
    };
    let words = text(&doctor(&[]).stdout);
    assert!(words.contains("there is no calibration yet"), "{words}");
    let report: Value = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    assert_eq!(report["calibration"], Value::Null);
    assert!(report["calibration_unknown"].is_string());
    let drawn = doctor(&["--svg", "/dev/null"]);
    assert_eq!(drawn.status.code(), Some(1));

    let picture = state_dir.path().join("picture.svg");
    let made = doctor(&["--calibrate", "--json", "--svg", picture.to_str().unwrap()]);
    let error = text(&made.stderr);
    if error.contains("is missing") {
        return skip("what_touches_cost_is_shown_where_it_is_known", &error);
    }
    let report: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(report["calibration"]["points"][0]["ns"].as_f64() > Some(0.0));
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("overlapped"));
    let words = text(&doctor(&[]).stdout);
    assert!(words.contains("to make a region huge takes"), "{words}");

    let kept = state_dir.path().join("calibration.json");
    std::fs::write(kept, "{").unwrap();
    let words = text(&doctor(&[]).stdout);
    assert!(words.contains("calibration.json is damaged"), "{words}");
}

/// Runs mega where `/dev/mega` is a device that does not know its requests, in a mount namespace of its own: what
/// another version of the module looks like when its structures have another size.
fn with_another_module(arguments: &[&str]) -> Output {
    let script = "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && mknod /dev/mega c 1 3 && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, MEGA]);
    command.args(arguments).output().unwrap()
}

#[test]
fn a_module_of_another_version_is_named_by_doctor_and_commands() {
    let name = "a_module_of_another_version_is_named_by_doctor_and_commands";
    if !with_another_module(&["--version"]).status.success() {
        return skip(name, "it needs root, and mount namespaces");
    }
    let told = "mega.ko is loaded, but it speaks another version of its interface";

    let doctor = text(&with_another_module(&["doctor"]).stdout);
    let module = doctor
        .lines()
        .find(|line| line.contains("kernel module (mega.ko)"));
    assert!(module.unwrap().contains(told), "{doctor}");
    assert!(doctor.contains("rmmod mega"), "{doctor}");

    // By what the kernel itself offers, and said.
    let frag = with_another_module(&["frag", "--json"]);
    assert!(frag.status.success());
    let report: Value = serde_json::from_slice(&frag.stdout).unwrap();
    assert_eq!(report["source"], "page_flags");
    assert!(text(&frag.stderr).contains(told), "{}", text(&frag.stderr));

    // What cannot be done without it.
    let compact = with_another_module(&["compact", "--blocks", "1"]);
    assert_eq!(compact.status.code(), Some(3));
    let error = text(&compact.stderr);
    assert!(
        error.contains(told) && error.contains("rmmod mega"),
        "{error}"
    );

    let run = with_another_module(&["run", "--dry-run", "--", "true"]);
    assert!(run.status.success());
    assert!(text(&run.stderr).contains(told), "{}", text(&run.stderr));
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_daemon_has_a_machine_calibrated_at_an_idle_moment_and_once() {
    let place = Place::new();
    let config = |wait| {
        place.write(&format!(
            "calibrate_when_idle = \"{wait}\"\n[[select]]\nname = \"mine\"\nexecutable = \"{}\"\n",
            place.program().display()
        ));
    };
    config("never");
    let daemon = Daemon::start(&place);
    config("0s");
    daemon.signal(Signal::HUP);
    daemon.logs("calibrating this machine: there is no calibration yet");
    let says = |what: &str| daemon.log().contains(what);
    until("a calibration", || {
        says("calibrated this machine in") || says("this machine is not calibrated")
    });
    if says("this machine is not calibrated") {
        return skip(
            "a_daemon_has_a_machine_calibrated_at_an_idle_moment_and_once",
            &daemon.log(),
        );
    }
    assert!(place.0.path().join("state/calibration.json").is_file());
    assert_eq!(daemon.stop(), Some(0));
    // The next one finds it.
    let daemon = Daemon::start(&place);
    let (program, _) = start(&mut place.workload());
    until("steps", || {
        place.status(daemon.pid())["groups"][0]["actions"]["steps"].as_u64() > Some(3)
    });
    assert!(!daemon.log().contains("calibrating"), "{}", daemon.log());
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}
