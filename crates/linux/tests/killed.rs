//! `kill -9` at any moment leaves nothing changed: managers that change global settings and promote and demote a program
//! are killed at random points, two at a time. The next start puts everything back, and the program's data is right.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::skip;
use common::subject::Subject;
use mega_core::{Action, ActionKind, Machine, Region, RegionRef};
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::observe::memory::meminfo_bytes;
use mega_linux::observe::tracker::TrackerKind;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::changed_settings::ChangedSettings;
use mega_linux::settings::stale;
use mega_linux::settings::thp_mode::{self, Guard, ThpMode};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, process};

const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan";
/// The mode that a manager wants, and the program that it manages.
const WANTS: &str = "MEGA_TEST_MANAGER_WANTS";
const TARGET: &str = "MEGA_TEST_MANAGER_TARGET";
const RUN_DIR: &str = "MEGA_TEST_MANAGER_RUN_DIR";
const CHANGED: &str = "changed";
/// Managers that are killed.
const KILLS: usize = 200;
/// Regions of the program.
const REGIONS: usize = 8;

/// The settings as they were, put back also when the test fails.
struct Before {
    mode: ThpMode,
    pages_to_scan: Vec<u8>,
}

impl Before {
    fn read() -> Result<Self, String> {
        let mode = thp_mode::read(&LiveKernel).map_err(|error| error.to_string())?;
        let before = Before {
            mode,
            pages_to_scan: pages_to_scan().map_err(|error| format!("{KHUGEPAGED}: {error}"))?,
        };
        before.write().map_err(|error| error.to_string())?;
        Ok(before)
    }

    fn write(&self) -> std::io::Result<()> {
        LiveKernel.write(Path::new(thp_mode::PATH), self.mode.name().as_bytes())?;
        LiveKernel.write(Path::new(KHUGEPAGED), self.pages_to_scan.trim_ascii())
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        self.write().unwrap();
    }
}

fn pages_to_scan() -> std::io::Result<Vec<u8>> {
    LiveKernel.read(Path::new(KHUGEPAGED))
}

/// Starts a manager of `target` that wants the THP mode `wants`.
fn start_manager(run_dir: &RunDir, target: u32, wants: ThpMode) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["manager", "--exact", "--ignored", "--nocapture"])
        .env(RUN_DIR, run_dir.path())
        .env(TARGET, target.to_string())
        .env(WANTS, wants.name())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill(mut manager: Child) {
    manager.kill().unwrap();
    manager.wait().unwrap();
}

/// A manager until it is killed: as fast as it can, one thread changes and puts back settings, the other promotes and
/// demotes.
#[test]
#[ignore = "it is the manager of another test, which starts it"]
fn manager() {
    let Some(run_dir) = std::env::var_os(RUN_DIR) else {
        return;
    };
    let run_dir = RunDir::at(Path::new(&run_dir)).unwrap();
    let told = |name: &str| std::env::var(name).unwrap();
    let wants = ThpMode::from_name(&told(WANTS)).unwrap();
    let target: u32 = told(TARGET).parse().unwrap();
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    stale::put_back(kernel.as_ref(), &run_dir).unwrap();
    std::thread::spawn(move || act_for_ever(target));
    loop {
        let mode = Guard::set(Arc::clone(&kernel), &run_dir, wants).unwrap();
        let values = [(PathBuf::from(KHUGEPAGED), std::process::id().to_string())];
        let scan = ChangedSettings::change(Arc::clone(&kernel), &run_dir, &values).unwrap();
        println!("{CHANGED}");
        std::thread::sleep(Duration::from_millis(1));
        scan.put_back().unwrap();
        mode.restore().unwrap();
    }
}

fn act_for_ever(target: u32) {
    let options = HostOptions {
        dry_run: false,
        tracker: Some(TrackerKind::Mapped),
    };
    let mut machine = LinuxMachine::new(
        Arc::new(Host::open(options).unwrap()),
        MachineOptions::default(),
    );
    let process = process::identify(&LiveKernel, target).unwrap();
    machine.set_targets(vec![process]);
    loop {
        let observed = machine.observe().unwrap();
        let regions: Vec<Region> = observed
            .processes
            .iter()
            .flat_map(|process| &process.regions)
            .map(|region| region.region)
            .collect();
        for kind in [ActionKind::Promote, ActionKind::Demote] {
            let actions: Vec<Action> = regions
                .iter()
                .map(|&region| Action {
                    kind,
                    target: RegionRef { process, region },
                })
                .collect();
            machine.act(&actions);
        }
    }
}

/// Numbers that differ from one run to the next.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64 (Marsaglia 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

/// How long a manager takes from its start until it has changed settings.
fn time_to_change(run_dir: &RunDir, target: u32) -> Duration {
    let started = Instant::now();
    let mut manager = start_manager(run_dir, target, ThpMode::Never);
    let output = BufReader::new(manager.stdout.take().unwrap());
    let changed = output.lines().any(|line| line.unwrap().contains(CHANGED));
    let took = started.elapsed();
    kill(manager);
    assert!(changed, "the manager ended");
    took
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_changed() {
    let test = "a_kill_at_any_moment_leaves_nothing_changed";
    if let Err(error) = Host::open(HostOptions::default()) {
        return skip(test, &error.to_string());
    }
    let before = match Before::read() {
        Ok(before) => before,
        Err(error) => return skip(test, &error),
    };
    let folder = tempfile::tempdir().unwrap();
    let run_dir = RunDir::at(folder.path()).unwrap();
    let mut subject = Subject::start();
    let target = subject.pid();
    let range = subject.map("private", REGIONS);
    subject.fill(&range, 1);
    let expected = subject.sum(&range, 1);

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The program reads all of its memory, all the time.
        let reader = scope.spawn(|| {
            let mut sums = 0;
            while !done.load(Ordering::Relaxed) {
                assert_eq!(subject.sum(&range, 1), expected, "after {sums} sums");
                sums += 1;
            }
            sums
        });
        let result = std::panic::catch_unwind(|| kill_managers(&run_dir, target, &before));
        done.store(true, Ordering::Relaxed);
        let sums = reader.join().unwrap();
        let seen = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        eprintln!("{KILLS} managers killed, {sums} sums were right: {seen:?}");
        // Else the kills came too early to show anything.
        assert!(sums > 0 && seen.pairs_with_changes > 0 && seen.pairs_with_huge_pages > 0);
    });
}

/// What the kills came upon, by pairs of managers.
#[derive(Debug, Default)]
struct Seen {
    /// There was something to put back.
    pairs_with_changes: usize,
    /// The program had huge pages.
    pairs_with_huge_pages: usize,
}

/// Kills managers, two at a time.
fn kill_managers(run_dir: &RunDir, target: u32, before: &Before) -> Seen {
    let start = time_to_change(run_dir, target);
    stale::put_back(&LiveKernel, run_dir).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let mut random = Random(u64::from(now.subsec_nanos()) | 1);
    // From before the first change to long after it.
    let longest = 1000 * u64::try_from(start.as_millis()).unwrap() * 2 + 100_000;
    let mut seen = Seen::default();
    for pair in 0..KILLS / 2 {
        let first = start_manager(run_dir, target, ThpMode::Always);
        let second = start_manager(run_dir, target, ThpMode::Never);
        let mut managers = vec![first, second];
        while !managers.is_empty() {
            std::thread::sleep(Duration::from_micros(random.below(longest / 2)));
            let next = random.below(managers.len() as u64);
            kill(managers.remove(usize::try_from(next).unwrap()));
        }
        seen.pairs_with_huge_pages += usize::from(huge_bytes(target) > 0);

        let put_back = stale::put_back(&LiveKernel, run_dir).unwrap();
        seen.pairs_with_changes += usize::from(!put_back.is_empty());
        assert_eq!(
            thp_mode::read(&LiveKernel).unwrap(),
            before.mode,
            "pair {pair}: {put_back:?}"
        );
        assert_eq!(
            pages_to_scan().unwrap(),
            before.pages_to_scan,
            "pair {pair}: {put_back:?}"
        );
        let left: Vec<_> = std::fs::read_dir(run_dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().ends_with(".json"))
            .collect();
        assert!(left.is_empty(), "pair {pair}: {left:?} is left");
    }
    seen
}

/// Bytes of huge pages that map the program.
fn huge_bytes(target: u32) -> u64 {
    let text = std::fs::read(format!("/proc/{target}/smaps_rollup")).unwrap();
    meminfo_bytes(&text, "AnonHugePages").unwrap()
}
