//! Promotion, demotion, clearing and zero counting on the running kernel, with a subject whose data is checksummed
//! before and after.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use common::skip;
use common::subject::Subject;
use mega_core::{
    Action, ActionKind, BASE_PAGE_SIZE, Cause, Machine, Outcome, PageSize, ProcessId, Region,
    RegionRef,
};
use mega_linux::kernel::{Advice, Kernel, LiveKernel};
use mega_linux::process::not_eligible::Reason;
use mega_linux::settings::fault;
use mega_linux::settings::thp_mode::{self, ThpMode};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

const REGION_BYTES: u64 = 2 << 20;

fn machine(test: &str) -> Option<LinuxMachine> {
    static HOST: OnceLock<Result<Arc<Host>, String>> = OnceLock::new();
    let host = HOST.get_or_init(|| {
        Host::open(HostOptions::default())
            .map(Arc::new)
            .map_err(|error| error.to_string())
    });
    let faults_are_huge = fault::knows_per_process_control(&LiveKernel) != Some(true)
        && thp_mode::read(&LiveKernel).is_ok_and(|mode| mode == ThpMode::Always);
    if faults_are_huge {
        skip(
            test,
            "the THP mode is `always`, and this kernel cannot keep one process out of it",
        );
        return None;
    }
    match host {
        Ok(host) => Some(LinuxMachine::new(
            Arc::clone(host),
            MachineOptions::default(),
        )),
        Err(reason) => {
            skip(test, reason);
            None
        }
    }
}

fn actions(kind: ActionKind, process: ProcessId, range: &Range<u64>) -> Vec<Action> {
    Region::wholly_inside(range.start, range.end)
        .map(|region| Action {
            kind,
            target: RegionRef { process, region },
        })
        .collect()
}

fn act_once(
    machine: &mut LinuxMachine,
    kind: ActionKind,
    subject: &Subject,
    range: &Range<u64>,
) -> Vec<Outcome> {
    machine.act(&actions(kind, subject.process(), range))
}

/// Acts, and again on what was busy: others (DAMON, the batches of the LRU) hold a page for a moment now and then.
fn act(
    machine: &mut LinuxMachine,
    kind: ActionKind,
    subject: &Subject,
    range: &Range<u64>,
) -> Vec<Outcome> {
    let all = actions(kind, subject.process(), range);
    let mut outcomes = machine.act(&all);
    for _ in 0..50 {
        let is_busy = |index: &usize| outcomes[*index] == Outcome::Failed(Cause::Busy);
        let busy: Vec<usize> = (0..all.len()).filter(is_busy).collect();
        if busy.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        let rest: Vec<Action> = busy.iter().map(|&index| all[index]).collect();
        for (index, outcome) in busy.into_iter().zip(machine.act(&rest)) {
            outcomes[index] = outcome;
        }
    }
    outcomes
}

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

#[test]
fn promotion_makes_pages_huge_and_keeps_the_data() {
    let Some(mut machine) = machine("promotion_makes_pages_huge_and_keeps_the_data") else {
        return;
    };
    for kind in ["private", "shared"] {
        let mut subject = Subject::start();
        let range = subject.map(kind, 70);
        subject.fill(&range, 1);
        let before = subject.sum(&range, 1);
        let outcomes = act(&mut machine, ActionKind::Promote, &subject, &range);
        assert_eq!(outcomes.len(), 70);
        assert!(outcomes.iter().all(is_done), "{kind}: {outcomes:?}");
        assert_eq!(
            subject.huge_bytes(&range),
            range.end - range.start,
            "{kind}"
        );
        assert_eq!(subject.sum(&range, 1), before, "{kind}");
        let again = act(&mut machine, ActionKind::Promote, &subject, &range);
        assert!(
            again.iter().all(|&outcome| outcome == Outcome::AlreadySo),
            "{kind}: {again:?}"
        );
    }
}

#[test]
fn shared_memory_that_cannot_be_huge_is_not_tried() {
    let Some(mut machine) = machine("shared_memory_that_cannot_be_huge_is_not_tried") else {
        return;
    };
    let mut subject = Subject::start();
    let range = subject.map("misaligned", 4);
    subject.fill(&range, 1);
    let process = subject.process();
    // The kernel itself refuses it.
    let handle = LiveKernel.open_process(process.pid).unwrap();
    let collapsed = LiveKernel.advise(&handle, std::slice::from_ref(&range), Advice::Collapse);
    assert_eq!(
        collapsed.unwrap_err().raw_os_error(),
        Some(rustix::io::Errno::INVAL.raw_os_error())
    );
    machine.set_targets(vec![process]);
    let seen = machine.observe().unwrap();
    let is_inside = |region: Region| range.contains(&region.start());
    let regions = &seen.processes[0].regions;
    assert!(regions.iter().all(|seen| !is_inside(seen.region)));
    let told = machine.not_eligible(process);
    assert!(
        told.iter()
            .any(|part| part.range == range && part.reason == Reason::MisalignedShared),
        "{told:?}"
    );
    let outcomes = act(&mut machine, ActionKind::Promote, &subject, &range);
    assert_eq!(outcomes, [Outcome::Failed(Cause::NotEligible); 4]);
}

#[test]
fn demotion_splits_gives_back_zeros_and_keeps_the_data() {
    let Some(mut machine) = machine("demotion_splits_gives_back_zeros_and_keeps_the_data") else {
        return;
    };
    let mut subject = Subject::start();
    let range = subject.map("private", 8);
    subject.fill(&range, 4);
    let before = subject.sum(&range, 4);
    let promoted = act(&mut machine, ActionKind::Promote, &subject, &range);
    assert!(promoted.iter().all(is_done), "{promoted:?}");
    let process = subject.process();
    let region = Region::containing(range.start);
    assert_eq!(
        machine.count_zero_filled(RegionRef { process, region }),
        Some(384)
    );
    let demoted = act(&mut machine, ActionKind::Demote, &subject, &range);
    for outcome in &demoted {
        let Outcome::Done {
            resident_before,
            resident_after,
        } = *outcome
        else {
            panic!("{demoted:?}");
        };
        assert_eq!(resident_before, REGION_BYTES);
        // Kernels before 6.12 keep the zeros.
        assert!(resident_after == REGION_BYTES / 4 || resident_after == REGION_BYTES);
    }
    assert_eq!(subject.huge_bytes(&range), 0);
    assert_eq!(subject.sum(&range, 4), before);
    let again = act(&mut machine, ActionKind::Demote, &subject, &range);
    assert!(
        again.iter().all(|&outcome| outcome == Outcome::AlreadySo),
        "{again:?}"
    );
}

#[test]
fn a_page_of_zeros_comes_back_as_nothing() {
    let Some(mut machine) = machine("a_page_of_zeros_comes_back_as_nothing") else {
        return;
    };
    let mut subject = Subject::start();
    let range = subject.map("private", 2);
    subject.fill(&range, 512);
    act(&mut machine, ActionKind::Promote, &subject, &range);
    let process = subject.process();
    let region = Region::containing(range.start);
    assert_eq!(
        machine.count_zero_filled(RegionRef { process, region }),
        Some(511)
    );
    let looked = machine.look(process, &[region]).unwrap();
    assert_eq!(looked[0].page_size, PageSize::Huge);
}

#[test]
fn what_the_kernel_refuses_is_told_apart() {
    let Some(mut machine) = machine("what_the_kernel_refuses_is_told_apart") else {
        return;
    };
    let mut subject = Subject::start();
    let process = subject.process();

    let nohuge = subject.map("private", 3);
    subject.fill(&nohuge, 1);
    subject.advise("nohuge", &nohuge);
    let outcomes = act(&mut machine, ActionKind::Promote, &subject, &nohuge);
    assert_eq!(outcomes, [Outcome::Failed(Cause::NotEligible); 3]);
    machine.set_targets(vec![process]);
    let seen = machine.observe().unwrap();
    let still_seen = seen.processes[0]
        .regions
        .iter()
        .filter(|seen| nohuge.contains(&seen.region.start()));
    assert_eq!(still_seen.count(), 3, "what was refused stays observed");

    let locked = subject.map("private", 2);
    subject.fill(&locked, 1);
    let promoted = act(&mut machine, ActionKind::Promote, &subject, &locked);
    assert_eq!(
        promoted,
        [Outcome::Failed(Cause::NotEligible); 2],
        "not mapped when last observed"
    );
    machine.observe().unwrap();
    let promoted = act(&mut machine, ActionKind::Promote, &subject, &locked);
    assert!(promoted.iter().all(is_done), "{promoted:?}");
    subject.advise("lock", &locked);
    let outcomes = act(&mut machine, ActionKind::Demote, &subject, &locked);
    assert_eq!(outcomes, [Outcome::Failed(Cause::NotEligible); 2], "locked");

    let shared = subject.map("private", 2);
    subject.fill(&shared, 1);
    machine.observe().unwrap();
    act(&mut machine, ActionKind::Promote, &subject, &shared);
    let child = subject.ask("fork");
    let outcomes = act_once(&mut machine, ActionKind::Demote, &subject, &shared);
    // SAFETY: a signal to a child that this test made.
    unsafe { libc::kill(i32::try_from(child).unwrap(), libc::SIGKILL) };
    assert_eq!(
        outcomes,
        [Outcome::Failed(Cause::Busy); 2],
        "shared after fork"
    );

    let forked = subject.map("private", 2);
    subject.fill(&forked, 1);
    machine.observe().unwrap();
    let child = subject.ask("fork");
    let outcomes = act_once(&mut machine, ActionKind::Promote, &subject, &forked);
    assert_eq!(
        outcomes,
        [Outcome::Failed(Cause::Busy); 2],
        "a copy of what is shared would be memory more"
    );
    // SAFETY: a signal to a child that this test made.
    unsafe { libc::kill(i32::try_from(child).unwrap(), libc::SIGKILL) };
    let promoted = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        // 6.1 and 6.12 do not collapse what is write-protected wholly.
        subject.fill(&forked, 1);
        let outcomes = act_once(&mut machine, ActionKind::Promote, &subject, &forked);
        let is_so = |outcome| is_done(outcome) || *outcome == Outcome::AlreadySo;
        outcomes.iter().all(is_so)
    });
    assert!(promoted, "its memory is its own again");

    let gone = subject.map("private", 2);
    subject.fill(&gone, 1);
    machine.observe().unwrap();
    subject.advise("unmap", &gone);
    for kind in [ActionKind::Promote, ActionKind::Demote] {
        let outcomes = act(&mut machine, kind, &subject, &gone);
        assert_eq!(outcomes, [Outcome::Failed(Cause::Gone); 2], "unmapped");
    }

    subject.kill();
    let outcomes = machine.act(&actions(ActionKind::Promote, process, &nohuge));
    assert_eq!(outcomes, [Outcome::Failed(Cause::Gone); 3], "killed");
    machine.observe().unwrap();
    assert_eq!(machine.take_departed(), [process]);
    assert!(machine.targets().is_empty());
}

#[test]
fn accesses_are_those_since_the_last_observation() {
    let Some(mut machine) = machine("accesses_are_those_since_the_last_observation") else {
        return;
    };
    if !machine.host().tracker_kind().knows_accesses() {
        return skip(
            "accesses_are_those_since_the_last_observation",
            "no tracker sees accesses here",
        );
    }
    // Once within the bound by clear_refs; once in pieces because the bound is short, where pages just faulted
    // are passed over while they wait in a CPU's LRU batch.
    let cpus = std::thread::available_parallelism().unwrap().get();
    for (bound, not_cleared) in [
        (Duration::from_secs(1), 0),
        (
            Duration::from_micros(50),
            mega_linux::observe::clear::LRU_BATCH * cpus,
        ),
    ] {
        machine.set_options(MachineOptions {
            lock_bound: bound,
            ..MachineOptions::default()
        });
        let mut subject = Subject::start();
        let range = subject.map("private", 64);
        subject.fill(&range, 1);
        machine.set_targets(vec![subject.process()]);
        assert!(
            !machine.observe().unwrap().processes[0].accesses_known,
            "nothing was cleared before"
        );
        let hot = range.start..range.start + 8 * REGION_BYTES;
        subject.touch(&hot, 1);
        let seen = machine.observe().unwrap();
        assert!(seen.processes[0].accesses_known);
        let (mut hot_accessed, mut cold_accessed) = (0, 0);
        for region in &seen.processes[0].regions {
            let start = region.region.start();
            if hot.contains(&start) {
                hot_accessed += usize::from(region.accessed);
            } else if range.contains(&start) {
                cold_accessed += usize::from(region.accessed);
            }
        }
        // DAMON, which clears Accessed bits too, may have sampled some pages or folios of the machine's meanwhile.
        let touched = (hot.end - hot.start) / BASE_PAGE_SIZE;
        assert!(
            hot_accessed as u64 * 100 >= touched * 95,
            "{bound:?} {hot_accessed}"
        );
        assert!(cold_accessed <= not_cleared, "{bound:?} {cold_accessed}");
    }
}

#[test]
fn exec_starts_anew() {
    let Some(mut machine) = machine("exec_starts_anew") else {
        return;
    };
    let mut subject = Subject::start();
    let range = subject.map("private", 4);
    subject.fill(&range, 1);
    let process = subject.process();
    machine.set_targets(vec![process]);
    machine.observe().unwrap();
    // It answers before it is the other program.
    subject.ask("exec");
    let name = format!("/proc/{}/comm", subject.pid());
    let is_other = || std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep");
    let started = Instant::now();
    while !is_other() {
        assert!(started.elapsed() < Duration::from_secs(120), "no exec");
        std::thread::sleep(Duration::from_millis(5));
    }
    let seen = machine.observe().unwrap();
    assert_eq!(seen.processes[0].process, process);
    assert!(!seen.processes[0].accesses_known);
    assert!(
        seen.processes[0]
            .regions
            .iter()
            .all(|seen| !range.contains(&seen.region.start()))
    );
    let outcomes = machine.act(&actions(ActionKind::Promote, process, &range));
    assert_ne!(
        outcomes.iter().filter(|outcome| is_done(outcome)).count(),
        4
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let Some(mut machine) = machine("a_dry_run_changes_nothing") else {
        return;
    };
    let host = Host::open(HostOptions {
        dry_run: true,
        tracker: None,
    })
    .unwrap();
    let mut dry = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    let mut subject = Subject::start();
    let range = subject.map("private", 4);
    subject.fill(&range, 1);
    let all = range.end - range.start;
    // Each thing is not done by the dry machine, and then done by the other: so it could have been.
    dry.set_targets(vec![subject.process()]);
    for _ in 0..2 {
        let seen = dry.observe().unwrap();
        assert!(!seen.processes[0].accesses_known, "nothing is cleared");
        assert!(seen.processes[0].regions.len() >= 4);
    }
    // DAMON or reclaim may have cleared a few.
    assert!(subject.referenced_bytes(&range) > all / 10 * 9);
    if machine.host().tracker_kind().knows_accesses() {
        machine.set_targets(vec![subject.process()]);
        for _ in 0..2 {
            machine.observe().unwrap();
        }
        assert!(subject.referenced_bytes(&range) < all / 2);
    }
    let outcomes = act(&mut dry, ActionKind::Promote, &subject, &range);
    assert_eq!(outcomes, [Outcome::NotTried; 4]);
    assert_eq!(subject.huge_bytes(&range), 0);
    let outcomes = act(&mut machine, ActionKind::Promote, &subject, &range);
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    assert_eq!(subject.huge_bytes(&range), all);
    let outcomes = act(&mut dry, ActionKind::Demote, &subject, &range);
    assert_eq!(outcomes, [Outcome::NotTried; 4]);
    assert_eq!(subject.huge_bytes(&range), all);
    let outcomes = act(&mut machine, ActionKind::Demote, &subject, &range);
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    assert_eq!(subject.huge_bytes(&range), 0);
}

#[test]
fn stacks_of_threads_are_left_alone() {
    let Some(mut machine) = machine("stacks_of_threads_are_left_alone") else {
        return;
    };
    let mut subject = Subject::start();
    subject.ask("thread");
    let process = subject.process();
    let eligible = machine.eligible_regions(process, None).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap();
    let mappings = mega_linux::process::eligible::mappings(maps.as_bytes());
    let stacks: Vec<_> = mappings
        .windows(2)
        .filter(|pair| !pair[0].accessible && pair[0].range.end == pair[1].range.start)
        .filter(|pair| pair[1].range.end - pair[1].range.start >= 16 << 20)
        .map(|pair| pair[1].range.clone())
        .collect();
    assert!(
        !stacks.is_empty(),
        "the subject's thread has a stack of 16 MiB:\n{maps}"
    );
    for stack in stacks {
        assert!(
            eligible
                .iter()
                .all(|region| !stack.contains(&region.start()))
        );
        // Nor is it promoted when asked for by address.
        let top = Region::containing(stack.end - REGION_BYTES);
        let action = Action {
            kind: ActionKind::Promote,
            target: RegionRef {
                process,
                region: top,
            },
        };
        assert!(!is_done(&machine.act(&[action])[0]));
    }
}
