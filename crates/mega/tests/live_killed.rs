//! `kill -9` of the daemon at any moment: the next start puts back what it had changed, and the program that it was
//! promoting has the right data.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic, clippy::cast_precision_loss)]

mod live;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use live::{finish, mega, mega_lab, run, start, text};
use mega_lab::random::{Random, below};
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::settings::thp_mode::{self, ThpMode};

/// Daemons that are killed.
const KILLS: u32 = 200;
/// Of these, how many run at a time.
const AT_A_TIME: u32 = 4;

/// The global THP mode as it was, written back also when the test fails.
struct Before(ThpMode);

impl Drop for Before {
    fn drop(&mut self) {
        write_mode(self.0);
    }
}

fn read_mode() -> ThpMode {
    thp_mode::read(&LiveKernel).expect("the mode")
}

fn write_mode(mode: ThpMode) {
    LiveKernel
        .write(Path::new(thp_mode::PATH), mode.name().as_bytes())
        .expect("the mode is written");
}

/// What the kills came upon.
#[derive(Debug, Default)]
struct Seen {
    /// The daemon had changed the mode.
    changed: usize,
    /// The program had huge pages.
    huge: usize,
}

#[test]
fn a_daemon_killed_at_any_moment_leaves_nothing_changed() {
    if !live::can_run("a_daemon_killed_at_any_moment_leaves_nothing_changed") {
        return;
    }
    // On the file system of the binary, which is linked to.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("program");
    std::fs::hard_link(mega_lab(), &program).expect("linked");
    configure(folder.path(), &program);
    let _before = Before(read_mode());
    // It knows at its end whether an update was lost.
    let (subject, ready) = start(Command::new(&program).args([
        "workload",
        "random",
        "--size=64MiB",
        "--until-eof",
        "--json",
    ]));
    let seen = kill_daemons(folder.path(), ready.pid);
    finish(subject);
    eprintln!("{KILLS} daemons killed: {seen:?}");
    // Else the kills came too early to show anything.
    assert!(seen.changed > 0 && seen.huge > 0);
}

/// Writes a configuration by which a daemon changes the global mode and promotes `program` at once.
fn configure(folder: &Path, program: &Path) {
    let config = format!(
        "fault = \"base\"\n[defaults]\ninterval = \"10ms\"\ncpu_budget = \"100%\"\n[[select]]\nname = \"it\"\n\
         executable = \"{}\"\npolicy = \"ingens\"\n",
        program.display()
    );
    std::fs::write(folder.join("mega.toml"), config).expect("written");
}

/// mega with a run directory of this test's own.
fn mega_in(folder: &Path) -> Command {
    let mut command = mega();
    command.env("MEGA_RUN_DIR", folder.join("run"));
    command
}

fn start_daemon(folder: &Path) -> Child {
    mega_in(folder)
        .args(["daemon", "--config"])
        .arg(folder.join("mega.toml"))
        .stderr(Stdio::null())
        .spawn()
        .expect("mega starts")
}

fn kill(mut daemon: Child) {
    daemon.kill().expect("a signal");
    daemon.wait().expect("its status");
}

/// How long a daemon takes from its start until it has changed the mode and promoted something of the program.
fn time_to_promote(folder: &Path, pid: u32) -> Duration {
    write_mode(ThpMode::Always);
    let started = Instant::now();
    let daemon = start_daemon(folder);
    live::until("the daemon's mode", || read_mode() == ThpMode::Madvise);
    live::until("a huge page of the daemon's", || huge_bytes(pid) > 0);
    let took = started.elapsed();
    kill(daemon);
    put_back(folder, pid);
    took
}

/// The next start puts the mode back; and the program's pages are base pages again, so that there is something to promote.
fn put_back(folder: &Path, pid: u32) {
    let next = run(mega_in(folder).args(["run", "--quiet", "--", "true"]));
    assert!(next.status.success(), "{}", text(&next.stderr));
    assert_eq!(read_mode(), ThpMode::Always);
    let demoted = run(mega_in(folder).arg("demote").arg(pid.to_string()));
    assert!(demoted.status.success(), "{}", text(&demoted.stderr));
}

fn huge_bytes(pid: u32) -> u64 {
    mega_lab::resident::of(pid).expect("its memory").huge_bytes
}

/// Kills daemons, some at a time, at random moments. After each round the next start puts the mode back.
fn kill_daemons(folder: &Path, pid: u32) -> Seen {
    // From before the first change to long after the first promotion.
    let longest = 3 * time_to_promote(folder, pid) / AT_A_TIME;
    let mut seen = Seen::default();
    // Other moments in each run.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time");
    let mut random = Random::new(now.as_secs());
    for _ in 0..KILLS / AT_A_TIME {
        let mut daemons: Vec<Child> = (0..AT_A_TIME).map(|_| start_daemon(folder)).collect();
        while !daemons.is_empty() {
            std::thread::sleep(longest.mul_f64(below(random.word(), 1000) as f64 / 1000.0));
            let next = below(random.word(), daemons.len());
            kill(daemons.swap_remove(next));
        }
        seen.huge += usize::from(huge_bytes(pid) > 0);
        seen.changed += usize::from(read_mode() == ThpMode::Madvise);
        put_back(folder, pid);
    }
    seen
}
