//! `mega worth` against workloads that know what they touch.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use live::daemon::{Daemon, Place};
use live::{area, calibrated, finish, mega, mega_lab, mega_run, run, skip, start, text, workload};
use mega_linux::profile::Store;
use mega_record::Reader;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The file that a calibration is kept in.
const KEPT: &str = "calibration.json";

/// Where the tests' own calibration is kept, made by the first of them.
fn state() -> &'static Path {
    static STATE: OnceLock<PathBuf> = OnceLock::new();
    STATE.get_or_init(|| {
        let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("worth-state");
        // Where there can be none, the command says so itself.
        let _ = calibrated::keep(&state);
        state
    })
}

/// `mega worth` with that calibration.
fn worth(arguments: &[&str]) -> Command {
    let mut command = mega();
    command
        .env("MEGA_STATE_DIR", state())
        .arg("worth")
        .args(arguments);
    command
}

/// What it prints as JSON; `None`, said so, where the machine lacks what it needs.
fn report(name: &str, arguments: &[&str]) -> Option<Value> {
    json(name, &run(&mut worth(arguments)))
}

/// The same of a process: measured for longer, as it says, where a busy machine lets the process run too little.
fn report_of(name: &str, pid: u32) -> Option<Value> {
    let pid = pid.to_string();
    for seconds in ["5", "20"] {
        let output = run(&mut worth(&[&pid, "--seconds", seconds, "--json"]));
        if !text(&output.stderr).contains("ran too little") {
            return json(name, &output);
        }
    }
    report(name, &[&pid, "--seconds", "60", "--json"])
}

fn json(name: &str, output: &Output) -> Option<Value> {
    if output.status.code() == Some(3) {
        skip(name, &text(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let json = printed
        .find("{\n")
        .map_or(printed.as_str(), |at| &printed[at..]);
    Some(serde_json::from_str(json).expect("one JSON object"))
}

fn value(report: &Value, field: &str) -> f64 {
    let field = &report[field];
    let value = field.as_f64().or_else(|| field["value"].as_f64());
    value.unwrap_or_else(|| panic!("{field} is no number"))
}

#[test]
fn the_touches_of_a_workload_are_those_that_it_counts() {
    let name = "the_touches_of_a_workload_are_those_that_it_counts";
    if !live::can_run(name) {
        return;
    }
    let (target, ready) = start(&mut workload(&[
        "random",
        "--size=256MiB",
        "--until-eof",
        "--no-huge-pages",
    ]));
    let Some(report) = report_of(name, ready.pid) else {
        return;
    };
    let done = finish(target);
    // It may not have had a CPU all the time: then its own clock saw fewer a second.
    let counted = done.operations_per_second / value(&report, "cpu_share").min(1.0);
    let ratio = value(&report, "touches_per_second") / counted;
    // Its speed changes with what the machine does besides; a wrong meter is off by far more.
    assert!(
        (0.2..5.0).contains(&ratio),
        "{ratio} of {counted}: {report}"
    );
    let bytes = area(&ready, "random").bytes;
    let promotable = report["promotable"].as_u64().expect("bytes");
    assert!(
        (bytes..bytes + (64 << 20)).contains(&promotable),
        "{report}"
    );
    let saved = &report["saved_share"];
    assert!(saved["low"].as_f64() <= saved["high"].as_f64());
    assert_eq!(report["version"], 1);
    let reasons: Vec<&str> = report["obstacles"]
        .as_array()
        .expect("obstacles")
        .iter()
        .filter_map(|obstacle| obstacle["reason"].as_str())
        .collect();
    assert!(reasons.contains(&"disabled_by_prctl"), "{reasons:?}");
    // Nothing of it was changed.
    assert_eq!(done.huge_bytes, 0);
}

#[test]
fn a_command_is_measured_until_it_ends() {
    let name = "a_command_is_measured_until_it_ends";
    if !live::can_run(name) {
        return;
    }
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("worth.svg");
    let lab = mega_lab();
    let arguments = [
        "--seconds",
        "4",
        "--json",
        "--svg",
        picture.to_str().expect("a path"),
        "--",
        lab.to_str().expect("a path"),
        "workload",
        "random",
        "--size=64MiB",
        "--seconds=15",
    ];
    let Some(report) = report(name, &arguments) else {
        return;
    };
    assert_eq!(report["name"], "mega-lab");
    assert!(value(&report, "touches_per_second") > 0.0, "{report}");
    let picture = std::fs::read_to_string(picture).expect("the picture");
    assert!(picture.contains("<polyline"));
}

#[test]
fn whom_to_measure_must_be_said_once() {
    for wrong in [&[][..], &["1", "--select", "x"], &["1", "--", "ls"]] {
        assert_eq!(run(&mut worth(wrong)).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_wrong_select_is_found_before_anything_is_measured() {
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        config.path(),
        "[[select]]\nname = \"web\"\nuser = \"root\"\n",
    )
    .expect("written");
    let file = config.path().to_str().expect("a path");
    let state = tempfile::tempdir().expect("a directory");
    let output =
        run(worth(&["--select", "wbe", "--config", file]).env("MEGA_STATE_DIR", state.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("has no select 'wbe'; there are web"),
        "{said}"
    );
    let kept = std::fs::read_dir(state.path())
        .expect("the directory")
        .count();
    assert_eq!(kept, 0, "a calibration was made");
}

#[test]
fn a_manager_tells_what_it_measured() {
    let name = "a_manager_tells_what_it_measured";
    if !live::can_run(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let option = format!("--report={}", file.display());
    // A profile of an earlier run would have its memory huge from the start, and then nothing is left to measure.
    let options = [option.as_str(), "--fault=base"];
    let mut command = live::mega_run(&options, &["random", "--size=128MiB", "--until-eof"]);
    let (target, ready) = start(command.env("MEGA_STATE_DIR", state()));
    let pid = ready.pid.to_string();
    let probe = run(&mut worth(&[&pid, "--seconds", "0.1"]));
    if probe.status.code() == Some(3) {
        skip(name, &text(&probe.stderr));
        return;
    }
    let manager = target.child.id();
    let gain = || {
        let output = run(mega().args(["status", "--json"]));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let managers = status["managers"].as_array().cloned().unwrap_or_default();
        let own = managers.into_iter().find(|one| one["pid"] == manager)?;
        let processes = own["groups"][0]["processes"].as_array()?.clone();
        let measured = processes.into_iter().map(|process| process["gain"].clone());
        measured.into_iter().find(|gain| !gain.is_null())
    };
    live::until("a gain", || gain().is_some());
    let words = text(&run(mega().args(["status", "--processes"])).stdout);
    assert!(
        words.contains(&format!("({pid}): huge pages save ")),
        "{words}"
    );
    finish(target);
    let written = std::fs::read(file).expect("a report");
    let written: Value = serde_json::from_slice(&written).expect("one JSON object");
    let gain = &written["groups"][0]["processes"][0]["gain"];
    let saved = &gain["saved_share"];
    assert!(
        saved["low"].as_f64() <= saved["value"].as_f64()
            && saved["value"].as_f64() <= saved["high"].as_f64(),
        "{gain}"
    );
    for field in ["cpu_share", "cost_cpu_seconds"] {
        assert!(value(gain, field) > 0.0, "{field}: {gain}");
    }
    assert!(gain["seconds_ago"].is_number(), "{gain}");
    assert!(gain.get("payback_seconds").is_some(), "{gain}");
}

/// What rests is known to access nothing; that says nothing of it once it works.
#[test]
fn a_daemon_measures_a_program_that_rested_at_first_once_it_works() {
    let name = "a_daemon_measures_a_program_that_rested_at_first_once_it_works";
    if !live::can_run(name) {
        return;
    }
    let place = Place::new();
    place.select_program("adaptive");
    let own = place.0.path().join("state");
    std::fs::create_dir(&own).expect("a directory");
    if std::fs::copy(state().join(KEPT), own.join(KEPT)).is_err() {
        skip(name, "there is no calibration of this machine");
        return;
    }
    let (target, ready) = start(place.workload().arg("--no-huge-pages"));
    let pid = i32::try_from(ready.pid).ok().and_then(Pid::from_raw);
    let pid = pid.expect("a pid");
    kill_process(pid, Signal::STOP).expect("a signal");
    let daemon = Daemon::start(&place);
    let group = || place.status(daemon.pid())["groups"][0].clone();
    let gain = || group()["processes"][0]["gain"].clone();
    live::until("looks at what rests", || {
        group()["actions"]["steps"].as_u64() >= Some(10)
    });
    assert!(gain().is_null(), "{}", gain());
    kill_process(pid, Signal::CONT).expect("a signal");
    live::until("a gain", || !gain().is_null());
    assert!(value(&gain(), "cpu_share") > 0.0, "{}", gain());
    assert_eq!(daemon.stop(), Some(0));
    finish(target);
}

#[test]
fn a_manager_records_how_often_a_program_touches_its_memory_where_it_measures_that() {
    let name = "a_manager_records_how_often_a_program_touches_its_memory_where_it_measures_that";
    if !live::can_run(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A state directory of its own, as what a run learnt of the program stays there.
    if let Err(missing) = calibrated::keep(folder.path()) {
        return skip(name, &missing);
    }
    // On a busy machine the program may run too little for a measurement, or touch nothing in one: then it is tried for longer.
    let is_measured = [4, 16, 32].into_iter().any(|seconds| {
        // What starts with huge pages by its profile has no base pages to measure.
        let _ = std::fs::remove_dir_all(folder.path().join("profiles"));
        let file = folder.path().join(format!("{seconds}.rec"));
        let record = format!("--record={}", file.display());
        let seconds = format!("--seconds={seconds}");
        let program = ["random", "--size=64MiB", &seconds];
        let mut command = mega_run(&[&record], &program);
        let output = run(command.env("MEGA_STATE_DIR", folder.path()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let file = File::open(&file).expect("the recording");
        let reader = Reader::new(file).expect("a recording");
        let header = reader.header().clone();
        assert!(header.touches && header.calibrated, "{header:?}");
        let mut measured = reader.flat_map(|look| look.news.touches.into_values());
        measured.any(|touches| touches.per_cpu_second > 0.0 && touches.gain.is_some())
    });
    assert!(is_measured, "no measurement of touches");
    let stored = Store::at(folder.path()).all().expect("profiles").0;
    let saved: Vec<_> = stored.iter().map(|one| one.profile.saved_share).collect();
    assert!(matches!(saved[..], [Some(_)]), "{saved:?}");
}
