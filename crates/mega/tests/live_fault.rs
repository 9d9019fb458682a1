//! `mega run --fault base` under each global THP mode, which is changed for these tests and put back.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use live::{
    WHOLE_CORE, area, done, finish, mega, mega_run, run, run_dir, skip, start, text, until_huge,
    workload,
};
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::thp_mode::{self, Guard, ThpMode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// One test at a time: the mode is the machine's. (Test binaries run one after another.)
static MODE: Mutex<()> = Mutex::new(());

/// Runs `test` under a global mode, which is as before afterwards, also when it panics.
fn under(name: &str, mode: ThpMode, test: impl FnOnce()) {
    let _one_at_a_time = MODE.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let guard = RunDir::at(&run_dir()).and_then(|run_dir| {
        thp_mode::restore_stale(kernel.as_ref(), &run_dir)?;
        Guard::set(Arc::clone(&kernel), &run_dir, mode)
    });
    match guard {
        Ok(_guard) => {
            test();
            let now = thp_mode::read(kernel.as_ref()).expect("the mode");
            assert_eq!(now, mode, "mega did not put the mode back");
        }
        Err(error) => skip(name, &error.to_string()),
    }
}

/// Faults under `mega run --fault base` take base pages, and promotion comes later.
fn faults_take_base_pages_and_promotion_follows(name: &str, mode: ThpMode) {
    if !live::can_run(name) {
        return;
    }
    under(name, mode, || {
        let options = ["--fault=base", "--policy=base", "--interval=200ms"];
        let grown = done(&mut mega_run(
            &options,
            &["grow", "--size=64MiB", "--seconds=0"],
        ));
        assert_eq!(grown.huge_bytes, 0, "under {mode}");

        let (target, ready) = start(&mut mega_run(
            &["--fault=base", "--interval=200ms", WHOLE_CORE],
            &["random", "--size=128MiB", "--until-eof"],
        ));
        until_huge(ready.pid, area(&ready, "random").bytes, 90);
        finish(target);
    });
}

#[test]
fn base_faults_under_always() {
    faults_take_base_pages_and_promotion_follows("base_faults_under_always", ThpMode::Always);
}

#[test]
fn base_faults_under_madvise() {
    faults_take_base_pages_and_promotion_follows("base_faults_under_madvise", ThpMode::Madvise);
}

#[test]
fn base_faults_under_never() {
    faults_take_base_pages_and_promotion_follows("base_faults_under_never", ThpMode::Never);
}

#[test]
fn inherited_faults_under_always_take_huge_pages() {
    let name = "inherited_faults_under_always_take_huge_pages";
    if !live::can_run(name) {
        return;
    }
    under(name, ThpMode::Always, || {
        let arguments = ["grow", "--size=64MiB", "--seconds=0"];
        let alone = done(&mut workload(&arguments));
        if alone.huge_bytes == 0 {
            skip(name, "the kernel had no contiguity for huge pages at fault");
            return;
        }
        let options = ["--fault=inherit", "--policy=base", "--interval=200ms"];
        let managed = done(&mut mega_run(&options, &arguments));
        assert!(managed.huge_bytes > 0);
    });
}

/// The report of a run under `--fault auto` with profiles in `state`, of a program that goes on for `seconds` once it has
/// filled its memory: so much that a thread's stack, which may happen to be one whole region, is no waste beside it.
fn report_of_a_run(state: &Path, seconds: u64) -> Value {
    let report = state.join("report");
    let option = format!("--report={}", report.display());
    let mut command = mega_run(
        &[&option, "--policy=base", "--interval=200ms", "--fault=auto"],
        &["random", "--size=256MiB", "--until-eof"],
    );
    let (target, _) = start(command.env("MEGA_STATE_DIR", state));
    std::thread::sleep(Duration::from_secs(seconds));
    finish(target);
    let text = std::fs::read(report).expect("a report");
    serde_json::from_slice(&text).expect("one JSON object")
}

/// Runs a program until its profile says huge pages, which it may not do in `mode`; then what faults were to take is
/// `expected`.
fn takes_once_learnt(mode: ThpMode, expected: &str) {
    let state = tempfile::tempdir().expect("a folder");
    for seconds in live::UNTIL_LEARNT {
        let report = report_of_a_run(state.path(), seconds);
        assert_eq!(report["fault"]["mode"], "base", "under {mode}: {report}");
        let profiles = report["profiles"].as_array().expect("profiles");
        if profiles
            .iter()
            .any(|one| one["next_time_huge"] != json!([]))
        {
            let known = live::json(
                mega()
                    .env("MEGA_STATE_DIR", state.path())
                    .args(["profiles", "--json"]),
            );
            let report = report_of_a_run(state.path(), 0);
            assert_eq!(report["fault"]["mode"], expected, "by {known}; {report}");
            return;
        }
    }
    panic!("never learnt under {mode}");
}

#[test]
fn a_program_that_filled_its_memory_keeps_the_kernels_huge_faults_next_time() {
    let name = "a_program_that_filled_its_memory_keeps_the_kernels_huge_faults_next_time";
    if !live::can_run(name) {
        return;
    }
    for (mode, expected) in [(ThpMode::Always, "inherit"), (ThpMode::Madvise, "base")] {
        under(name, mode, || takes_once_learnt(mode, expected));
    }
}

/// Writes a global mode as an administrator does, and the one before when it is dropped.
struct Administrator {
    before: ThpMode,
}

impl Administrator {
    fn sets(mode: ThpMode) -> Self {
        let before = thp_mode::read(&LiveKernel).expect("the mode");
        write_mode(mode);
        Administrator { before }
    }
}

impl Drop for Administrator {
    fn drop(&mut self) {
        write_mode(self.before);
    }
}

fn write_mode(mode: ThpMode) {
    LiveKernel
        .write(Path::new(thp_mode::PATH), mode.name().as_bytes())
        .expect("the mode is written");
}

/// Kernels before 6.18 have no control of one process: there mega changes the global mode, and a killed one cannot
/// put it back.
#[test]
fn what_a_killed_mega_changed_is_put_back_at_the_next_start() {
    if !live::can_run("what_a_killed_mega_changed_is_put_back_at_the_next_start") {
        return;
    }
    let _one_at_a_time = MODE.lock().unwrap_or_else(PoisonError::into_inner);
    let _administrator = Administrator::sets(ThpMode::Always);
    let mode = || thp_mode::read(&LiveKernel).expect("the mode");
    let (mut target, _) = start(&mut mega_run(
        &["--fault=base"],
        &["sparse", "--size=4MiB", "--until-eof"],
    ));
    let during = mode();
    assert_eq!(
        during == ThpMode::Always,
        live::kernel_version() >= (6, 18),
        "{during} while mega runs"
    );
    target.child.kill().expect("a signal");
    target.child.wait().expect("its status");
    target.end();
    assert_eq!(mode(), during);
    let doctor = text(&run(mega().arg("doctor")).stdout);
    assert_eq!(
        doctor.contains("left by a killed mega"),
        during != ThpMode::Always,
        "{doctor}"
    );

    let next = run(mega().args(["run", "--quiet", "--", "true"]));
    assert!(next.status.success(), "{}", text(&next.stderr));
    assert_eq!(mode(), ThpMode::Always);
}

/// A daemon that manages nothing, in a run directory of its own.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    /// Starts it with these lines at the top of its configuration, and waits until it manages.
    fn start(folder: &Path, top: &str) -> Self {
        configure(folder, top);
        let child = mega()
            .env("MEGA_RUN_DIR", folder.join("run"))
            .args(["daemon", "--config"])
            .arg(folder.join("mega.toml"))
            .stderr(Stdio::null())
            .spawn()
            .expect("mega starts");
        let daemon = Daemon {
            child,
            folder: folder.to_owned(),
        };
        live::until("the daemon to manage", || !daemon.fault().is_null());
        daemon
    }

    /// What its status says of faults.
    fn fault(&self) -> Value {
        let output = run(mega()
            .env("MEGA_RUN_DIR", self.folder.join("run"))
            .args(["status", "--json"]));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let managers = status["managers"].as_array().cloned().unwrap_or_default();
        let own = managers
            .into_iter()
            .find(|manager| manager["pid"] == self.child.id());
        own.map_or(Value::Null, |manager| manager["fault"].clone())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// Stops it as a service manager does.
    fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().expect("its status").code(), Some(0));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configure(folder: &Path, top: &str) {
    let select = "[[select]]\nname = \"none\"\nexecutable = \"/nonexistent\"\n";
    std::fs::write(folder.join("mega.toml"), format!("{top}{select}")).expect("written");
}

/// What a daemon manages it has not started: there only the global mode has faults take base pages.
#[test]
fn a_daemon_keeps_faults_on_base_pages_where_it_is_told_to_and_puts_the_mode_back() {
    let name = "a_daemon_keeps_faults_on_base_pages_where_it_is_told_to_and_puts_the_mode_back";
    if !live::can_run(name) {
        return;
    }
    let _one_at_a_time = MODE.lock().unwrap_or_else(PoisonError::into_inner);
    let _administrator = Administrator::sets(ThpMode::Always);
    let mode = || thp_mode::read(&LiveKernel).expect("the mode");
    let by = |fault: &Value| fault["by"].as_str().expect("by").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let (base, inherit) = ("fault = \"base\"\n", "fault = \"inherit\"\n");

    // Unasked, it changes nothing and says so.
    let daemon = Daemon::start(folder.path(), "");
    assert_eq!(mode(), ThpMode::Always);
    let fault = daemon.fault();
    assert_eq!(fault["mode"], "inherit");
    assert!(by(&fault).starts_with("huge pages"), "{fault}");
    let doctor = text(&run(mega().arg("doctor")).stdout);
    assert!(doctor.contains("fault = \"base\""), "{doctor}");
    daemon.stop();

    let daemon = Daemon::start(folder.path(), base);
    assert_eq!(mode(), ThpMode::Madvise);
    let fault = daemon.fault();
    assert_eq!(fault["mode"], "base");
    assert!(by(&fault).starts_with("base pages"), "{fault}");
    daemon.stop();
    assert_eq!(mode(), ThpMode::Always, "SIGTERM");

    // Killed, it can put nothing back; the next one does. A reload changes it both ways.
    drop(Daemon::start(folder.path(), base));
    assert_eq!(mode(), ThpMode::Madvise, "killed");
    let daemon = Daemon::start(folder.path(), inherit);
    assert_eq!(mode(), ThpMode::Always, "the next start");
    for (top, wanted) in [(base, ThpMode::Madvise), (inherit, ThpMode::Always)] {
        configure(folder.path(), top);
        daemon.signal(Signal::HUP);
        live::until("the reload", || mode() == wanted);
    }
    daemon.stop();
    assert_eq!(mode(), ThpMode::Always);
}
