//! Under `mega run` a program lives as it would without: streams, signals, exit status.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use live::{can_run, mega, run, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Of a script whose trap sets `got`: waits for it. Not by `read`, which a signal that comes just before it does not end.
const UNTIL_GOT: &str = "until [ \"$got\" ]; do sleep 0.05; done";

/// `mega run OPTIONS -- COMMAND`.
fn wrapped(options: &[&str], command: &[&str]) -> Command {
    let mut wrapped = mega();
    wrapped.arg("run").args(options).arg("--").args(command);
    wrapped
}

/// The same with every signal's default disposition: whoever runs the tests may ignore SIGINT, as a shell does for
/// what it puts into the background, and a script cannot trap what was ignored when it began. `launcher` replaces
/// itself by mega.
fn wrapped_by(launcher: &[&str], options: &[&str], command: &[&str]) -> Command {
    let mut wrapped = Command::new("env");
    wrapped
        .arg("--default-signal")
        .args(launcher)
        .args([env!("CARGO_BIN_EXE_mega"), "run"])
        .args(options)
        .arg("--")
        .args(command)
        .env("MEGA_RUN_DIR", live::run_dir())
        .env("MEGA_STATE_DIR", live::state_dir());
    wrapped
}

/// A shell script under `mega run`, and its standard output by lines.
struct Script {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Script {
    fn start(script: &str) -> Self {
        Self::start_by(&[], script)
    }

    /// Started by a launcher as in [`wrapped_by`], in a process group of its own, which job control can stop
    /// whatever group the tests are in.
    fn start_by(launcher: &[&str], script: &str) -> Self {
        let mut command = wrapped_by(launcher, &["--quiet"], &["sh", "-c", script]);
        if launcher.is_empty() {
            command.process_group(0);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mega starts");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Script { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Signals mega, not the script.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().expect("its status").code()
    }
}

/// The state letter of a process.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its stat");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    rest.chars().next().expect("a state")
}

#[test]
fn the_exit_status_is_the_programs() {
    if !can_run("the_exit_status_is_the_programs") {
        return;
    }
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let output = run(&mut wrapped(&["--quiet"], &["sh", "-c", script]));
        assert_eq!(output.status.code(), Some(code), "{script}");
        assert_eq!(
            (text(&output.stdout), text(&output.stderr)),
            (String::new(), String::new())
        );
    }
}

#[test]
fn the_standard_streams_are_the_programs() {
    if !can_run("the_standard_streams_are_the_programs") {
        return;
    }
    let sent: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let mut child = wrapped(&["--quiet"], &["sh", "-c", "tee /dev/stderr"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mega starts");
    let mut stdin = child.stdin.take().expect("its input");
    let writer = std::thread::spawn({
        let sent = sent.clone();
        move || stdin.write_all(&sent)
    });
    let mut stderr = child.stderr.take().expect("its errors");
    let errors = std::thread::spawn(move || {
        let mut received = Vec::new();
        stderr.read_to_end(&mut received).map(|_| received)
    });
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("no panic").expect("written");
    let errors = errors.join().expect("no panic").expect("read");
    assert!(output.status.success());
    assert!(
        output.stdout == sent && errors == sent,
        "bytes were changed"
    );
}

#[test]
fn the_summary_is_all_that_mega_says() {
    if !can_run("the_summary_is_all_that_mega_says") {
        return;
    }
    let output = run(&mut wrapped(&[], &["sh", "-c", "echo out; echo err >&2"]));
    assert_eq!(text(&output.stdout), "out");
    let errors = text(&output.stderr);
    let mut lines = errors.lines();
    assert_eq!(lines.next(), Some("err"), "{errors}");
    assert!(
        lines.clone().all(|line| line.starts_with("mega: ")),
        "{errors}"
    );
    assert!(
        lines.clone().any(|line| line.contains("regions promoted")),
        "{errors}"
    );
    assert!(lines.any(|line| line.contains("manager CPU")), "{errors}");
}

#[test]
fn signals_sent_to_mega_reach_the_program_once() {
    if !can_run("signals_sent_to_mega_reach_the_program_once") {
        return;
    }
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ] {
        let mut script = Script::start(&format!(
            "trap 'echo got {name}; got=1' {name}; echo ready; {UNTIL_GOT}; sleep 0.3; echo end; exit 5"
        ));
        assert_eq!(script.line(), "ready");
        script.signal(signal);
        assert_eq!(script.line(), format!("got {name}"));
        assert_eq!(script.line(), "end");
        assert_eq!(script.code(), Some(5));
    }
}

#[test]
fn a_signal_from_the_program_to_its_group_comes_once() {
    if !can_run("a_signal_from_the_program_to_its_group_comes_once") {
        return;
    }
    let script = "trap 'echo got' USR1; kill -USR1 0; sleep 0.3; echo end";
    // In a group of their own, so that nobody else is signalled.
    let output = run(mega().args([
        "run", "--quiet", "--", "setsid", "--wait", "sh", "-c", script,
    ]));
    assert_eq!(text(&output.stdout), "got\nend");
    let output = run(&mut wrapped_by(
        &["setsid", "--wait"],
        &["--quiet"],
        &["sh", "-c", script],
    ));
    assert_eq!(text(&output.stdout), "got\nend");
}

#[test]
fn stop_and_continue_concern_both() {
    if !can_run("stop_and_continue_concern_both") {
        return;
    }
    let mut script = Script::start("echo $$; while read -r line; do echo $line; done");
    let pid: u32 = script.line().parse().expect("a pid");
    script.signal(Signal::TSTP);
    live::until("both to stop", || {
        state(pid) == 'T' && state(script.child.id()) == 'T'
    });
    script.signal(Signal::CONT);
    live::until("both to go on", || {
        state(pid) != 'T' && state(script.child.id()) != 'T'
    });
    writeln!(script.child.stdin.as_ref().expect("its input"), "on").expect("written");
    assert_eq!(script.line(), "on");
    drop(script.child.stdin.take());
    assert_eq!(script.code(), Some(0));
}

/// The kernel discards SIGTSTP for a process group that nobody could continue: so must mega.
#[test]
fn without_job_control_nothing_stops() {
    if !can_run("without_job_control_nothing_stops") {
        return;
    }
    let script = format!("trap 'echo got; got=1' WINCH; echo ready; {UNTIL_GOT}");
    // The leader of a session is an orphan as far as job control goes.
    let mut script = Script::start_by(&["setsid"], &script);
    assert_eq!(script.line(), "ready");
    script.signal(Signal::TSTP);
    // Read by mega after SIGTSTP, because signals are read in the order of their numbers.
    script.signal(Signal::WINCH);
    assert_eq!(script.line(), "got");
    assert_ne!(state(script.child.id()), 'T');
    assert_eq!(script.code(), Some(0));
}

/// A program that is stopped and continued by somebody else does not leave mega behind.
#[test]
fn a_stop_of_the_program_alone_is_no_concern_of_megas() {
    if !can_run("a_stop_of_the_program_alone_is_no_concern_of_megas") {
        return;
    }
    let mut script = Script::start("echo $$; read -r line; exit 3");
    let pid = Pid::from_raw(script.line().parse().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::STOP).expect("a signal");
    live::until("it to stop", || {
        state(pid.as_raw_nonzero().get().unsigned_abs()) == 'T'
    });
    kill_process(pid, Signal::CONT).expect("a signal");
    drop(script.child.stdin.take());
    assert_eq!(script.code(), Some(3));
}

#[test]
fn the_program_has_no_signal_blocked_and_no_file_too_many() {
    if !can_run("the_program_has_no_signal_blocked_and_no_file_too_many") {
        return;
    }
    let script = "grep SigBlk /proc/self/status; ls /proc/self/fd | wc -l";
    let plain = run(Command::new("sh").args(["-c", script]).stdin(Stdio::null()));
    let managed = run(wrapped(&["--quiet"], &["sh", "-c", script]).stdin(Stdio::null()));
    assert_eq!(text(&managed.stdout), text(&plain.stdout));
}

#[test]
fn mega_ends_with_the_command_and_not_with_its_descendants() {
    if !can_run("mega_ends_with_the_command_and_not_with_its_descendants") {
        return;
    }
    // The descendant keeps the pipe open for longer than the test waits for mega.
    let mut child = wrapped(&["--quiet"], &["sh", "-c", "sleep 60 & echo $!; exit 3"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mega starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(child.wait().expect("its status").code(), Some(3));
    let sleeper = Pid::from_raw(line.trim().parse().expect("a pid")).expect("a pid");
    assert!(
        kill_process(sleeper, Signal::KILL).is_ok(),
        "the descendant lives on"
    );
}

#[test]
fn the_report_has_every_field_that_is_documented() {
    if !can_run("the_report_has_every_field_that_is_documented") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let option = format!("--report={}", path.display());
    let mut child = wrapped(
        &["--quiet", "--interval=100ms", &option],
        &["sh", "-c", "read -r line; exit 4"],
    )
    .stdin(Stdio::piped())
    .spawn()
    .expect("mega starts");
    live::until_counted(child.id(), "steps", 2);
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("its status").code(), Some(4));
    let report: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a report")).expect("one JSON object");
    assert_eq!(
        keys(&report),
        "command compaction dry_run exchange exit_status fault free_areas groups host_page last_error manager memory mode notes pid process_lists profiles tracker uptime_seconds version"
    );
    assert_eq!(
        (&report["exit_status"], &report["mode"]),
        (&Value::from(4), &Value::from("run"))
    );
    assert_eq!(keys(&report["manager"]), "cpu_seconds cpu_share resident");
    assert_eq!(
        keys(&report["memory"]),
        "available contiguity fmfi free total"
    );
    assert_eq!(keys(&report["fault"]), "by mode");
    let group = &report["groups"][0];
    assert_eq!(
        keys(group),
        "actions copy_budget coverage coverage_of cpu_budget interval_auto interval_seconds last_error lock_bound_seconds longest_hold_seconds name parameters policy processes recording refused refused_count saved_cpu_seconds short_of_coverage standstill totals"
    );
    assert_eq!(
        keys(&group["totals"]),
        "accessed bloat giant huge mapped regions"
    );
    assert_eq!(
        keys(&group["processes"][0]),
        "accessed bloat bytes_copied bytes_given_back demoted gain giant huge larger_folios last_failure mapped name not_eligible pid promoted regions resident runs_guest saved_cpu_seconds wanted"
    );
    assert_eq!(
        keys(&group["actions"]),
        "already_so backed_off bloat_bytes_added bytes_copied bytes_exchanged bytes_given_back deferred_by_budget demoted demoted_giant failures freed_zero held_for_swap inspected promoted promoted_giant steps would_demote would_demote_giant would_free_zero would_promote would_promote_giant"
    );
    assert!(group["actions"]["steps"].as_u64() >= Some(2), "{group}");
}

/// The names of an object's fields, in order.
fn keys(value: &Value) -> String {
    let names: Vec<&str> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    names.join(" ")
}

#[test]
fn status_sees_a_running_mega() {
    if !can_run("status_sees_a_running_mega") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run_dir = folder.path().join("mega");
    let mut child = wrapped(&["--quiet", "--interval=50ms"], &["sleep", "60"])
        .env("MEGA_RUN_DIR", &run_dir)
        .spawn()
        .expect("mega starts");
    let mut status = mega();
    status
        .args(["status", "--json"])
        .env("MEGA_RUN_DIR", &run_dir);
    live::until("the program in the status", || {
        let output = run(&mut status);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let manager = &answer["managers"][0];
        manager["pid"] == child.id()
            && manager["command"] == serde_json::json!(["sleep", "60"])
            && manager["groups"][0]["processes"][0]["name"] == "sleep"
    });
    assert!(
        text(&run(mega().arg("status").env("MEGA_RUN_DIR", &run_dir)).stdout).contains("sleep")
    );
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    assert_eq!(child.wait().expect("its status").code(), Some(143));
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(
        run(&mut status).status.code(),
        Some(1),
        "it is gone from the status"
    );
}
