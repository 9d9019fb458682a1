//! The global THP mode, its record, and the fault control that needs it or not. One test at a time: the mode is the
//! whole machine's.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::skip;
use common::subject::Subject;
use mega_core::{Action, ActionKind, Cause, Machine, Outcome, Region, RegionRef};
use mega_linux::kernel::{Kernel, LiveKernel, ReadOnly};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::{FaultControl, FaultMode};
use mega_linux::settings::thp_mode::{self, Guard, InForce, ThpMode};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

/// What a test that changes the mode holds: alone, with a run directory of its own, and the old mode to put back
/// whatever happens.
struct Alone {
    kernel: Arc<dyn Kernel>,
    run_dir: RunDir,
    before: ThpMode,
    _directory: tempfile::TempDir,
    _lock: MutexGuard<'static, ()>,
}

impl Alone {
    fn new(test: &str) -> Option<Self> {
        static LOCK: Mutex<()> = Mutex::new(());
        let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
        let before = match thp_mode::read(kernel.as_ref()) {
            Ok(mode) => mode,
            Err(error) => {
                skip(test, &error.to_string());
                return None;
            }
        };
        if let Err(error) = kernel.write(Path::new(thp_mode::PATH), before.name().as_bytes()) {
            skip(test, &format!("cannot write {}: {error}", thp_mode::PATH));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path()).unwrap();
        Some(Alone {
            kernel,
            run_dir,
            before,
            _directory: directory,
            _lock: lock,
        })
    }

    fn mode(&self) -> ThpMode {
        thp_mode::read(self.kernel.as_ref()).unwrap()
    }

    fn guard(&self, wants: ThpMode) -> Guard {
        Guard::set(Arc::clone(&self.kernel), &self.run_dir, wants).unwrap()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.kernel
            .write(Path::new(thp_mode::PATH), self.before.name().as_bytes())
            .unwrap();
    }
}

#[test]
fn a_guard_changes_the_mode_and_puts_it_back() {
    let Some(alone) = Alone::new("a_guard_changes_the_mode_and_puts_it_back") else {
        return;
    };
    for wants in [ThpMode::Always, ThpMode::Never, ThpMode::Madvise] {
        let guard = alone.guard(wants);
        assert_eq!(alone.mode(), wants);
        drop(guard);
        assert_eq!(alone.mode(), alone.before);
    }
    assert!(!alone.run_dir.path().join("thp_mode.json").exists());
}

#[test]
fn the_last_of_several_owners_restores() {
    let Some(alone) = Alone::new("the_last_of_several_owners_restores") else {
        return;
    };
    let first = alone.guard(ThpMode::Never);
    let second = alone.guard(ThpMode::Always);
    assert_eq!(alone.mode(), ThpMode::Always);
    drop(first);
    assert_eq!(alone.mode(), ThpMode::Always, "the second still wants it");
    second.restore().unwrap();
    assert_eq!(alone.mode(), alone.before);
}

#[test]
fn a_mode_that_somebody_else_set_meanwhile_stays() {
    let Some(alone) = Alone::new("a_mode_that_somebody_else_set_meanwhile_stays") else {
        return;
    };
    let guard = alone.guard(ThpMode::Always);
    alone
        .kernel
        .write(Path::new(thp_mode::PATH), b"never")
        .unwrap();
    drop(guard);
    assert_eq!(alone.mode(), ThpMode::Never);
}

#[test]
fn what_a_killed_owner_left_is_put_back() {
    let Some(alone) = Alone::new("what_a_killed_owner_left_is_put_back") else {
        return;
    };
    let guard = alone.guard(ThpMode::Always);
    assert_eq!(
        thp_mode::stale(alone.kernel.as_ref(), &alone.run_dir).unwrap(),
        None,
        "we live"
    );
    // The same pid in another life: what the record of a killed owner looks like once its pid is used again.
    let record = alone.run_dir.path().join("thp_mode.json");
    let text = std::fs::read_to_string(&record).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["owners"][0]["process"]["start_time"] = 1.into();
    std::fs::write(&record, json.to_string()).unwrap();

    let stale = thp_mode::stale(alone.kernel.as_ref(), &alone.run_dir)
        .unwrap()
        .unwrap();
    assert_eq!((stale.set, stale.original), (ThpMode::Always, alone.before));
    assert_eq!(alone.mode(), ThpMode::Always, "looking changes nothing");
    assert_eq!(
        thp_mode::restore_stale(alone.kernel.as_ref(), &alone.run_dir).unwrap(),
        Some(stale)
    );
    assert_eq!(alone.mode(), alone.before);
    assert_eq!(
        thp_mode::restore_stale(alone.kernel.as_ref(), &alone.run_dir).unwrap(),
        None
    );
    drop(guard);
    assert_eq!(alone.mode(), alone.before);
}

#[test]
fn base_faults_under_every_mode_and_promotion_still_works() {
    let test = "base_faults_under_every_mode_and_promotion_still_works";
    let Some(alone) = Alone::new(test) else {
        return;
    };
    let mut machine = match Host::open(HostOptions::default()) {
        Ok(host) => LinuxMachine::new(Arc::new(host), MachineOptions::default()),
        Err(error) => return skip(test, &error.to_string()),
    };
    for mode in [ThpMode::Always, ThpMode::Madvise, ThpMode::Never] {
        let guard = alone.guard(mode);
        let control =
            FaultControl::prepare(&alone.kernel, &alone.run_dir, FaultMode::Base).unwrap();
        // Inherited over fork and exec: the shell gets it, the subject is the shell's child.
        let mut subject = Subject::start_by_shell(|command| control.apply(command));
        let range = subject.map("private", 4);
        subject.fill(&range, 1);
        assert_eq!(subject.huge_bytes(&range), 0, "{mode}");
        let before = subject.sum(&range, 1);
        let process = subject.process();
        let promote: Vec<Action> = Region::wholly_inside(range.start, range.end)
            .map(|region| Action {
                kind: ActionKind::Promote,
                target: RegionRef { process, region },
            })
            .collect();
        // Others (DAMON, the batches of the LRU) hold a page for a moment now and then: what was busy is tried again.
        let is_busy = |outcome: &Outcome| *outcome == Outcome::Failed(Cause::Busy);
        let mut outcomes = machine.act(&promote);
        for _ in 0..50 {
            if !outcomes.iter().any(is_busy) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            for (outcome, action) in outcomes.iter_mut().zip(&promote) {
                if is_busy(outcome) {
                    *outcome = machine.act(std::slice::from_ref(action))[0];
                }
            }
        }
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Done { .. })),
            "{mode}: {outcomes:?}"
        );
        assert_eq!(subject.sum(&range, 1), before);
        drop(control);
        drop(guard);
        assert_eq!(alone.mode(), alone.before);
    }
}

#[test]
fn without_control_faults_under_always_are_huge() {
    let Some(alone) = Alone::new("without_control_faults_under_always_are_huge") else {
        return;
    };
    let _guard = alone.guard(ThpMode::Always);
    let control = FaultControl::prepare(&alone.kernel, &alone.run_dir, FaultMode::Inherit).unwrap();
    let mut subject = Subject::start_with(|command| control.apply(command));
    // A fault takes a base page where no huge one is free just then, which is not for mega to change.
    let huge = (0..50).any(|_| {
        let range = subject.map("private", 4);
        subject.fill(&range, 1);
        let huge = subject.huge_bytes(&range);
        subject.advise("unmap", &range);
        huge == range.end - range.start
    });
    assert!(huge, "no faults were huge");
}

#[test]
fn where_the_kernel_has_no_control_per_process_the_global_mode_does_it() {
    let test = "where_the_kernel_has_no_control_per_process_the_global_mode_does_it";
    let Some(alone) = Alone::new(test) else {
        return;
    };
    let guard = alone.guard(ThpMode::Always);
    let control = FaultControl::by_global_mode(&alone.kernel, &alone.run_dir).unwrap();
    assert_eq!(alone.mode(), ThpMode::Madvise);
    let mut subject = Subject::start_with(|command| control.apply(command));
    let range = subject.map("private", 2);
    subject.fill(&range, 1);
    assert_eq!(subject.huge_bytes(&range), 0);
    drop(control);
    assert_eq!(alone.mode(), ThpMode::Always);
    drop(guard);
}

#[test]
fn the_mode_is_changed_where_the_one_in_force_for_huge_pages_is() {
    let test = "the_mode_is_changed_where_the_one_in_force_for_huge_pages_is";
    let Some(alone) = Alone::new(test) else {
        return;
    };
    // Each size has a mode of its own since Linux 6.8, which decides whatever the global mode is.
    let own = Path::new("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled");
    let (path, _global) = match own.exists() {
        true => (own, Some(alone.guard(ThpMode::Never))),
        false => (Path::new(thp_mode::PATH), None),
    };
    let in_force = || thp_mode::of_huge_pages(alone.kernel.as_ref()).unwrap();
    let of_path = |mode| InForce {
        mode,
        path: path.to_owned(),
    };
    let kernel = || Arc::clone(&alone.kernel);
    let before = in_force();
    let guard = Guard::change(
        kernel(),
        &alone.run_dir,
        &of_path(ThpMode::Always),
        ThpMode::Always,
    )
    .unwrap();
    assert_eq!(in_force(), of_path(ThpMode::Always));
    let another = alone.guard(ThpMode::Never);
    assert_eq!(in_force(), of_path(ThpMode::Never));
    drop(another);
    assert_eq!(in_force(), of_path(ThpMode::Always));
    let control = FaultControl::by_global_mode(&alone.kernel, &alone.run_dir).unwrap();
    assert_eq!(in_force(), of_path(ThpMode::Madvise));
    let mut subject = Subject::start_with(|command| control.apply(command));
    let range = subject.map("private", 2);
    subject.fill(&range, 1);
    assert_eq!(subject.huge_bytes(&range), 0);
    drop(control);
    assert_eq!(in_force(), of_path(ThpMode::Always));
    drop(guard);
    assert_eq!(in_force(), before);
}

#[test]
fn a_dry_run_leaves_faults_and_mode_alone() {
    let Some(alone) = Alone::new("a_dry_run_leaves_faults_and_mode_alone") else {
        return;
    };
    let _guard = alone.guard(ThpMode::Always);
    let kernel: Arc<dyn Kernel> = Arc::new(ReadOnly(LiveKernel));
    let control = FaultControl::prepare(&kernel, &alone.run_dir, FaultMode::Base).unwrap();
    assert!(matches!(control, FaultControl::Nothing));
    assert!(Guard::set(kernel, &alone.run_dir, ThpMode::Never).is_err());
    assert_eq!(alone.mode(), ThpMode::Always);
}
