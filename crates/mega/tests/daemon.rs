//! `mega daemon`: selects, manages, reloads, answers and stops.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use live::daemon::{Daemon, Place};
use live::folios::FolioMode;
use live::{area, can_run, finish, mega, run, start, until, until_huge};
use mega_core::Outcome;
use mega_record::{Ending, Header, Look, Reader};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn a_selected_program_gets_huge_pages_and_no_other() {
    if !can_run("a_selected_program_gets_huge_pages_and_no_other") {
        return;
    }
    let place = Place::new();
    place.select_program("ingens");
    let daemon = Daemon::start(&place);
    let (other, _) = start(&mut live::workload(&[
        "random",
        "--size=64MiB",
        "--until-eof",
    ]));
    let (selected, ready) = start(&mut place.workload());
    until_huge(ready.pid, area(&ready, "random").bytes, 90);
    // It is shown from the end of the tick that promoted its memory.
    live::until("the status to show it and no other", || {
        let status = place.status(daemon.pid());
        assert_eq!(status["mode"], "daemon");
        let processes = status["groups"][0]["processes"].as_array();
        let pids = processes
            .into_iter()
            .flatten()
            .map(|process| &process["pid"]);
        pids.eq([&Value::from(ready.pid)])
    });
    finish(selected);
    finish(other);
    // The tick that promoted it may still be under way.
    until("the promotions to be counted", || {
        place.status(daemon.pid())["groups"][0]["actions"]["promoted"].as_u64() > Some(0)
    });
    let log = Arc::clone(&daemon.log);
    assert_eq!(daemon.stop(), Some(0));
    until("totals in the log", || {
        log.lock().expect("the log").contains("mine: ")
    });
}

#[test]
fn folios_between_base_and_huge_pages_are_told_from_base_pages() {
    let name = "folios_between_base_and_huge_pages_are_told_from_base_pages";
    // Before, no kernel takes any.
    if !can_run(name) || live::kernel_version() < (6, 8) {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let daemon = Daemon::start(&place);
    // The program asks for no huge pages.
    let modes = [
        FolioMode::set(2048, "madvise"),
        FolioMode::set(64, "always"),
    ];
    let (program, ready) = start(&mut place.workload());
    drop(modes);
    let bytes = area(&ready, "random").bytes;
    until("the status to tell them", || {
        let status = place.status(daemon.pid());
        let folios = status["groups"][0]["processes"][0]["larger_folios"].clone();
        let of_64_kib = |folios: &&Value| folios["size"] == 64 << 10;
        let mapped = folios.as_array().into_iter().flatten().find(of_64_kib);
        // Beside the area there is what every program has: its heap, its files.
        mapped.is_some_and(|folios| folios["mapped"].as_u64() > Some(bytes / 4 * 3))
    });
    finish(program);
}

#[test]
fn groups_list_processes_together() {
    if !can_run("groups_list_processes_together") {
        return;
    }
    const GROUPS: u64 = 4;
    let place = Place::new();
    let group = |number: u64| {
        let program = match number {
            1 => place.program(),
            // No process has it, which is looked for all the same.
            _ => place.program().with_extension(number.to_string()),
        };
        format!(
            "[[select]]\nname = \"{number}\"\nexecutable = \"{}\"\n",
            program.display()
        )
    };
    let groups: String = (1..=GROUPS).map(group).collect();
    place.write(&format!(
        "[defaults]\ninterval = \"300ms\"\npolicy = \"base\"\n{groups}"
    ));
    let (program, _) = start(&mut place.workload());
    let daemon = Daemon::start(&place);
    let counts = || {
        let status = place.status(daemon.pid());
        let steps = status["groups"][0]["actions"]["steps"].as_u64();
        (steps.unwrap_or(0), status["process_lists"].as_u64())
    };
    until("its first steps", || counts().0 > 2);
    let (steps_before, before) = counts();
    until("its next ones", || counts().0 >= steps_before + 8);
    let (steps, lists) = counts();
    let (steps, lists) = (
        steps - steps_before,
        lists.zip(before).map(|(now, then)| now - then),
    );
    // One for each step, and one more for each group that a busy machine made late now and then; not one for each group's step.
    assert!(
        lists.is_some_and(|lists| lists > 0 && lists <= steps * GROUPS / 2),
        "{lists:?} lists in {steps} steps of {GROUPS} groups"
    );
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

/// Reads a recording.
fn recording(file: &Path) -> (Header, Vec<Look>, Ending) {
    let file = std::fs::File::open(file).expect("the recording");
    let mut reader = Reader::new(file).expect("a recording");
    let looks = reader.by_ref().collect();
    let ending = reader.usable().ending.clone();
    (reader.header().clone(), looks, ending)
}

#[test]
fn a_daemon_records_its_selections_and_keeps_the_older_recording() {
    if !can_run("a_daemon_records_its_selections_and_keeps_the_older_recording") {
        return;
    }
    let place = Place::new();
    let folder = place.config().with_file_name("recordings");
    let configure = |policy: &str, record: &str| {
        place.write(&format!(
            "{record}\n[[select]]\nname = \"mine\"\nexecutable = \"{}\"\npolicy = \"{policy}\"\ninterval = \"50ms\"\n",
            place.program().display()
        ));
    };
    let record = format!(
        "[record]\nfolder = \"{}\"\nsize = \"1MiB\"",
        folder.display()
    );
    configure("ingens", &record);
    let daemon = Daemon::start(&place);
    let (program, ready) = start(&mut place.workload());
    until_huge(ready.pid, area(&ready, "random").bytes, 90);
    let group = || place.status(daemon.pid())["groups"][0].clone();
    until("looks in the status", || {
        group()["recording"]["looks"].as_u64() > Some(3)
    });
    let file = folder.join("mine.rec");
    let mode = std::fs::metadata(&file)
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // Another policy is another recording.
    configure("base", &record);
    daemon.signal(Signal::HUP);
    until("the new policy", || group()["policy"] == "base");
    let (header, looks, ending) = recording(&folder.join("mine.older.rec"));
    assert_eq!(
        (header.policy.as_deref(), ending),
        (Some("ingens"), Ending::Whole)
    );
    assert_eq!(header.subject, "select mine");
    let acted = looks.iter().flat_map(|look| &look.actions);
    let promoted = acted.filter(|acted| {
        acted.action.target.process.pid == ready.pid
            && matches!(acted.outcome, Outcome::Done { .. })
    });
    assert!(promoted.count() > 0);
    // Without [record] it ends.
    configure("base", "");
    daemon.signal(Signal::HUP);
    until("the end of the recording", || {
        group()["recording"].is_null()
    });
    let (header, looks, ending) = recording(&file);
    assert_eq!(
        (header.policy.as_deref(), ending),
        (Some("base"), Ending::Whole)
    );
    let names = looks.first().map(|look| look.news.names.len());
    assert_eq!(names, Some(1), "a new recording says all anew");
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

/// The recording of a program whose use of each region differs from look to look grows fast.
#[test]
#[ignore = "takes a minute"]
fn a_recording_that_is_half_full_becomes_the_older_one() {
    if !can_run("a_recording_that_is_half_full_becomes_the_older_one") {
        return;
    }
    const SIZE: u64 = 1 << 20;
    let place = Place::new();
    let folder = place.config().with_file_name("recordings");
    place.write(&format!(
        "[record]\nfolder = \"{}\"\nsize = \"1MiB\"\n[[select]]\nname = \"mine\"\nexecutable = \"{}\"\npolicy = \"base\"\ninterval = \"20ms\"\n",
        folder.display(),
        place.program().display()
    ));
    let daemon = Daemon::start(&place);
    let mut command = Command::new(place.program());
    command.args(["workload", "random", "--size=2GiB", "--until-eof", "--json"]);
    let (program, ready) = start(&mut command);
    let (file, older) = (folder.join("mine.rec"), folder.join("mine.older.rec"));
    let bytes = |file: &Path| std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    // The one that a daemon begins at its start has nothing before it.
    until("the older recording", || bytes(&older) > 0);
    until("looks in the new one", || bytes(&file) > 0);
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
    let all = bytes(&file) + bytes(&older);
    assert!((SIZE / 2..=SIZE).contains(&all), "{all} bytes");
    let of_program = |looks: &[Look]| {
        let seen = looks.iter().flat_map(|look| &look.observation.processes);
        seen.filter(|seen| seen.process.pid == ready.pid && !seen.regions.is_empty())
            .count()
    };
    for file in [&older, &file] {
        let (header, looks, ending) = recording(file);
        assert_eq!(
            (header.policy.as_deref(), ending),
            (Some("base"), Ending::Whole)
        );
        assert!(of_program(&looks) > 0, "{}", file.display());
        let replay = run(mega()
            .args(["replay", "--policy=ingens", "--json"])
            .arg(file));
        assert_eq!(replay.status.code(), Some(0), "{}", file.display());
    }
    // What changes seldom is said anew.
    let (_, looks, _) = recording(&file);
    let first = looks.first().map(|look| &look.news);
    assert!(first.is_some_and(|news| !news.names.is_empty() && !news.mappings.is_empty()));
}

#[test]
fn a_wrong_configuration_is_not_taken_over() {
    if !can_run("a_wrong_configuration_is_not_taken_over") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let daemon = Daemon::start(&place);
    let policy = || place.status(daemon.pid())["groups"][0]["policy"].clone();
    assert_eq!(policy(), "base");
    place.write("[[select]]\nname = \"mine\"\nplicy = \"mega\"\n");
    daemon.signal(Signal::HUP);
    daemon.logs("not reloaded, the old configuration stays");
    let wanted = format!(
        "{}:3: unknown key 'plicy'; did you mean 'policy'?",
        place.config().display()
    );
    assert!(daemon.log().contains(&wanted), "{}", daemon.log());
    assert_eq!(policy(), "base");
    place.select_program("mega");
    daemon.signal(Signal::HUP);
    daemon.logs("reloaded: managing 1 selections");
    until("the new policy", || policy() == "mega");
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_configuration_that_cannot_be_carried_out_leaves_the_old_one() {
    if !can_run("a_configuration_that_cannot_be_carried_out_leaves_the_old_one") {
        return;
    }
    let place = Place::new();
    place.select_program("ingens");
    let (target, ready) = start(&mut place.workload());
    let daemon = Daemon::start(&place);
    let group = || place.status(daemon.pid())["groups"][0].clone();
    let sees_it = |group: &Value| group["processes"][0]["pid"] == ready.pid;
    until("the daemon to see it", || sees_it(&group()));
    let steps = group()["actions"]["steps"].as_u64();
    // Its policy changes a setting that only the patched kernel has. There, somebody else has changed it already.
    let lock = std::fs::File::create(place.run_dir().join("changed_settings.lock")).expect("made");
    lock.lock().expect("locked");
    place.select_program("trident-nc");
    daemon.signal(Signal::HUP);
    daemon.logs("not reloaded, the old configuration stays: ");
    assert!(
        !daemon.log().contains("reloaded: managing"),
        "{}",
        daemon.log()
    );
    let later = group();
    assert_eq!(later["policy"], "ingens");
    assert!(sees_it(&later), "{later}");
    assert!(later["actions"]["steps"].as_u64() >= steps, "{later}");
    // Managing goes on.
    until("another observation", || {
        group()["actions"]["steps"].as_u64() > later["actions"]["steps"].as_u64()
    });
    finish(target);
    assert_eq!(daemon.stop(), Some(0));
}

/// `mega` that can read no mappings of the process `pid`: in a mount namespace of its own, another file that refuses to be
/// read lies over them.
fn mega_refused_by(pid: u32) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind /proc/1/mem \"$1\" && shift && exec \"$@\"")
        .arg("sh")
        .arg(format!("/proc/{pid}/maps"))
        .arg(env!("CARGO_BIN_EXE_mega"));
    command
}

#[test]
fn a_process_that_cannot_be_observed_is_told_once_and_shown() {
    let name = "a_process_that_cannot_be_observed_is_told_once_and_shown";
    if !can_run(name) {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let (refused, hidden) = start(&mut place.workload());
    let (managed, ready) = start(&mut place.workload());
    let mut mega = mega_refused_by(hidden.pid);
    let daemon = Daemon::spawn(mega.env("MEGA_RUN_DIR", place.run_dir()), &place.config());
    let group = || place.status(daemon.pid())["groups"][0].clone();
    let steps = |group: &Value| group["actions"]["steps"].as_u64().unwrap_or(0);
    until("some steps", || steps(&group()) > 3);
    let seen = group();
    assert_eq!(seen["refused"][0]["pid"], hidden.pid, "{seen}");
    assert_eq!(seen["refused"][0]["name"], "program", "{seen}");
    let why = seen["refused"][0]["why"].as_str().expect("why");
    assert!(why.contains(&hidden.pid.to_string()), "{why}");
    assert_eq!(seen["refused"].as_array().map(Vec::len), Some(1), "{seen}");
    assert_eq!(seen["refused_count"], 1, "{seen}");
    assert_eq!(seen["processes"][0]["pid"], ready.pid, "{seen}");
    assert_eq!(
        seen["processes"].as_array().map(Vec::len),
        Some(1),
        "{seen}"
    );
    assert!(seen["last_error"].is_null(), "{seen}");
    assert!(seen["longest_hold_seconds"].as_f64() > Some(0.0), "{seen}");
    let line = format!("mine: program (pid {}) is not managed: {why}", hidden.pid);
    assert_eq!(daemon.log().matches(&line).count(), 1, "{}", daemon.log());
    let text = run(live::mega()
        .args(["status", "--processes"])
        .env("MEGA_RUN_DIR", place.run_dir()));
    let text = live::text(&text.stdout);
    let shown = |line: &str| line.starts_with("program") && line.ends_with(why);
    assert!(text.lines().any(shown), "{text}");
    // Neither is shown any more once it has ended.
    finish(refused);
    until("the refused one to be forgotten", || {
        group()["refused"].as_array().is_some_and(Vec::is_empty)
    });
    finish(managed);
    until("the other to be forgotten", || {
        group()["processes"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(group()["totals"]["regions"], 0);
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_second_mega_is_told_who_has_the_process() {
    if !can_run("a_second_mega_is_told_who_has_the_process") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let (target, ready) = start(&mut place.workload());
    let first = Daemon::start(&place);
    until("the first to see it", || {
        place.status(first.pid())["groups"][0]["processes"][0]["pid"] == ready.pid
    });
    let told = format!(
        "process {} is managed by another mega already (pid {})",
        ready.pid,
        first.pid()
    );
    let second = Daemon::start(&place);
    second.logs(&told);
    let mut scan = mega();
    scan.args(["scan", &ready.pid.to_string()])
        .env("MEGA_RUN_DIR", place.run_dir());
    let output = run(&mut scan);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        live::text(&output.stderr).contains(&told),
        "{}",
        live::text(&output.stderr)
    );
    // A dry run clears nothing and so disturbs nobody.
    assert!(run(scan.arg("--dry-run")).status.success());
    assert_eq!(
        second.log().matches(&told).count(),
        1,
        "it is told once: {}",
        second.log()
    );
    // Killed, the first gives it up, and the second takes over.
    drop(first);
    until("the second to take over", || {
        place.status(second.pid())["groups"][0]["processes"][0]["pid"] == ready.pid
    });
    finish(target);
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn the_control_socket_is_the_owners_and_refuses_nonsense() {
    if !can_run("the_control_socket_is_the_owners_and_refuses_nonsense") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let daemon = Daemon::start(&place);
    let socket = place
        .run_dir()
        .join(format!("control/{}.sock", daemon.pid()));
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("its mode")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode(&socket), mode(&place.run_dir())), (0o600, 0o700));
    let ask = |line: &str| {
        let mut stream = UnixStream::connect(&socket).expect("connected");
        stream.write_all(line.as_bytes()).expect("asked");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("shut down");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        serde_json::from_str::<Value>(&answer).expect("one JSON object")
    };
    assert_eq!(
        ask("{\"version\":1,\"command\":\"status\"}\n")["status"]["pid"],
        daemon.pid()
    );
    for (line, reason) in [
        (
            "{\"version\":99,\"command\":\"status\"}\n",
            "version 99 is not spoken here",
        ),
        (
            "{\"version\":1,\"command\":\"explode\"}\n",
            "unknown variant",
        ),
        (
            "{\"version\":1,\"command\":\"status\",\"more\":1}\n",
            "unknown field",
        ),
        ("nonsense\n", "not a request"),
        ("", "not a request"),
    ] {
        let answer = ask(line);
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|error| error.contains(reason)),
            "{line}: {answer}"
        );
    }
    // One that says nothing does not keep others from an answer for long.
    let _silent = UnixStream::connect(&socket).expect("connected");
    assert_eq!(
        ask("{\"version\":1,\"command\":\"status\"}\n")["version"],
        1
    );
    let path = socket.clone();
    assert_eq!(daemon.stop(), Some(0));
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn a_close_look_is_taken_at_the_process_that_is_asked_for() {
    if !can_run("a_close_look_is_taken_at_the_process_that_is_asked_for") {
        return;
    }
    let place = Place::new();
    place.select_program("ingens");
    let (program, ready) = start(&mut place.workload());
    let daemon = Daemon::start(&place);
    let memory = area(&ready, "random");
    until_huge(ready.pid, memory.bytes, 100);
    let socket = place
        .run_dir()
        .join(format!("control/{}.sock", daemon.pid()));
    let ask = |pid: &str| {
        let mut stream = UnixStream::connect(&socket).expect("connected");
        let line = format!("{{\"version\":1,\"command\":\"process\"{pid}}}\n");
        stream.write_all(line.as_bytes()).expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        serde_json::from_str::<Value>(&answer).expect("one JSON object")
    };
    let huge = || {
        let answer = ask(&format!(",\"pid\":{}", ready.pid));
        let mappings = answer["process"]["mappings"].as_array().cloned();
        let found = mappings.unwrap_or_default().into_iter().find(|mapping| {
            let start = mapping["start"].as_u64().expect("an address");
            let end = start + mapping["length"].as_u64().expect("a length");
            (start..end).contains(&memory.start)
        });
        found.and_then(|mapping| mapping["huge"].as_u64())
    };
    // Nothing is known before the first step has ended, and this from the step after the first question.
    until("all of it in huge pages", || huge() >= Some(memory.bytes));
    let status = place.status(daemon.pid());
    let seen = &status["groups"][0]["processes"][0];
    assert_eq!(
        seen["promoted"].as_u64(),
        Some(memory.bytes / live::HUGE_PAGE)
    );
    assert!(seen["resident"].as_u64() >= Some(memory.bytes));
    for (pid, reason) in [("", "needs a `pid`"), (",\"pid\":1", "is not managed here")] {
        let answer = ask(pid);
        let error = answer["error"].as_str().expect("an error");
        assert!(error.contains(reason), "{answer}");
    }
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn members_of_the_status_group_may_ask_and_others_may_not() {
    const NAME: &str = "members_of_the_status_group_may_ask_and_others_may_not";
    const GROUP: u32 = 54_321;
    if !can_run(NAME) {
        return;
    }
    let place = Place::new();
    let select = "[[select]]\nname = \"mine\"\nuser = 54321\n";
    place.write(&format!("status_group = {GROUP}\n{select}"));
    // Where another user gets to.
    let open = tempfile::tempdir().expect("a folder");
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(open.path(), everybody).expect("opened");
    let program = open.path().join("mega");
    // By another program: a child that another test starts just then would inherit the file as we write it, and what is
    // open for writing cannot be run.
    let copied = run(Command::new("cp").arg(mega().get_program()).arg(&program));
    assert!(copied.status.success());
    let run_dir = open.path().join("run");
    let daemon = Daemon::spawn(mega().env("MEGA_RUN_DIR", &run_dir), &place.config());
    let status = |groups: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=54322", "--regid=54322", groups, "--"]);
        run(command
            .arg(&program)
            .args(["status", "--json"])
            .env("MEGA_RUN_DIR", &run_dir))
    };
    let member = format!("--groups={GROUP}");
    let mut answer = Value::Null;
    until("an answer", || {
        answer = serde_json::from_slice(&status(&member).stdout).unwrap_or_default();
        answer["managers"][0]["pid"] == daemon.pid()
    });
    // A second mega leaves the doors as they are.
    let other = run(mega()
        .args(["run", "--", "true"])
        .env("MEGA_RUN_DIR", &run_dir));
    assert!(other.status.success());
    assert!(status(&member).status.success());
    let stranger = status("--clear-groups");
    assert_eq!(stranger.status.code(), Some(3));
    assert!(live::text(&stranger.stderr).contains("status_group"));
    // What lies in the run directory itself is nobody else's, as who opens a file can lock it.
    for entry in std::fs::read_dir(&run_dir).expect("its files").flatten() {
        let metadata = entry.metadata().expect("its mode");
        let others = metadata.permissions().mode() & 0o077;
        assert!(
            metadata.is_dir() || others == 0,
            "{}",
            entry.path().display()
        );
    }
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn the_service_manager_is_kept_informed() {
    if !can_run("the_service_manager_is_kept_informed") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let path = place.0.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("set");
    let mut command = mega();
    command
        .env("MEGA_RUN_DIR", place.run_dir())
        .env("NOTIFY_SOCKET", &path);
    command.env("WATCHDOG_USEC", "600000");
    let daemon = Daemon::spawn(&mut command, &place.config());
    let next = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = socket
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("no {wanted}: {error}"));
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.contains(wanted) {
                return message;
            }
        }
    };
    next("READY=1");
    next("WATCHDOG=1");
    daemon.signal(Signal::HUP);
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    daemon.signal(Signal::INT);
    next("STOPPING=1");
    let mut daemon = daemon;
    assert_eq!(daemon.child.wait().expect("its status").code(), Some(0));
}

#[test]
fn the_features_of_the_node_are_in_a_file_while_the_daemon_runs() {
    if !can_run("the_features_of_the_node_are_in_a_file_while_the_daemon_runs") {
        return;
    }
    let place = Place::new();
    let file = place.0.path().join("features");
    let select = "[[select]]\nname = \"none\"\nexecutable = \"/none\"\n";
    place.write(&format!("node_features = \"{}\"\n{select}", file.display()));
    let daemon = Daemon::start(&place);
    until("the file", || file.exists());
    let text = std::fs::read_to_string(&file).expect("the features");
    let [expiry, feature] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert!(expiry.starts_with("# +expiry-time=20"), "{text}");
    let blocks = feature.strip_prefix("mega-free-huge-blocks=");
    let blocks: u64 = blocks.expect("a feature").parse().expect("a number");
    assert!(blocks == 0 || blocks.is_power_of_two());

    place.write(select);
    daemon.signal(Signal::HUP);
    until("the file to go", || !file.exists());
    place.write(&format!("node_features = \"{}\"\n{select}", file.display()));
    daemon.signal(Signal::HUP);
    until("the file", || file.exists());
    assert_eq!(daemon.stop(), Some(0));
    assert!(!file.exists());
}

#[test]
fn from_a_container_the_daemon_sees_the_cgroups_of_the_whole_machine() {
    if !can_run("from_a_container_the_daemon_sees_the_cgroups_of_the_whole_machine") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    // Process 1 of the new PID namespace is in the cgroup namespace of this test, and the daemon in another.
    let script = "unshare --cgroup \"$@\" & wait";
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", script, "sh"])
        .arg(mega().get_program())
        .env("MEGA_RUN_DIR", place.run_dir());
    let daemon = Daemon::spawn(&mut command, &place.config());
    let own = std::fs::read_link("/proc/self/ns/cgroup").expect("a namespace");
    let namespaces: Vec<PathBuf> = running(mega().get_program(), &place.config())
        .iter()
        .flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads"))
        .flatten()
        .map(|thread| std::fs::read_link(thread.path().join("ns/cgroup")).expect("a namespace"))
        .collect();
    assert!(namespaces.len() > 1, "it has threads: {namespaces:?}");
    assert!(namespaces.iter().all(|one| *one == own), "{namespaces:?}");
    assert!(
        !daemon.log().contains("cannot see the cgroups"),
        "{}",
        daemon.log()
    );
    daemon.signal(Signal::KILL);
}

/// The processes that run `program` with `argument` among their arguments.
fn running(program: &OsStr, argument: &Path) -> Vec<u32> {
    let is_it = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next() == Some(program.as_bytes())
            && words.any(|word| word == argument.as_os_str().as_bytes())
    };
    let names = std::fs::read_dir("/proc").expect("processes").flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_it(*pid)).collect()
}

#[test]
fn checking_a_configuration_needs_nothing_and_starts_nothing() {
    let place = Place::new();
    place.select_program("mega");
    let output = run(mega()
        .args(["daemon", "--check", "--config"])
        .arg(place.config()));
    assert!(output.status.success());
    assert!(live::text(&output.stdout).ends_with("1 selections, no errors"));
    assert!(!place.run_dir().exists());
}

#[test]
fn a_crowd_of_processes_takes_no_more_files_than_one() {
    if !can_run("a_crowd_of_processes_takes_no_more_files_than_one") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let processes = 300;
    let mut crowd = Command::new(place.program());
    crowd.args([
        "workload",
        "crowd",
        "--until-eof",
        "--json",
        "--size=600MiB",
    ]);
    let (crowd, _) = start(crowd.arg(format!("--processes={processes}")));
    // Fewer than there are processes, and no more than the daemon needs for itself and for one of them.
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 40; exec \"$@\"", "sh"])
        .arg(mega().get_program())
        .env("MEGA_RUN_DIR", place.run_dir());
    let mut daemon = Daemon::spawn(&mut limited, &place.config());
    let managed = |daemon: &Daemon| {
        let status = place.status(daemon.child.id());
        let processes = status["groups"][0]["processes"].as_array().cloned();
        let processes = processes.unwrap_or_default();
        processes
            .iter()
            .filter(|process| process["regions"].as_u64() == Some(1))
            .count()
    };
    until("all processes", || managed(&daemon) == processes);
    assert_eq!(daemon.child.try_wait().expect("its state"), None);
    finish(crowd);
    // It goes on with those that are left.
    until("no process", || managed(&daemon) == 0);
    assert_eq!(daemon.stop(), Some(0));
}
