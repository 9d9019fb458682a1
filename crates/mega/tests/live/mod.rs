//! What the live tests share: workloads that say what they do, under the real binary on the running kernel.
//!
//! A test that cannot run here says so by name with the reason; under `CI=true` that is a failure.

// Each test binary uses its own part of this module.
#![allow(dead_code)]

pub(crate) mod calibrated;
pub(crate) mod daemon;
pub(crate) mod folios;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mega_lab::subject::Subject;
use mega_lab::workload::report::{AreaReport, Done, Event, Ready};
use serde_json::Value;

/// Bytes in a base page.
pub(crate) const PAGE: u64 = 4 << 10;
/// Bytes in a huge page.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;
/// For tests that wait until all of a program is promoted: within the default budget an emulated machine takes long.
pub(crate) const WHOLE_CORE: &str = "--cpu-budget=100%";
/// How long anything is waited for. Nothing takes nearly as long; it is there to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Whether mega can manage programs on this machine; says so, under the test's name, where it cannot.
pub(crate) fn can_run(name: &str) -> bool {
    let missing = missing();
    if let Some(reason) = missing {
        skip(name, reason);
    }
    missing.is_none()
}

/// Says that a test cannot run here; fails it under `CI=true`.
pub(crate) fn skip(name: &str, reason: &str) {
    // Past the capture of the test harness, which shows nothing of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "SKIPPED {name}: {reason}"
    );
}

/// What mega misses on this machine, in its own words. Asked once: nothing that the tests do changes it.
fn missing() -> &'static Option<String> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING.get_or_init(|| {
        let doctor = run(mega().arg("doctor"));
        (doctor.status.code() == Some(3)).then(|| text(&doctor.stderr))
    })
}

/// The running kernel's version, as 6.12.
pub(crate) fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel release");
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    (
        numbers.next().expect("a major version"),
        numbers.next().expect("a minor version"),
    )
}

/// The directory for claims and for what must be put back: the tests' own.
pub(crate) fn run_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("live-run-dir")
}

/// A directory for profiles of programs that is nobody else's: what one test's programs did says nothing to the next. It is
/// created where a profile is written.
pub(crate) fn state_dir() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a time after 1970").as_nanos();
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("profiles-{now}-{number}"))
}

/// The real binary.
pub(crate) fn mega() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mega"));
    command
        .env("MEGA_RUN_DIR", run_dir())
        .env("MEGA_STATE_DIR", state_dir());
    command
}

/// The program that has the workloads. Cargo builds it for `cargo test --workspace`, beside mega.
pub(crate) fn mega_lab() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_mega")).with_file_name("mega-lab");
    assert!(
        program.is_file(),
        "{} is missing: build it (cargo build -p mega-lab)",
        program.display()
    );
    program
}

/// `mega run` with these options and our workload after them.
pub(crate) fn mega_run(options: &[&str], workload: &[&str]) -> Command {
    let mut command = mega();
    command.arg("run").args(options).arg("--");
    command.arg(mega_lab()).arg("workload");
    command.args(workload).arg("--json");
    command
}

/// The workload alone.
pub(crate) fn workload(arguments: &[&str]) -> Command {
    let mut command = Command::new(mega_lab());
    command.arg("workload").args(arguments).arg("--json");
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

/// Runs a command that must succeed and print one JSON object.
pub(crate) fn json(command: &mut Command) -> Value {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Runs a workload to its own end.
pub(crate) fn done(command: &mut Command) -> Done {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        text(&output.stderr)
    );
    let last = text(&output.stdout);
    let last = last.lines().last().expect("an event");
    match serde_json::from_str(last).expect("an event") {
        Event::Done(done) => done,
        other => panic!("it ended with {other:?}"),
    }
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Waits until `reached`.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let started = Instant::now();
    while !reached() {
        assert!(started.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a workload, alone or under `mega run`, and waits until its memory is as it says.
pub(crate) fn start(command: &mut Command) -> (Subject, Ready) {
    let mut subject = Subject::start(command.stderr(Stdio::null())).expect("the command starts");
    let ready = subject.ready().expect("the workload gets ready");
    (subject, ready)
}

/// Tells it to end, and waits for what it came to. Its data must be right.
pub(crate) fn finish(subject: Subject) -> Done {
    subject.finish().expect("the workload ends well")
}

/// An area by its name.
pub(crate) fn area<'a>(ready: &'a Ready, name: &str) -> &'a AreaReport {
    ready
        .areas
        .iter()
        .find(|area| area.name == name)
        .expect("the area")
}

/// The regions of a scan that lie in an area: all of its regions.
pub(crate) fn regions_of<'a>(scan: &'a Value, area: &AreaReport) -> Vec<&'a Value> {
    let inside = |region: &&Value| {
        let start = number(region, "start");
        (area.start..area.start + area.bytes).contains(&start)
    };
    let regions: Vec<&Value> = scan["regions"]
        .as_array()
        .expect("regions")
        .iter()
        .filter(inside)
        .collect();
    assert_eq!(
        regions.len() as u64,
        area.bytes / HUGE_PAGE,
        "regions of {area:?}"
    );
    regions
}

/// A field that is a number of bytes or of things.
pub(crate) fn number(value: &Value, field: &str) -> u64 {
    value[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is no number in {value}"))
}

/// Waits until the manager of that pid has promoted that many regions and verified it.
pub(crate) fn until_promoted(manager: u32, regions: u64) {
    until_counted(manager, "promoted", regions);
}

/// Waits until the manager of that pid counts that many of an action, such as its steps.
pub(crate) fn until_counted(manager: u32, action: &str, count: u64) {
    until(action, || {
        // Just started, it has no status yet.
        let output = run(mega().args(["status", "--json"]));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let managers = status["managers"].as_array().cloned().unwrap_or_default();
        managers
            .iter()
            .filter(|status| status["pid"] == manager)
            .any(|status| status["groups"][0]["actions"][action].as_u64() >= Some(count))
    });
}

/// Seconds for which a program is kept running until its profile is learnt, one run after the other: when it is looked at
/// depends on how fast the machine is.
pub(crate) const UNTIL_LEARNT: [u64; 4] = [1, 4, 16, 64];

/// Waits until `percent` of `bytes` are in huge pages in process `pid`.
pub(crate) fn until_huge(pid: u32, bytes: u64, percent: u64) {
    until("huge pages", || {
        let resident = mega_lab::resident::of(pid).expect("its memory");
        resident.huge_bytes >= bytes / 100 * percent
    });
}
