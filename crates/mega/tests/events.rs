//! `mega events`: what changes is told as it happens, by the socket, in the journal and in the metrics.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use live::daemon::{Daemon, Place};
use live::{can_run, finish, mega, run, start, text, until};
use rustix::process::Signal;
use serde_json::Value;

/// `mega events --follow --json`, and what it has printed.
struct Follower {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Follower {
    fn start(place: &Place) -> Self {
        let mut child = mega()
            .args(["events", "--follow", "--json"])
            .env("MEGA_RUN_DIR", place.run_dir())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mega starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let place = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line: Value = serde_json::from_str(&line).expect("a JSON object a line");
                place.lock().expect("the lines").push(line);
            }
        });
        Follower { child, lines }
    }

    /// Waits for an event of this name, and returns the last of them with its manager.
    fn sees(&self, name: &str) -> Value {
        let found = || {
            let lines = self.lines.lock().expect("the lines");
            lines
                .iter()
                .rfind(|line| line["event"]["event"] == name)
                .cloned()
        };
        until(name, || found().is_some());
        found().expect("just seen")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_promise_a_process_and_a_reload_are_told_as_they_happen() {
    if !can_run("a_promise_a_process_and_a_reload_are_told_as_they_happen") {
        return;
    }
    let place = Place::new();
    place.select_program("base\"\ncoverage = \"90%");
    // It waits for a daemon that is yet to come.
    let follower = Follower::start(&place);
    let daemon = Daemon::start(&place);
    let (program, ready) = start(&mut place.workload());
    let managed = follower.sees("process_managed");
    assert_eq!(managed["version"], 1, "{managed}");
    assert_eq!(managed["manager"], daemon.pid(), "{managed}");
    assert_eq!(managed["event"]["pid"], ready.pid, "{managed}");
    assert_eq!(managed["event"]["name"], "program", "{managed}");
    assert_eq!(managed["event"]["selection"], "mine", "{managed}");
    let kept = follower.sees("coverage_kept")["event"].clone();
    assert_eq!(kept["promised"], 0.9, "{kept}");
    assert!(kept["coverage"].as_f64() >= Some(0.9), "{kept}");
    assert!(kept["time"].as_f64() >= managed["event"]["time"].as_f64());

    place.select_program("ingens");
    daemon.signal(Signal::HUP);
    assert_eq!(follower.sees("reloaded")["event"]["selections"], 1);
    place.write("nonsense = 1");
    daemon.signal(Signal::HUP);
    let refused = follower.sees("reload_refused");
    let why = refused["event"]["why"].as_str().expect("a reason");
    assert!(why.contains("nonsense"), "{why}");
    finish(program);
    assert_eq!(follower.sees("process_left")["event"]["pid"], ready.pid);

    // Who asks later gets the same, in words too.
    let ask = |arguments: &[&str]| {
        let mut command = mega();
        command.arg("events").args(arguments);
        run(command.env("MEGA_RUN_DIR", place.run_dir()))
    };
    let words = text(&ask(&[]).stdout);
    let said = format!("UTC  mine: program (pid {}) is managed\n", ready.pid);
    assert!(words.contains(&said), "{words}");
    assert!(words.contains("reloaded: managing 1 selections"), "{words}");
    assert_eq!(daemon.stop(), Some(0));
    let nobody = ask(&["--json"]);
    assert_eq!(nobody.status.code(), Some(1), "{}", text(&nobody.stderr));
}

#[test]
fn a_promise_that_is_not_kept_is_told_with_what_is_in_the_way() {
    if !can_run("a_promise_that_is_not_kept_is_told_with_what_is_in_the_way") {
        return;
    }
    let place = Place::new();
    place.select_program("base\"\ncoverage = \"90%");
    let mut dry = mega();
    dry.env("MEGA_RUN_DIR", place.run_dir());
    // It only looks, so it keeps no promise.
    let mut wrapped = Command::new("sh");
    wrapped
        .args(["-c", "exec \"$0\" \"$@\" --dry-run"])
        .arg(dry.get_program())
        .env("MEGA_RUN_DIR", place.run_dir());
    let daemon = Daemon::spawn(&mut wrapped, &place.config());
    let follower = Follower::start(&place);
    let (program, ready) = start(&mut place.workload());
    let broken = follower.sees("coverage_broken")["event"].clone();
    assert_eq!(broken["pid"], ready.pid, "{broken}");
    assert!(broken["coverage"].as_f64() < Some(0.9), "{broken}");
    // The workload has touched all of its 64 MiB.
    let free = broken["rest"]["none"].as_u64();
    assert!(free >= Some(60 << 20), "{broken}");
    daemon.logs("in huge pages, 90 % are promised: ");
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn the_journal_gets_fields() {
    const NAME: &str = "the_journal_gets_fields";
    if !can_run(NAME) {
        return;
    }
    // A journal of the test's own, in a mount namespace.
    let place = Place::new();
    place.select_program("ingens");
    let socket = place.0.path().join("socket");
    let journal = UnixDatagram::bind(&socket).expect("a socket");
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd && ln -s \"$FOLDER\" /run/systemd/journal || exit 77
        JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); export JOURNAL_STREAM
        exec \"$MEGA\" daemon --config \"$FOLDER/mega.toml\"";
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .env("FOLDER", place.0.path())
        .env("MEGA", mega().get_program())
        .env("MEGA_RUN_DIR", place.run_dir())
        .env("MEGA_STATE_DIR", place.0.path().join("state"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    // Ends with the test, however that ends.
    let mut daemon = Daemon {
        child,
        log: Arc::default(),
    };
    let next = || {
        let mut entry = vec![0; 1 << 16];
        journal
            .set_read_timeout(Some(std::time::Duration::from_secs(1)))
            .expect("a timeout");
        match journal.recv(&mut entry) {
            Ok(length) => String::from_utf8_lossy(&entry[..length]).into_owned(),
            Err(_) => String::new(),
        }
    };
    let wait_for = |wanted: &str| {
        let mut entry = String::new();
        until(wanted, || {
            entry = next();
            entry.contains(wanted)
        });
        entry
    };
    wait_for("managing 1 selections");
    let (program, ready) = start(&mut place.workload());
    let entry = wait_for("process_managed");
    // A value is after its length, in eight bytes, or after an equals sign.
    let field = |name: &str| entry.contains(&format!("\n{name}\n"));
    for name in [
        "MESSAGE",
        "MEGA_EVENT",
        "MEGA_SELECTION",
        "MEGA_PID",
        "MEGA_COMMAND",
    ] {
        assert!(field(name), "{name}: {entry}");
    }
    assert!(entry.contains(&ready.pid.to_string()), "{entry}");
    let (_, priority) = entry.split_once("PRIORITY\n").expect("a priority");
    assert_eq!(priority.chars().nth(8), Some('7'), "{entry}");
    finish(program);
    wait_for("process_left");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.child.wait().expect("its status").code(), Some(0));
    let mut said = String::new();
    let mut rest = daemon.child.stderr.take().expect("its standard error");
    rest.read_to_string(&mut said).expect("text");
    assert_eq!(said, "", "the journal has it");
}
