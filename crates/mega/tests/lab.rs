//! `mega lab live`, every experiment at a tiny size: its accounting is right and the machine is as before. Its speed is
//! not looked at.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use live::{PATIENCE, calibrated, can_run, mega, run, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SIZE: u64 = 64 << 20;
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// One test at a time, in a folder of its own: what the modes change is the whole machine's.
struct Alone {
    folder: tempfile::TempDir,
    settings: BTreeMap<PathBuf, String>,
    _lock: MutexGuard<'static, ()>,
}

impl Alone {
    fn new() -> Self {
        static LOCK: Mutex<()> = Mutex::new(());
        let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = Alone {
            folder: tempfile::tempdir().expect("a folder"),
            settings: settings(),
            _lock: lock,
        };
        std::fs::create_dir(alone.scratch()).expect("a folder");
        alone
    }

    /// Where the lab's own temporary files go.
    fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// `mega lab live NAME`, small and once.
    fn once(&self, name: &str, modes: &[&str]) -> Command {
        let mut command = self.live(name, modes);
        command.arg("--rounds=1");
        command
    }

    /// The same, as often as its default is or a caller adds.
    fn live(&self, name: &str, modes: &[&str]) -> Command {
        self.live_for("0.1", name, modes)
    }

    /// The same, each mode measured for so many seconds.
    fn live_for(&self, seconds: &str, name: &str, modes: &[&str]) -> Command {
        let mut command = mega();
        command
            .env("MEGA_RUN_DIR", self.folder.path().join("run"))
            .env("TMPDIR", self.scratch())
            .args(["lab", "live", name, "--json", "--size=64MiB"])
            .args(["--seconds", seconds, "--interval=0.03", "--out"])
            .arg(self.out());
        for mode in modes {
            command.arg(format!("--mode={mode}"));
        }
        command
    }

    /// Settings are as before, and nothing is left running or lying about.
    fn assert_clean(&self) {
        assert_eq!(settings(), self.settings);
        let started = Instant::now();
        while let Some(left) = self.left_running() {
            assert!(started.elapsed() < PATIENCE, "still running: {left}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let left: Vec<_> = std::fs::read_dir(self.scratch())
            .expect("the folder")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// What a killed lab could not put back, the next mega puts back; and it had no time to remove its folder.
    fn put_back_what_was_killed(&self) {
        let doctor = run(mega()
            .env("MEGA_RUN_DIR", self.folder.path().join("run"))
            .args(["doctor", "--restore"]));
        assert!(doctor.status.success(), "{}", text(&doctor.stderr));
        std::fs::remove_dir_all(self.scratch()).expect("the folder");
        std::fs::create_dir(self.scratch()).expect("a folder");
    }

    /// The command line of a process that was told of our folder.
    fn left_running(&self) -> Option<String> {
        let folder = self.folder.path().to_string_lossy().into_owned();
        std::fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .map(|words| String::from_utf8_lossy(&words).replace('\0', " "))
            .find(|words| words.contains(&folder))
    }
}

/// The experiments whose modes take turns.
const IN_TURNS: [&str; 6] = [
    "gups",
    "chase",
    "btree",
    "graph-bfs",
    "hash-join",
    "xs-lookup",
];

/// All that modes change.
fn settings() -> BTreeMap<PathBuf, String> {
    let khugepaged = std::fs::read_dir(KHUGEPAGED).into_iter().flatten();
    khugepaged
        .flatten()
        .map(|entry| entry.path())
        // Counters, which khugepaged itself moves on.
        .filter(|path| !path.ends_with("full_scans") && !path.ends_with("pages_collapsed"))
        .chain([PathBuf::from(mega_linux::settings::thp_mode::PATH)])
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a setting");
            (path, text)
        })
        .collect()
}

fn experiments() -> Vec<String> {
    let output = run(mega().args(["lab", "list", "--json"]));
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    list.as_array()
        .expect("a list")
        .iter()
        .map(|experiment| experiment["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Every value of a metric in a mode.
fn values(results: &Value, mode: &str, metric: &str) -> Vec<f64> {
    let runs = results["runs"].as_array().expect("runs");
    runs.iter()
        .filter(|run| run["mode"] == mode)
        .filter_map(|run| run["values"][metric].as_f64())
        .collect()
}

fn assert_accounts(results: &Value, modes: &[&str]) {
    let name = &results["experiment"];
    let runs = results["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), modes.len(), "{name}: one run for each mode");
    assert_eq!(results["settings"]["size_bytes"], SIZE, "{name}");
    let name_of = name.as_str().expect("a name");
    let in_turns = results["settings"]["in_turns"].as_bool();
    assert_eq!(in_turns, Some(IN_TURNS.contains(&name_of)), "{name}");
    for run in runs {
        let values = run["values"].as_object().expect("values");
        assert!(!values.is_empty(), "{name}: {run}");
        for (metric, value) in values {
            let value = value.as_f64().expect("a number");
            assert!(
                value.is_finite() && value >= 0.0,
                "{name}, {metric}: {value}"
            );
        }
    }
    let metrics = results["metrics"].as_array().expect("metrics");
    let told_by_all =
        |metric: &&Value| metric["modes"].as_array().expect("modes").len() == modes.len();
    assert!(metrics.iter().any(|metric| told_by_all(&metric)), "{name}");
    for (metric, share) in [("huge_bytes", 0.02), ("manager_cpu_share", 0.0)] {
        for value in values(results, "base", metric) {
            let most = share * SIZE as f64;
            assert!(value <= most, "{name}, base: {metric} {value}");
        }
    }
    for value in values(results, "mega:adaptive", "manager_cpu_share") {
        assert!(value > 0.0, "{name}: a manager takes CPU time");
    }
    for goal in results["goals"].as_array().expect("goals") {
        let found = goal["found"].is_null();
        assert_eq!(goal["verdict"] == "not_measured", found, "{name}: {goal}");
    }
}

fn assert_files(folder: &Path, results: &Value) {
    let name = results["experiment"].as_str().expect("a name");
    let read = |file: &str| {
        let path = folder.join(name).join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let written: Value = serde_json::from_str(&read("results.json")).expect("JSON");
    assert_eq!(
        &written, results,
        "{name}: what is written is what is printed"
    );
    let values: usize = results["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["values"].as_object().expect("values").len())
        .sum();
    assert_eq!(read("results.csv").lines().count(), values + 1, "{name}");
    assert!(read("chart.svg").starts_with("<svg"), "{name}");
    assert!(read("report.md").contains(name), "{name}");
}

/// The modes of the runs, as the experiment takes them: those with a static one and a managed one.
const MODES: [&str; 2] = ["base", "mega:adaptive"];

#[test]
#[ignore = "takes long: make test-long"]
fn every_experiment_accounts_for_what_it_did_and_leaves_the_machine_as_it_was() {
    if !can_run("every_experiment_accounts_for_what_it_did_and_leaves_the_machine_as_it_was") {
        return;
    }
    let alone = Alone::new();
    let output = run(&mut alone.once("all", &MODES));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = all.as_array().expect("results");
    let names: Vec<&str> = all
        .iter()
        .map(|results| results["experiment"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, experiments());
    for results in all {
        assert_accounts(results, &MODES);
        assert_files(&alone.out(), results);
    }
    let page = std::fs::read_to_string(alone.out().join("index.html")).expect("a page");
    assert!(names.iter().all(|name| page.contains(name)));
    alone.assert_clean();
}

#[test]
fn whole_runs_beside_the_manager_are_timed_to_their_end() {
    if !can_run("whole_runs_beside_the_manager_are_timed_to_their_end") {
        return;
    }
    let alone = Alone::new();
    let output = run(&mut alone.once("busy", &MODES));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_accounts(&results, &MODES);
    for program in ["random", "look_ups", "java", "sort", "sqlite", "gzip"] {
        for metric in ["seconds", "again_seconds"].map(|run| format!("{program}_{run}")) {
            for mode in MODES {
                let seconds = values(&results, mode, &metric);
                assert!(seconds.len() == 1 && seconds[0] > 0.0, "{metric}, {mode}");
            }
        }
    }
    alone.assert_clean();
}

#[test]
#[ignore = "takes long: make test-long"]
fn six_programs_at_once_all_do_something_under_one_daemon() {
    if !can_run("six_programs_at_once_all_do_something_under_one_daemon") {
        return;
    }
    let alone = Alone::new();
    let output = run(alone.live_for("3", "machine", &MODES).arg("--rounds=1"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_accounts(&results, &MODES);
    for did in [
        "memcached_per_second",
        "redis_per_second",
        "redis_saves",
        "mariadb_per_second",
        "jvm_per_second",
        "gathered_per_second",
        "jobs_per_second",
    ] {
        for mode in MODES {
            let found = values(&results, mode, did);
            assert!(found.len() == 1 && found[0] > 0.0, "{did}, {mode}");
        }
    }
    assert!(values(&results, "mega:adaptive", "manager_cpu_share")[0] > 0.0);
    alone.assert_clean();
}

#[test]
fn the_static_modes_are_what_they_say() {
    if !can_run("the_static_modes_are_what_they_say") {
        return;
    }
    let alone = Alone::new();
    let modes = ["base", "thp", "khugepaged"];
    let measured = || {
        let output = run(&mut alone.once("gups", &modes));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_accounts(&results, &modes);
        results
    };
    let most = 0.9 * SIZE as f64;
    let is_huge = |results: &Value, mode| values(results, mode, "huge_bytes")[0] > most;
    // The lab waits for khugepaged only so long, and on a busy machine that runs last.
    let mut results = measured();
    for _ in 0..20 {
        if is_huge(&results, "khugepaged") && is_huge(&results, "thp") {
            break;
        }
        results = measured();
    }
    assert!(
        is_huge(&results, "thp"),
        "THP always gives huge pages at fault"
    );
    assert!(
        is_huge(&results, "khugepaged"),
        "khugepaged gives them afterwards"
    );
    alone.assert_clean();
}

/// Starts an experiment that runs for an hour, one mode after the other, and waits until a mode is set.
fn long_run(alone: &Alone, mode: &str) -> Child {
    let mut command = alone.live("stride", &[mode]);
    command.arg("--rounds=1000");
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("mega starts");
    let started = Instant::now();
    while settings() == alone.settings {
        assert!(started.elapsed() < PATIENCE, "no mode was set");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("it is there");
}

#[test]
fn an_interrupt_puts_everything_back() {
    if !can_run("an_interrupt_puts_everything_back") {
        return;
    }
    let alone = Alone::new();
    let mut child = long_run(&alone, "khugepaged");
    signal(&child, Signal::INT);
    let status = child.wait().expect("its end");
    assert_eq!(status.code(), Some(1));
    alone.assert_clean();
}

#[test]
fn what_a_killed_lab_left_is_put_back_by_the_next_mega() {
    if !can_run("what_a_killed_lab_left_is_put_back_by_the_next_mega") {
        return;
    }
    let alone = Alone::new();
    let mut child = long_run(&alone, "khugepaged");
    // Between two rounds all is put back: it is stopped, looked at, and killed where it has something changed.
    let started = Instant::now();
    loop {
        signal(&child, Signal::STOP);
        while !is_stopped(child.id()) {
            assert!(started.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
        if settings() != alone.settings {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "no mode was set");
        signal(&child, Signal::CONT);
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, Signal::KILL);
    child.wait().expect("its end");
    assert_ne!(settings(), alone.settings, "nobody was left to put it back");
    alone.put_back_what_was_killed();
    alone.assert_clean();
}

/// What `/proc/PID/stat` tells of a process that runs: its parent and its state; `None` of one that has ended, waited for
/// or not.
fn parent_and_state(pid: u32) -> Option<(u32, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, 'Z' | 'X')).then_some((parent, state))
}

fn is_stopped(pid: u32) -> bool {
    parent_and_state(pid).is_some_and(|(_, state)| state == 'T')
}

/// All that descends from a process.
fn descendants(of: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_and_state(pid)?.0)))
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(
            all.iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| pid),
        );
        next += 1;
    }
    found.split_off(1)
}

/// Starts an experiment whose modes take turns, and waits until two managers are stopped, so that a turn is under way or
/// about to be. Returns what it has started by then.
fn in_the_middle_of_turns(alone: &Alone) -> (Child, Vec<u32>) {
    // The first round lasts longer than any test.
    let modes = ["base", "mega:adaptive", "mega:ingens"];
    let child = alone
        .live_for("3600", "gups", &modes)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("mega starts");
    let mut programs = Vec::new();
    // Two managers with a program each, and a program without one.
    live::until("five programs, and two stopped managers among them", || {
        programs = descendants(child.id());
        let stopped = programs.iter().filter(|pid| is_stopped(**pid)).count();
        programs.len() == 5 && stopped == 2
    });
    (child, programs)
}

fn assert_gone(programs: &[u32]) {
    live::until("the end of every program", || {
        programs.iter().all(|pid| parent_and_state(*pid).is_none())
    });
}

#[test]
fn an_interrupt_between_turns_leaves_nothing() {
    if !can_run("an_interrupt_between_turns_leaves_nothing") {
        return;
    }
    let alone = Alone::new();
    let (mut child, programs) = in_the_middle_of_turns(&alone);
    signal(&child, Signal::INT);
    let status = child.wait().expect("its end");
    assert_eq!(status.code(), Some(1));
    assert_gone(&programs);
    alone.assert_clean();
}

#[test]
fn a_lab_killed_between_turns_leaves_no_program_and_no_stopped_manager() {
    if !can_run("a_lab_killed_between_turns_leaves_no_program_and_no_stopped_manager") {
        return;
    }
    let alone = Alone::new();
    let (mut child, programs) = in_the_middle_of_turns(&alone);
    signal(&child, Signal::KILL);
    child.wait().expect("its end");
    assert_gone(&programs);
    alone.put_back_what_was_killed();
    alone.assert_clean();
}

#[test]
fn a_program_that_is_killed_between_turns_ends_the_experiment() {
    if !can_run("a_program_that_is_killed_between_turns_ends_the_experiment") {
        return;
    }
    let alone = Alone::new();
    let (mut child, programs) = in_the_middle_of_turns(&alone);
    // The one that descends from no manager, and is none.
    let alone_with_the_lab = programs.iter().copied().find(|pid| {
        parent_and_state(*pid).is_some_and(|(parent, _)| parent == child.id())
            && descendants(*pid).is_empty()
    });
    let pid = alone_with_the_lab.expect("the program in base pages");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it is there");
    let status = child.wait().expect("its end");
    assert_eq!(status.code(), Some(1));
    assert_gone(&programs);
    alone.assert_clean();
}

#[test]
fn programs_that_take_turns_account_for_every_round() {
    if !can_run("programs_that_take_turns_account_for_every_round") {
        return;
    }
    let alone = Alone::new();
    let modes = ["base", "thp", "mega:adaptive"];
    let output = run(alone.live("xs-lookup", &modes).arg("--rounds=2"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["settings"]["in_turns"], true);
    let runs = results["runs"].as_array().expect("runs");
    let order: Vec<&str> = runs.iter().filter_map(|run| run["mode"].as_str()).collect();
    assert_eq!(order, [modes, modes].concat(), "in the order of the modes");
    let all = |mode, metric| {
        let values = values(&results, mode, metric);
        assert_eq!(values.len(), 2, "{mode}, {metric}: one for each round");
        values
    };
    for mode in modes {
        let speeds = all(mode, "operations_per_second");
        assert!(speeds.iter().all(|speed| *speed > 0.0), "{mode}");
        // Programs beside it are no part of its memory.
        let resident = all(mode, "resident_bytes");
        let most = 1.3 * SIZE as f64;
        assert!(resident.iter().all(|bytes| *bytes < most), "{mode}");
    }
    // The mode of one is not that of the others.
    let least = 0.9 * SIZE as f64;
    assert!(all("thp", "huge_bytes").iter().all(|huge| *huge > least));
    let most = 0.02 * SIZE as f64;
    assert!(all("base", "huge_bytes").iter().all(|huge| *huge < most));
    for share in all("mega:adaptive", "manager_cpu_share") {
        assert!(share > 0.0 && share < 1.0, "of one core: {share}");
    }
    let report = std::fs::read_to_string(alone.out().join("xs-lookup/report.md"));
    assert!(report.expect("a report").contains("took turns"));
    alone.assert_clean();
}

#[test]
fn a_missing_program_is_named_with_its_package_before_anything_runs() {
    if !can_run("a_missing_program_is_named_with_its_package_before_anything_runs") {
        return;
    }
    let alone = Alone::new();
    let output = run(alone.once("bloat", &["base"]).env("PATH", "/nonexistent"));
    // Where it lies in a folder that is looked at in any case, it is not missing.
    if !Path::new("/usr/sbin/redis-server").exists() {
        assert_eq!(output.status.code(), Some(3));
        let said = text(&output.stderr);
        assert!(said.contains("apt-get install redis-server"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    alone.assert_clean();
}

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    for arguments in [
        ["live", "no-such-experiment"].as_slice(),
        &["live", "gups", "--mode=fastest"],
        &["live", "gups", "--seconds=0"],
        &["live", "gups", "--rounds=0"],
        &["live", "gups", "--size=lots"],
    ] {
        let output = run(mega().arg("lab").args(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
#[ignore = "takes long: make test-long"]
fn predictions_and_the_truth_are_put_side_by_side() {
    if !can_run("predictions_and_the_truth_are_put_side_by_side") {
        return;
    }
    let alone = Alone::new();
    let state = alone.folder.path().join("state");
    if let Err(missing) = calibrated::keep(&state) {
        return live::skip("predictions_and_the_truth_are_put_side_by_side", &missing);
    }
    let worth = |program: &str| {
        let mut command = alone.live_for("0.4", "worth", &[]);
        command
            .env("MEGA_STATE_DIR", &state)
            .args(["--rounds=2", "--program", program]);
        let output = run(&mut command);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    // What an earlier run left is still there.
    let [_, _, _, results] = ["random", "mariadb", "duckdb", "chase"].map(worth);
    let programs = results["programs"].as_array().expect("programs");
    assert_eq!(programs.len(), 4);
    for program in programs {
        let windows = program["windows"].as_array().expect("windows");
        let huge: Vec<bool> = windows.iter().map(|it| it["huge"] == true).collect();
        assert_eq!(huge, [false, true, false, true, false]);
        for (window, huge) in windows.iter().zip(huge) {
            assert!(window["cpu_ns_per_operation"].as_f64() > Some(0.0));
            let share = window["huge_share"].as_f64().expect("a share");
            // Of 64 MiB much is what a program has besides.
            assert!(if huge { share > 0.3 } else { share < 0.1 }, "{window}");
        }
        for saving in ["predicted", "measured"] {
            let at = |end: &str| program[saving][end].as_f64().expect("a number");
            assert!(at("low") <= at("value") && at("value") <= at("high"));
        }
    }
    assert_eq!(results["bars"].as_array().map(Vec::len), Some(4));
    for file in ["worth.json", "report.md", "scatter.svg"] {
        assert!(alone.out().join("worth").join(file).is_file(), "{file}");
    }
    alone.assert_clean();
}
