//! What can go wrong between looking and acting, on a scripted kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::single_range_in_vec_init,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mega_core::{
    Action, ActionKind, Cause, CgroupMemory, Machine, Outcome, ProcessId, Region,
    RegionObservation, RegionRef,
};
use mega_linux::doctor::{Examination, TrackerChoice};
use mega_linux::kernel::fake::{FakeKernel, FakeProcess, FakeTracker};
use mega_linux::kernel::{Advice, Kernel, ReadOnly};
use mega_linux::observe::tracker::{TrackError, TrackedProcess, Tracker, TrackerKind};
use mega_linux::{Error, Host, LinuxMachine, MachineOptions};

const HUGE: u64 = 2 << 20;
const START: u64 = 64 * HUGE;

fn host(kernel: &FakeKernel, boundary: Arc<dyn Kernel>) -> Arc<Host> {
    let tracker = Box::new(FakeTracker(kernel.clone()));
    Arc::new(Host::with_tracker(boundary, examination(), tracker))
}

fn examination() -> Examination {
    Examination {
        kernel_release: "fake".to_owned(),
        features: Vec::new(),
        tracker: TrackerChoice {
            chosen: None,
            why: String::new(),
        },
        faults: None,
        other_consumers: Vec::new(),
        stale_state: None,
        stale_settings: Vec::new(),
        stale_unknown: None,
    }
}

/// A machine with one process of `count` regions, observed once.
fn observed(count: u64) -> (FakeKernel, LinuxMachine, ProcessId) {
    let kernel = FakeKernel::new();
    let process = kernel.add(7, FakeProcess::with_regions(100, START, count));
    let boundary: Arc<dyn Kernel> = Arc::new(kernel.clone());
    let mut machine = LinuxMachine::new(host(&kernel, boundary), MachineOptions::default());
    machine.set_targets(vec![process]);
    machine.observe().unwrap();
    (kernel, machine, process)
}

fn actions(
    kind: ActionKind,
    process: ProcessId,
    indices: impl IntoIterator<Item = u64>,
) -> Vec<Action> {
    indices
        .into_iter()
        .map(|index| Region::containing(START + index * HUGE))
        .map(|region| Action {
            kind,
            target: RegionRef { process, region },
        })
        .collect()
}

fn promote(process: ProcessId, count: u64) -> Vec<Action> {
    actions(ActionKind::Promote, process, 0..count)
}

/// Out of files (of the process, of the machine), of memory, of PIDs.
const RUN_OUT: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];

#[test]
fn a_machine_that_has_run_out_of_something_is_observed_again_later() {
    for number in RUN_OUT {
        let (kernel, mut machine, process) = observed(4);
        kernel.state().out_of = Some(number);
        let error = machine.observe().unwrap_err().to_string();
        let why = std::io::Error::from_raw_os_error(number).to_string();
        assert!(error.contains(&why), "{error}");
        let outcomes = machine.act(&promote(process, 4));
        let promoted = outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Done { .. }));
        assert!(!promoted, "{outcomes:?}");
        assert_eq!(machine.targets(), [process]);
        kernel.state().out_of = None;
        let observation = machine.observe().unwrap();
        assert_eq!(observation.processes[0].regions.len(), 4);
        assert_eq!(machine.act(&promote(process, 4)), [PROMOTED; 4]);
    }
}

const PROMOTED: Outcome = Outcome::Done {
    resident_before: HUGE,
    resident_after: HUGE,
};

#[test]
fn neighbours_share_a_call_and_outcomes_keep_the_order_asked() {
    let (kernel, mut machine, process) = observed(200);
    kernel
        .state()
        .processes
        .get_mut(&7)
        .unwrap()
        .regions
        .get_mut(&(START + 3 * HUGE))
        .unwrap()
        .huge = true;
    let asked = actions(ActionKind::Promote, process, [5, 3, 4, 100, 6]);
    assert_eq!(
        machine.act(&asked),
        [PROMOTED, Outcome::AlreadySo, PROMOTED, PROMOTED, PROMOTED]
    );
    let calls: Vec<_> = kernel
        .state()
        .advised
        .iter()
        .flat_map(|(ranges, _)| ranges.clone())
        .collect();
    assert_eq!(
        calls,
        [
            START + 4 * HUGE..START + 7 * HUGE,
            START + 100 * HUGE..START + 101 * HUGE
        ]
    );
}

#[test]
fn a_busy_region_in_a_long_call_does_not_hide_the_others() {
    let (kernel, mut machine, process) = observed(8);
    kernel
        .state()
        .processes
        .get_mut(&7)
        .unwrap()
        .regions
        .get_mut(&(START + 2 * HUGE))
        .unwrap()
        .busy = true;
    let outcomes = machine.act(&promote(process, 8));
    for (index, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(
            outcome,
            if index == 2 {
                Outcome::Failed(Cause::Busy)
            } else {
                PROMOTED
            }
        );
    }
}

#[test]
fn out_of_huge_pages_stops_there_and_is_not_tried_again() {
    let (kernel, mut machine, process) = observed(200);
    kernel.state().free_huge_pages = 3;
    let outcomes = machine.act(&promote(process, 200));
    assert_eq!(outcomes[..3], [PROMOTED; 3]);
    assert!(
        outcomes[3..]
            .iter()
            .all(|&outcome| outcome == Outcome::Failed(Cause::NoMemory))
    );
    assert_eq!(
        kernel.state().advised.len(),
        1,
        "memory is short: no second attempt"
    );
}

#[test]
fn a_memory_cgroup_at_its_limit_is_no_memory() {
    let (kernel, mut machine, process) = observed(4);
    kernel.state().cgroup_huge_pages = 1;
    let outcomes = machine.act(&promote(process, 4));
    assert_eq!(outcomes[0], PROMOTED);
    assert_eq!(outcomes[1..], [Outcome::Failed(Cause::NoMemory); 3]);
}

#[test]
fn a_process_is_on_a_node_and_below_a_limit() {
    let kernel = FakeKernel::new();
    let on_processor = |processor| FakeProcess {
        processor,
        ..FakeProcess::with_regions(100, START, 1)
    };
    let processes = vec![
        kernel.add(7, on_processor(0)),
        kernel.add(8, on_processor(1)),
    ];
    for (file, content) in [
        ("/sys/devices/system/cpu/cpu0/node0/cpulist", "0"),
        ("/sys/devices/system/cpu/cpu1/node1/cpulist", "1"),
        ("/proc/self/mounts", "cgroup2 /cg cgroup2 rw 0 0"),
        ("/proc/8/cgroup", "0::/a"),
        ("/cg/a/memory.max", "1000"),
        ("/cg/a/memory.current", "400"),
        (
            "/proc/buddyinfo",
            "Node 0, zone Normal 3\nNode 1, zone Normal 5\n",
        ),
    ] {
        kernel.state().files.insert(file.into(), content.into());
    }
    let boundary: Arc<dyn Kernel> = Arc::new(kernel.clone());
    let mut machine = LinuxMachine::new(host(&kernel, boundary), MachineOptions::default());
    machine.set_targets(processes);
    let seen = machine.observe().unwrap();
    let limit = CgroupMemory {
        limit: 1000,
        available: 600,
    };
    let of = |index: usize| (seen.processes[index].node, seen.processes[index].cgroup);
    assert_eq!([of(0), of(1)], [(Some(0), None), (Some(1), Some(limit))]);
    let free: Vec<u64> = seen.memory.nodes.iter().map(|node| node.free).collect();
    assert_eq!(free, [3 * 4096, 5 * 4096]);
}

#[test]
fn what_is_in_swap_is_promoted_by_hand_alone() {
    let (kernel, mut machine, process) = observed(2);
    {
        let mut state = kernel.state();
        let region = state.processes.get_mut(&7).unwrap().regions.get_mut(&START);
        let region = region.unwrap();
        (region.mapped, region.swapped) = (500, 12);
    }
    let seen = machine.observe().unwrap();
    assert_eq!(seen.processes[0].regions[0].swapped, 12);
    let outcomes = machine.act(&promote(process, 2));
    assert_eq!(outcomes, [Outcome::Failed(Cause::Busy), PROMOTED]);
    machine.set_options(MachineOptions {
        swap_in: true,
        ..MachineOptions::default()
    });
    let outcomes = machine.act(&promote(process, 1));
    assert!(
        matches!(outcomes[..], [Outcome::Done { .. }]),
        "{outcomes:?}"
    );
}

#[test]
fn a_mapping_that_vanishes_before_the_call_is_gone_and_the_rest_is_done() {
    let (kernel, mut machine, process) = observed(4);
    kernel.state().before_next_advice(|state| {
        let process = state.processes.get_mut(&7).unwrap();
        process.regions.clear();
        process.mappings.clear();
        process.map(START, 1);
        process.map(START + 2 * HUGE, 2);
    });
    let outcomes = machine.act(&promote(process, 4));
    assert_eq!(
        outcomes,
        [PROMOTED, Outcome::Failed(Cause::Gone), PROMOTED, PROMOTED]
    );
}

#[test]
fn a_process_that_exits_before_the_call_is_gone() {
    let (kernel, mut machine, process) = observed(4);
    kernel.state().before_next_advice(|state| {
        state.processes.remove(&7);
    });
    assert_eq!(
        machine.act(&promote(process, 4)),
        [Outcome::Failed(Cause::Gone); 4]
    );
    assert!(machine.observe().unwrap().processes.is_empty());
    assert_eq!(machine.take_departed(), [process]);
    assert!(machine.take_departed().is_empty());
}

#[test]
fn a_pid_used_again_is_not_the_process() {
    let (kernel, mut machine, process) = observed(4);
    kernel.add(7, FakeProcess::with_regions(200, START, 4));
    assert_eq!(
        machine.act(&promote(process, 4)),
        [Outcome::Failed(Cause::Gone); 4]
    );
    machine.observe().unwrap();
    assert_eq!(machine.take_departed(), [process]);
    assert!(
        kernel.state().advised.is_empty(),
        "the new process is not touched"
    );
}

#[test]
fn errors_are_told_apart() {
    for (errno, cause) in [
        (libc::EPERM, Cause::NotPermitted),
        (libc::ESRCH, Cause::Gone),
        (libc::EAGAIN, Cause::Busy),
        (libc::ENOMEM, Cause::NoMemory),
        (libc::EBUSY, Cause::NoMemory),
        (libc::EINVAL, Cause::NotEligible),
    ] {
        let (kernel, mut machine, process) = observed(1);
        kernel.state().fail_next(Advice::Collapse, errno);
        assert_eq!(
            machine.act(&promote(process, 1)),
            [Outcome::Failed(cause)],
            "{errno}"
        );
    }
}

#[test]
fn memory_that_refuses_huge_pages_is_still_observed() {
    let (kernel, mut machine, process) = observed(4);
    kernel.state().processes.get_mut(&7).unwrap().mappings[0].no_huge = true;
    assert_eq!(
        machine.act(&promote(process, 4)),
        [Outcome::Failed(Cause::NotEligible); 4]
    );
    // It is resident all the same. Not to offer it again is for the engine's memory of failures.
    assert_eq!(machine.observe().unwrap().processes[0].regions.len(), 4);
}

#[test]
fn a_demotion_counts_only_what_is_seen_to_be_given_back() {
    let (kernel, mut machine, process) = observed(3);
    {
        let mut state = kernel.state();
        let regions = &mut state.processes.get_mut(&7).unwrap().regions;
        for region in regions.values_mut() {
            region.huge = true;
            region.zero_filled = 512;
        }
        regions.get_mut(&START).unwrap().zero_filled = 100;
        regions.get_mut(&(START + HUGE)).unwrap().shared = true;
    }
    let outcomes = machine.act(&actions(ActionKind::Demote, process, 0..3));
    assert_eq!(
        outcomes,
        [
            Outcome::Done {
                resident_before: HUGE,
                resident_after: 412 * 4096
            },
            Outcome::Failed(Cause::Busy),
            Outcome::Done {
                resident_before: HUGE,
                resident_after: 0
            },
        ]
    );
}

#[test]
fn locked_memory_is_not_demoted_and_the_rest_is() {
    let (kernel, mut machine, process) = observed(2);
    {
        let mut state = kernel.state();
        let target = state.processes.get_mut(&7).unwrap();
        target.mappings.clear();
        target.map(START, 1);
        target.map(START + HUGE, 1);
        target.mappings[0].locked = true;
        target
            .regions
            .values_mut()
            .for_each(|region| region.huge = true);
    }
    machine.observe().unwrap();
    assert_eq!(
        machine.act(&actions(ActionKind::Demote, process, 0..2)),
        [Outcome::Failed(Cause::NotEligible), PROMOTED]
    );
}

#[test]
fn accesses_are_known_from_the_second_look_and_not_after_exec() {
    let (kernel, mut machine, _) = observed(2);
    assert!(machine.observe().unwrap().processes[0].accesses_known);
    kernel.state().processes.get_mut(&7).unwrap().layout = 5;
    assert!(
        !machine.observe().unwrap().processes[0].accesses_known,
        "another program"
    );
    assert!(machine.observe().unwrap().processes[0].accesses_known);
}

#[test]
fn clearing_keeps_to_the_lock_bound_once_it_knows_the_cost() {
    let (kernel, mut machine, _) = observed(512);
    let bound = MachineOptions::default().lock_bound;
    // Ten times what is assumed before anything was measured.
    kernel.state().clear_cost = Duration::from_nanos(420);
    for round in 0..8 {
        for region in kernel
            .state()
            .processes
            .get_mut(&7)
            .unwrap()
            .regions
            .values_mut()
        {
            region.accessed = 512;
        }
        kernel.state().advised.clear();
        kernel.state().written.clear();
        // So long an interval that all is cleared in one turn.
        kernel.state().now += Duration::from_secs(120);
        assert!(machine.observe().unwrap().processes[0].accesses_known);
        let state = kernel.state();
        assert!(
            state.processes[&7]
                .regions
                .values()
                .all(|region| region.accessed == 0)
        );
        if round < 4 {
            continue;
        }
        assert!(
            state.written.is_empty(),
            "clear_refs would hold the lock for {:?}",
            512 * 512 * state.clear_cost
        );
        for (ranges, _) in &state.advised {
            let pages: u64 = ranges
                .iter()
                .map(|range| (range.end - range.start) / 4096)
                .sum();
            assert!(
                state.clear_cost * u32::try_from(pages).unwrap() <= bound,
                "{pages} pages in one hold"
            );
        }
    }
}

#[test]
fn a_small_process_is_cleared_by_clear_refs_and_an_idle_one_not_at_all() {
    let (kernel, mut machine, _) = observed(2);
    kernel.state().written.clear();
    machine.observe().unwrap();
    assert!(kernel.state().written.is_empty(), "nothing was accessed");
    kernel
        .state()
        .processes
        .get_mut(&7)
        .unwrap()
        .regions
        .get_mut(&START)
        .unwrap()
        .accessed = 3;
    machine.observe().unwrap();
    assert_eq!(kernel.state().written.len(), 1);
    assert!(kernel.state().advised.is_empty());
}

#[test]
fn a_turn_clears_its_own_regions_and_no_others() {
    // Of a size at which all could be cleared within the lock bound, yet not within the share of a core.
    const COUNT: u64 = 300;
    let per_page = Duration::from_nanos(42);
    let interval = Duration::from_secs(4);
    let share = interval.mul_f64(0.001);
    let whole = per_page * 512 * 300;
    assert!(whole < MachineOptions::default().lock_bound && whole > share);
    let (kernel, mut machine, _) = observed(COUNT);
    kernel.state().clear_cost = per_page;
    for _ in 0..6 {
        let started = {
            let mut state = kernel.state();
            for region in state.processes.get_mut(&7).unwrap().regions.values_mut() {
                region.accessed = 512;
            }
            state.written.clear();
            state.now += interval;
            state.now
        };
        let seen = machine.observe().unwrap();
        assert!(
            seen.processes[0]
                .regions
                .iter()
                .all(|region| region.accessed == 512)
        );
        let state = kernel.state();
        assert!(state.written.is_empty(), "clear_refs clears all");
        assert!(state.now - started <= share, "{:?}", state.now - started);
        let regions = state.processes[&7].regions.iter();
        let kept: Vec<u64> = regions
            .filter(|(_, region)| region.accessed > 0)
            .map(|(address, _)| address / HUGE % 2)
            .collect();
        assert_eq!(
            kept.len() as u64,
            COUNT / 2,
            "every second one has its turn"
        );
        assert!(kept.iter().all(|parity| *parity == kept[0]));
    }
}

#[test]
fn what_cannot_be_cleared_is_said() {
    let (kernel, mut machine, _) = observed(2);
    machine.set_options(MachineOptions {
        lock_bound: Duration::ZERO,
        ..MachineOptions::default()
    });
    kernel.state().processes.get_mut(&7).unwrap().mappings[0].locked = true;
    kernel
        .state()
        .processes
        .get_mut(&7)
        .unwrap()
        .regions
        .get_mut(&START)
        .unwrap()
        .accessed = 3;
    machine.observe().unwrap();
    assert!(!machine.observe().unwrap().processes[0].accesses_known);
}

#[test]
fn counting_zeros_does_not_make_an_idle_huge_page_look_used() {
    let (kernel, mut machine, process) = observed(1);
    {
        let mut state = kernel.state();
        let region = state
            .processes
            .get_mut(&7)
            .unwrap()
            .regions
            .get_mut(&START)
            .unwrap();
        region.huge = true;
        region.zero_filled = 200;
    }
    let target = RegionRef {
        process,
        region: Region::containing(START),
    };
    assert_eq!(machine.count_zero_filled(target), Some(200));
    assert_eq!(
        kernel.state().advised,
        [(vec![START..START + HUGE], Advice::Cold)]
    );
    let elsewhere = RegionRef {
        process,
        region: Region::containing(0),
    };
    assert_eq!(machine.count_zero_filled(elsewhere), Some(0));
    kernel.state().processes.clear();
    assert_eq!(machine.count_zero_filled(target), None);
}

/// A tracker that clears as it scans, as the module's does.
struct Clearing(FakeKernel);

impl Tracker for Clearing {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Module
    }

    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        self.peek(target, ranges, out)?;
        let mut state = self.0.state();
        for region in state.processes.get_mut(&7).unwrap().regions.values_mut() {
            region.accessed = 0;
        }
        Ok(())
    }

    fn peek(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        FakeTracker(self.0.clone()).scan(target, ranges, out)
    }

    fn clears_itself(&self) -> bool {
        true
    }
}

#[test]
fn a_look_and_an_action_clear_nothing() {
    let kernel = FakeKernel::new();
    let process = kernel.add(7, FakeProcess::with_regions(100, START, 2));
    let host = Host::with_tracker(
        Arc::new(kernel.clone()),
        examination(),
        Box::new(Clearing(kernel.clone())),
    );
    let mut machine = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    machine.observe().unwrap();
    for region in kernel
        .state()
        .processes
        .get_mut(&7)
        .unwrap()
        .regions
        .values_mut()
    {
        region.accessed = 77;
    }
    let regions = [Region::containing(START), Region::containing(START + HUGE)];
    for _ in 0..2 {
        let seen = machine.look(process, &regions).unwrap();
        assert!(seen.iter().all(|region| region.accessed == 77));
    }
    assert_eq!(machine.act(&promote(process, 1)), [PROMOTED]);
    let observed = machine.observe().unwrap();
    assert_eq!(observed.processes[0].regions[1].accessed, 77);
    assert_eq!(machine.look(process, &regions).unwrap()[1].accessed, 0);
}

#[test]
fn a_dry_run_writes_nothing() {
    let kernel = FakeKernel::new();
    let process = kernel.add(7, FakeProcess::with_regions(100, START, 4));
    let boundary = ReadOnly(kernel.clone());
    let mut machine =
        LinuxMachine::new(host(&kernel, Arc::new(boundary)), MachineOptions::default());
    machine.set_targets(vec![process]);
    for _ in 0..3 {
        assert!(!machine.observe().unwrap().processes[0].accesses_known);
    }
    assert_eq!(machine.act(&promote(process, 4)), [Outcome::NotTried; 4]);
    machine.count_zero_filled(RegionRef {
        process,
        region: Region::containing(START),
    });
    assert!(kernel.state().written.is_empty());
    assert!(kernel.state().advised.is_empty());
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let kernel = FakeKernel::new();
    kernel.add(7, FakeProcess::with_regions(100, START, 4));
    kernel.add(
        2,
        FakeProcess {
            flags: 0x0020_0000,
            ..FakeProcess::default()
        },
    );
    let identify = |pid| mega_linux::process::identify(&kernel, pid);
    assert_eq!(identify(7).unwrap().start_time, 100);
    assert!(matches!(identify(2), Err(Error::KernelThread { pid: 2 })));
    assert!(matches!(identify(99), Err(Error::Gone { pid: 99 })));
    for pid in [2, 99] {
        assert_eq!(identify(pid).unwrap_err().to_string().lines().count(), 1);
    }
    let boundary: Arc<dyn Kernel> = Arc::new(kernel.clone());
    let mut machine = LinuxMachine::new(host(&kernel, boundary), MachineOptions::default());
    let process = identify(7).unwrap();
    assert_eq!(machine.eligible_regions(process, None).unwrap().len(), 4);
    assert_eq!(
        machine
            .eligible_regions(process, Some(START..START + HUGE))
            .unwrap()
            .len(),
        1
    );
    assert!(matches!(
        machine.eligible_regions(process, Some(0..HUGE)),
        Err(Error::NotMapped { .. })
    ));
    assert!(matches!(
        machine.eligible_regions(process, Some(START..START + 4096)),
        Err(Error::NotEligible { .. })
    ));
}
