//! `mega coverage`: says how much is in huge pages, why not more, and waits.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use live::daemon::{Daemon, Place};
use live::{area, can_run, finish, mega, number, run, start, text};
use serde_json::Value;

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// The exit code, and what it says of the first process.
fn coverage(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run(mega().arg("coverage").args(arguments).arg("--json"));
    let report = parsed(&output);
    assert_eq!(report["holds"], output.status.code() == Some(0), "{report}");
    (output.status.code(), report["processes"][0].clone())
}

#[test]
fn what_is_missing_is_counted_and_promoting_it_helps() {
    if !can_run("what_is_missing_is_counted_and_promoting_it_helps") {
        return;
    }
    let (program, ready) = start(&mut live::workload(&[
        "random",
        "--size=64MiB",
        "--until-eof",
    ]));
    let pid = ready.pid.to_string();
    let regions = area(&ready, "random").bytes / live::HUGE_PAGE;
    let (code, found) = coverage(&[&pid, "--min", "90%"]);
    assert_eq!(code, Some(1), "{found}");
    let free = &found["rest"]["none"];
    assert!(number(free, "regions") >= regions, "{found}");
    assert!(number(&found, "mapped") >= number(free, "bytes"), "{found}");
    // The fullest come first: of the rest of its memory no region is as full.
    let needed = number(&found, "blocks_needed");
    assert!((regions / 2..=regions + 8).contains(&needed), "{found}");
    assert!(found["managed"].is_null(), "{found}");
    let helps = |found: &Value, words: &str| {
        let help = found["help"].as_array().expect("help").iter();
        help.filter_map(Value::as_str)
            .any(|line| line.contains(words))
    };
    assert!(helps(&found, "no mega manages it"), "{found}");
    let words = run(mega().args(["coverage", &pid, "--min", "90%"]));
    assert_eq!(words.status.code(), Some(1));
    let words = text(&words.stdout) + &text(&words.stderr);
    // Where free memory is in small pieces, what the machine could give follows.
    assert!(words.contains("90 % does not hold"), "{words}");
    assert!(words.contains("nothing in the way"), "{words}");
    // Asked for nothing, it only tells.
    assert_eq!(coverage(&[&pid]).0, Some(0));

    let promoted = run(mega().args(["promote", &pid]));
    assert!(promoted.status.success(), "{}", text(&promoted.stderr));
    let (code, found) = coverage(&[&pid, "--min", "90%"]);
    assert_eq!(code, Some(0), "{found}");
    assert!(
        number(&found, "huge") >= regions * live::HUGE_PAGE,
        "{found}"
    );
    finish(program);
    let gone = run(mega().args(["coverage", &pid]));
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone.stderr));
}

#[test]
fn it_waits_for_the_daemon_to_cover_a_selection() {
    if !can_run("it_waits_for_the_daemon_to_cover_a_selection") {
        return;
    }
    let place = Place::new();
    place.select_program("ingens");
    let daemon = Daemon::start(&place);
    let ask = |arguments: &[&str]| {
        let mut command = mega();
        command.arg("coverage").args(arguments);
        run(command.env("MEGA_RUN_DIR", place.run_dir()))
    };
    // Nobody is covered where nobody is.
    let nobody = ask(&["--select", "mine", "--min", "0%", "--json"]);
    assert_eq!(nobody.status.code(), Some(1), "{}", text(&nobody.stdout));
    let (program, ready) = start(&mut place.workload());
    let output = ask(&[
        "--select", "mine", "--min", "80%", "--wait", "200s", "--json",
    ]);
    let report = parsed(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let found = &report["processes"][0];
    assert_eq!(found["pid"], ready.pid, "{report}");
    assert!(found["coverage"].as_f64() >= Some(0.8), "{report}");
    assert_eq!(found["managed"]["selection"], "mine", "{report}");
    assert_eq!(found["managed"]["policy"], "ingens", "{report}");
    let unknown = ask(&["--select", "mien"]);
    assert_eq!(unknown.status.code(), Some(1));
    let said = text(&unknown.stderr);
    assert!(
        said.ends_with("no running mega has a selection 'mien'; did you mean 'mine'?"),
        "{said}"
    );
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_promise_is_kept_under_a_policy_that_never_promotes() {
    if !can_run("a_promise_is_kept_under_a_policy_that_never_promotes") {
        return;
    }
    let place = Place::new();
    place.select_program("base\"\ncoverage = \"90%");
    let daemon = Daemon::start(&place);
    let (program, ready) = start(&mut place.workload());
    let mut ask = mega();
    ask.args(["coverage", &ready.pid.to_string(), "--json"])
        .env("MEGA_RUN_DIR", place.run_dir());
    // Until the daemon has found the program, nobody promises anything.
    live::until("the promise to hold", || {
        let output = run(&mut ask);
        let found = &parsed(&output)["processes"][0];
        let promised = found["min"] == 0.9;
        let enough = found["coverage"].as_f64() >= Some(0.9);
        assert_eq!(output.status.success(), enough || !promised, "{found}");
        promised && enough
    });
    live::until("the daemon to know", || {
        let group = place.status(daemon.pid())["groups"][0].clone();
        group["coverage"] == 0.9 && group["short_of_coverage"] == 0
    });
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

/// A Python program, killed with this.
struct Python(Child);

impl Python {
    /// Starts it, and waits until it says that it is ready.
    fn start(program: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(line, "ready\n");
        Python(child)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Maps 64 MiB of memory with these flags and writes to each page.
const FILLED: &str = "
import ctypes, mmap, os, sys
def fill(flags, size=64 << 20):
    memory = mmap.mmap(-1, size, flags=flags)
    for page in range(0, size, 4096):
        memory[page] = 1
    return memory
def rest():
    print('ready', flush=True)
    sys.stdin.read()
";

#[test]
fn each_cause_is_told_apart() {
    if !can_run("each_cause_is_told_apart") {
        return;
    }
    let regions = |cause: &str, program: &str| {
        let python = Python::start(&format!("{FILLED}{program}"));
        let (code, found) = coverage(&[&python.0.id().to_string(), "--min", "99%"]);
        assert_eq!(code, Some(1), "{found}");
        let count = found["rest"][cause]["regions"].as_u64().unwrap_or(0);
        // The kernel may choose an address that leaves a part of a region at either end.
        assert!(count >= 31, "{cause}: {found}");
        found
    };
    let private = "mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS";
    regions(
        "switched_off",
        &format!("ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)\nkept = fill({private})\nrest()"),
    );
    // The child ends with the pipe that it waits on, whose other end only the parent has.
    let found = regions(
        "shared_since_fork",
        &format!(
            "kept = fill({private})\nr, w = os.pipe()\nif os.fork() == 0:\n    os.close(w)\n    os.read(r, 1)\n    os._exit(0)\nrest()"
        ),
    );
    assert!(found["blocks_needed"].is_null(), "{found}");
    let found = regions("none", &format!("kept = fill({private})\nrest()"));
    assert!(number(&found, "blocks_needed") >= 31, "{found}");
}

#[test]
fn a_promise_of_some_memory_leaves_the_rest_alone() {
    if !can_run("a_promise_of_some_memory_leaves_the_rest_alone") {
        return;
    }
    let place = Place::new();
    let promise = |of: &str| {
        place.select_program(&format!(
            "base\"\ncoverage = \"100%\"\ncoverage_of = \"{of}"
        ));
    };
    promise("shared");
    let daemon = Daemon::start(&place);
    let ask = |arguments: &[&str]| {
        let mut command = mega();
        command.args(["coverage", "--json"]).args(arguments);
        run(command.env("MEGA_RUN_DIR", place.run_dir()))
    };
    let (program, ready) = start(&mut place.workload());
    let pid = ready.pid.to_string();
    // The program has no shared memory: the promise holds, and nothing is made huge.
    let kept = ask(&["--select", "mine", "--wait", "100s", "--min", "100%"]);
    assert_eq!(kept.status.code(), Some(0), "{}", text(&kept.stderr));
    let found = parsed(&kept)["processes"][0].clone();
    assert_eq!(number(&found, "mapped"), 0, "{found}");
    let all = parsed(&ask(&[&pid, "--of", "private"]))["processes"][0].clone();
    assert!(number(&all, "mapped") >= 64 << 20, "{all}");
    assert_eq!(number(&all, "huge"), 0, "{all}");

    promise("largest");
    daemon.signal(rustix::process::Signal::HUP);
    live::until("the other promise", || {
        place.status(daemon.pid())["groups"][0]["coverage_of"][0] == "largest"
    });
    let kept = ask(&["--select", "mine", "--wait", "100s", "--min", "100%"]);
    assert_eq!(kept.status.code(), Some(0), "{}", text(&kept.stdout));
    let found = parsed(&kept)["processes"][0].clone();
    assert!(number(&found, "huge") >= 64 << 20, "{found}");
    assert_eq!(found["managed"]["coverage_of"][0], "largest", "{found}");
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
    let wrong = ask(&[&pid, "--of", "larges"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("did you mean 'largest'?"));
}

#[test]
fn the_machine_says_what_it_could_give() {
    let output = run(mega().args(["coverage", "--json"]));
    let machine = parsed(&output)["machine"].clone();
    assert_eq!(output.status.code(), Some(0), "{machine}");
    let now = number(&machine["now"], "huge");
    let areas = machine["free_areas"].as_array().expect("free areas");
    assert!(areas.len() > 9, "{machine}");
    if machine["unknown"].is_null() {
        assert!(
            number(&machine["within_a_minute"], "huge") >= now,
            "{machine}"
        );
        assert!(machine["now"]["giant"].is_u64(), "{machine}");
    }
    let words = text(&run(mega().arg("coverage")).stdout);
    assert!(words.starts_with("this machine could give "), "{words}");
    let usage = run(mega().args(["coverage", "--min", "5%"]));
    assert_eq!(usage.status.code(), Some(2));
}
