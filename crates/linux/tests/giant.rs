//! Giant pages on a scripted kernel: made, broken up, seen, and left alone by what must not break them up.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use mega_core::{
    Action, ActionKind, Cause, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Machine, Outcome, PageSize,
    ProcessId, ProcessObservation, RegionRef, Span,
};
use mega_linux::act::giant::GiantPages;
use mega_linux::doctor::{Examination, TrackerChoice};
use mega_linux::kernel::fake::{FakeKernel, FakeModule, FakeProcess, FakeTracker};
use mega_linux::kernel::{Advice, Kernel, ReadOnly};
use mega_linux::module::{Device, interface};
use mega_linux::observe::tracker::{TrackError, TrackedProcess, Tracker, TrackerKind};
use mega_linux::{Host, LinuxMachine, MachineOptions};

const PID: u32 = 7;
/// The mapping begins half a span before the first whole one.
const FIRST_SPAN: u64 = 64 * GIANT_PAGE_SIZE;
const START: u64 = FIRST_SPAN - GIANT_PAGE_SIZE / 2;
/// Two whole spans and half of one at either end.
const REGIONS: u64 = 3 * 512;

/// What a fake kernel's tracker sees, by one that cannot tell giant pages from huge ones.
struct Coarse(FakeTracker);

impl Tracker for Coarse {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Mapped
    }

    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[std::ops::Range<u64>],
        out: &mut Vec<mega_core::RegionObservation>,
    ) -> Result<(), TrackError> {
        self.0.scan(target, ranges, out)?;
        for region in out {
            region.page_size = region.page_size.min(PageSize::Huge);
        }
        Ok(())
    }
}

fn host(boundary: Arc<dyn Kernel>, tracker: Box<dyn Tracker>) -> Host {
    let examination = Examination {
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
    };
    Host::with_tracker(boundary, examination, tracker)
}

/// One process of huge pages.
fn huge_process(kernel: &FakeKernel) -> ProcessId {
    let mut process = FakeProcess::with_regions(100, START, REGIONS);
    for region in process.regions.values_mut() {
        region.huge = true;
    }
    kernel.add(PID, process)
}

/// A machine with giant pages and one process of huge pages, observed once.
fn machine(kernel: &FakeKernel, tracker: Box<dyn Tracker>) -> (LinuxMachine, ProcessId) {
    let process = huge_process(kernel);
    kernel.state().module = Some(FakeModule::with_giant_pages());
    let giant_pages = GiantPages::open(Arc::new(kernel.clone())).unwrap();
    let host = host(Arc::new(kernel.clone()), tracker).with_giant_pages(giant_pages);
    let mut machine = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    assert!(machine.observe().unwrap().giant_pages);
    (machine, process)
}

fn sees_all(kernel: &FakeKernel) -> Box<dyn Tracker> {
    Box::new(FakeTracker(kernel.clone()))
}

/// The whole spans, and the halves below and above them.
fn span(index: usize) -> Span {
    let spans = Span::wholly_inside(
        FIRST_SPAN - GIANT_PAGE_SIZE,
        FIRST_SPAN + 3 * GIANT_PAGE_SIZE,
    );
    spans.skip(1).nth(index).unwrap()
}

fn on_span(kind: ActionKind, process: ProcessId, index: usize) -> Action {
    let region = span(index).first_region();
    Action {
        kind,
        target: RegionRef { process, region },
    }
}

fn act(machine: &mut LinuxMachine, kind: ActionKind, process: ProcessId, index: usize) -> Outcome {
    machine.act(&[on_span(kind, process, index)])[0]
}

/// How many regions each size of page maps.
fn sizes(machine: &mut LinuxMachine) -> [usize; 3] {
    let observed: Vec<ProcessObservation> = machine.observe().unwrap().processes;
    [PageSize::Base, PageSize::Huge, PageSize::Giant].map(|size| {
        observed[0]
            .regions
            .iter()
            .filter(|region| region.page_size == size)
            .count()
    })
}

#[test]
fn a_span_becomes_giant_and_huge_again() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    (kernel.state().giant_moves, kernel.state().giant_exchanges) = (5, 2);
    let (copied, exchanged) = (3 * HUGE_PAGE_SIZE, 2 * HUGE_PAGE_SIZE);
    let mut act = |kind| act(&mut machine, kind, process, 1);
    assert_eq!(act(ActionKind::DemoteGiant), Outcome::AlreadySo);
    assert_eq!(
        act(ActionKind::PromoteGiant),
        Outcome::Remapped { copied, exchanged }
    );
    assert_eq!(act(ActionKind::PromoteGiant), Outcome::AlreadySo);
    assert_eq!(sizes(&mut machine), [0, 1024, 512]);
    let demoted = machine.act(&[on_span(ActionKind::DemoteGiant, process, 1)]);
    assert_eq!(
        demoted,
        [Outcome::Remapped {
            copied: 0,
            exchanged: 0
        }]
    );
    assert_eq!(sizes(&mut machine), [0, 1536, 0]);
}

#[test]
fn base_pages_are_collapsed_only_where_that_is_there_and_may_be() {
    let kernel = FakeKernel::new();
    let process = huge_process(&kernel);
    let promote = |has_it: bool, swap_in: bool| {
        let mut module = FakeModule::with_giant_pages();
        if has_it {
            module.info.features |= interface::FEATURE_COLLAPSE;
        }
        kernel.state().module = Some(module);
        let giant_pages = GiantPages::open(Arc::new(kernel.clone())).unwrap();
        let host = host(Arc::new(kernel.clone()), sees_all(&kernel)).with_giant_pages(giant_pages);
        assert_eq!(host.can_collapse_to_giant(), has_it);
        let options = MachineOptions {
            swap_in,
            ..MachineOptions::default()
        };
        let mut machine = LinuxMachine::new(Arc::new(host), options);
        machine.set_targets(vec![process]);
        machine.observe().unwrap();
        act(&mut machine, ActionKind::PromoteGiant, process, 0)
    };
    {
        let mut state = kernel.state();
        let regions = &mut state.processes.get_mut(&PID).unwrap().regions;
        for (_, region) in regions.range_mut(span(0).start()..).take(2) {
            (region.huge, region.mapped) = (false, 300);
        }
    }
    for (has_it, swap_in) in [(false, true), (true, false)] {
        let not_huge = Outcome::Failed(Cause::NotHuge);
        assert_eq!(promote(has_it, swap_in), not_huge, "{has_it} {swap_in}");
    }
    let once = Outcome::Remapped {
        copied: 2 * HUGE_PAGE_SIZE,
        exchanged: 0,
    };
    assert_eq!(promote(true, true), once);
}

#[test]
fn neighbouring_spans_get_an_outcome_each() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    kernel.state().free_chunks = 1;
    let both = [1, 0].map(|index| on_span(ActionKind::PromoteGiant, process, index));
    let no_memory = Outcome::Failed(Cause::NoMemory);
    assert_eq!(
        machine.act(&both),
        [
            no_memory,
            Outcome::Remapped {
                copied: 0,
                exchanged: 0
            }
        ],
        "in the order asked for, though done by address"
    );
}

#[test]
fn every_refusal_has_its_cause() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    let mut promote = |index| act(&mut machine, ActionKind::PromoteGiant, process, index);
    let change = |how: &dyn Fn(&mut mega_linux::kernel::fake::FakeRegion)| {
        let region = span(0).start() + 5 * HUGE_PAGE_SIZE;
        let mut state = kernel.state();
        how(state
            .processes
            .get_mut(&PID)
            .unwrap()
            .regions
            .get_mut(&region)
            .unwrap());
    };
    assert_eq!(
        promote(2),
        Outcome::Failed(Cause::NotEligible),
        "half of it is not there"
    );
    change(&|region| region.huge = false);
    assert_eq!(promote(0), Outcome::Failed(Cause::NotHuge));
    change(&|region| region.huge = true);
    change(&|region| region.busy = true);
    assert_eq!(promote(0), Outcome::Failed(Cause::Busy));
    change(&|region| region.busy = false);
    kernel.state().free_chunks = 0;
    assert_eq!(promote(0), Outcome::Failed(Cause::NoMemory));
    kernel.state().processes.clear();
    assert_eq!(promote(0), Outcome::Failed(Cause::Gone));
}

#[test]
fn what_the_kernel_says_is_not_believed_but_seen() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    // The program unmaps a page just then.
    kernel
        .state()
        .before_next_advice(|state| state.processes.get_mut(&PID).unwrap().giants.clear());
    let outcome = act(&mut machine, ActionKind::PromoteGiant, process, 0);
    assert_eq!(outcome, Outcome::Failed(Cause::Busy));
}

#[test]
fn a_tracker_that_cannot_tell_is_helped() {
    let kernel = FakeKernel::new();
    let coarse = Box::new(Coarse(FakeTracker(kernel.clone())));
    let (mut machine, process) = machine(&kernel, coarse);
    act(&mut machine, ActionKind::PromoteGiant, process, 1);
    assert_eq!(sizes(&mut machine), [0, 1024, 512]);
}

#[test]
fn observing_does_not_break_a_giant_page_up() {
    for bound in [Duration::from_secs(10), Duration::from_micros(1)] {
        let kernel = FakeKernel::new();
        let (mut machine, process) = machine(&kernel, sees_all(&kernel));
        machine.set_options(MachineOptions {
            lock_bound: bound,
            ..MachineOptions::default()
        });
        act(&mut machine, ActionKind::PromoteGiant, process, 0);
        for _ in 0..3 {
            for region in kernel
                .state()
                .processes
                .get_mut(&PID)
                .unwrap()
                .regions
                .values_mut()
            {
                region.accessed = 512;
            }
            assert_eq!(sizes(&mut machine), [0, 1024, 512]);
        }
        let state = kernel.state();
        let cleared =
            |index: usize| state.processes[&PID].regions[&span(index).start()].accessed == 0;
        assert!(cleared(1), "the others are cleared all the same");
        assert!(
            state
                .advised
                .iter()
                .all(|(_, advice)| *advice == Advice::Cold)
        );
    }
}

/// Has the first `count` regions of a whole span hold nothing but zeros.
fn zero_fill(kernel: &FakeKernel, index: usize, count: u64) {
    let mut state = kernel.state();
    let regions = &mut state.processes.get_mut(&PID).unwrap().regions;
    let from = span(index).start();
    for (_, region) in regions.range_mut(from..from + count * HUGE_PAGE_SIZE) {
        region.zero_filled = 512;
    }
}

#[test]
fn a_span_gives_back_its_zero_filled_huge_pages() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    assert!(machine.observe().unwrap().free_zero);
    act(&mut machine, ActionKind::PromoteGiant, process, 0);
    let mut free_zero = |index| act(&mut machine, ActionKind::FreeZero, process, index);
    assert_eq!(free_zero(0), Outcome::AlreadySo, "nothing is zero-filled");
    assert_eq!(kernel.state().processes[&PID].giants.len(), 1);

    zero_fill(&kernel, 0, 200);
    zero_fill(&kernel, 1, 512);
    let done = |resident_after| Outcome::Done {
        resident_before: GIANT_PAGE_SIZE,
        resident_after,
    };
    assert_eq!(free_zero(0), done(312 * HUGE_PAGE_SIZE));
    assert_eq!(free_zero(1), done(0), "of huge pages all the same");
    assert_eq!(free_zero(0), Outcome::AlreadySo);
    assert_eq!(
        free_zero(1),
        Outcome::Failed(Cause::NotEligible),
        "no huge page is left"
    );
    assert_eq!(
        free_zero(2),
        Outcome::Failed(Cause::NotEligible),
        "half of it is not there"
    );
    assert_eq!(sizes(&mut machine), [0, 1536 - 200 - 512, 0]);
}

#[test]
fn what_is_in_use_is_not_given_back() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    zero_fill(&kernel, 0, 2);
    let set_busy = |index: u64, busy| {
        let address = span(0).start() + index * HUGE_PAGE_SIZE;
        let mut state = kernel.state();
        let regions = &mut state.processes.get_mut(&PID).unwrap().regions;
        regions.get_mut(&address).unwrap().busy = busy;
    };
    set_busy(0, true);
    set_busy(1, true);
    let mut free_zero = || act(&mut machine, ActionKind::FreeZero, process, 0);
    assert_eq!(free_zero(), Outcome::Failed(Cause::Busy));
    set_busy(1, false);
    let one_less = Outcome::Done {
        resident_before: GIANT_PAGE_SIZE,
        resident_after: GIANT_PAGE_SIZE - HUGE_PAGE_SIZE,
    };
    assert_eq!(free_zero(), one_less, "one of them is free to go");
    set_busy(0, false);
    // The program writes there again just then.
    kernel.state().before_next_advice(|state| {
        let process = state.processes.get_mut(&PID).unwrap();
        process.map(span(0).start(), 1);
    });
    assert_eq!(free_zero(), Outcome::Failed(Cause::Busy));
    kernel.state().processes.clear();
    assert_eq!(free_zero(), Outcome::Failed(Cause::Gone));
}

#[test]
fn pairs_are_exchanged_each_by_itself() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    act(&mut machine, ActionKind::PromoteGiant, process, 0);
    zero_fill(&kernel, 0, 1);
    let at = |index: u64| span(0).start() + index * HUGE_PAGE_SIZE;
    let region = |index| kernel.state().processes[&PID].regions[&at(index)];
    let set_busy = |index| {
        let mut state = kernel.state();
        let regions = &mut state.processes.get_mut(&PID).unwrap().regions;
        regions.get_mut(&at(index)).unwrap().busy = true;
    };
    set_busy(3);
    let pair = |first, second| interface::Pair {
        first,
        second,
        ..interface::Pair::default()
    };
    let mut pairs = [
        pair(at(0), at(1)),
        pair(at(2), at(3)),
        pair(at(4), 16 * GIANT_PAGE_SIZE),
    ];
    let mut request = interface::Exchange::default();
    let device = Device::open(Arc::new(kernel.clone())).unwrap();
    let handle = kernel.open_process(PID).unwrap();
    device.exchange(&handle, &mut request, &mut pairs).unwrap();
    assert_eq!(
        pairs.map(|pair| pair.result),
        [
            interface::PAIR_EXCHANGED,
            interface::PAIR_HELD,
            interface::PAIR_NOT_ELIGIBLE
        ]
    );
    assert_eq!(request.exchanged, 1);
    assert_eq!((region(0).zero_filled, region(1).zero_filled), (0, 512));
    assert!(kernel.state().processes[&PID].giants.is_empty());
}

#[test]
fn a_kernel_that_cannot_give_back_is_not_asked() {
    let kernel = FakeKernel::new();
    let process = huge_process(&kernel);
    let mut module = FakeModule::with_giant_pages();
    module.info.features &= !interface::FEATURE_FREE_ZERO;
    kernel.state().module = Some(module);
    let giant_pages = GiantPages::open(Arc::new(kernel.clone())).unwrap();
    assert!(giant_pages.needs_free_zero().is_err());
    let host = host(Arc::new(kernel.clone()), sees_all(&kernel)).with_giant_pages(giant_pages);
    let mut machine = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    let observation = machine.observe().unwrap();
    assert!(observation.giant_pages && !observation.free_zero);
    zero_fill(&kernel, 0, 1);
    let outcome = act(&mut machine, ActionKind::FreeZero, process, 0);
    assert_eq!(outcome, Outcome::Failed(Cause::NotEligible));
}

#[test]
fn a_region_of_a_giant_page_is_demoted_alone() {
    let kernel = FakeKernel::new();
    let (mut machine, process) = machine(&kernel, sees_all(&kernel));
    act(&mut machine, ActionKind::PromoteGiant, process, 0);
    let outcome = act(&mut machine, ActionKind::Demote, process, 0);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    assert_eq!(sizes(&mut machine), [1, 1535, 0]);
}

#[test]
fn without_giant_pages_nothing_is_tried() {
    let kernel = FakeKernel::new();
    let process = huge_process(&kernel);
    let host = host(Arc::new(kernel.clone()), sees_all(&kernel));
    let mut machine = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    assert!(!machine.observe().unwrap().giant_pages);
    for kind in [
        ActionKind::PromoteGiant,
        ActionKind::DemoteGiant,
        ActionKind::FreeZero,
    ] {
        let outcome = act(&mut machine, kind, process, 0);
        assert_eq!(outcome, Outcome::Failed(Cause::NotEligible));
    }
}

#[test]
fn a_dry_run_makes_none() {
    let kernel = FakeKernel::new();
    let process = huge_process(&kernel);
    kernel.state().module = Some(FakeModule::with_giant_pages());
    let boundary = Arc::new(ReadOnly(kernel.clone()));
    let giant_pages = GiantPages::open(boundary.clone()).unwrap();
    let host = host(boundary, sees_all(&kernel)).with_giant_pages(giant_pages);
    let mut machine = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    machine.observe().unwrap();
    let outcome = act(&mut machine, ActionKind::PromoteGiant, process, 0);
    assert_eq!(outcome, Outcome::NotTried);
    assert!(kernel.state().processes[&PID].giants.is_empty());
}
