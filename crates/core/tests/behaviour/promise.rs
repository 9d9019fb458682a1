//! A promise of coverage over a policy.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval};
use mega_core::promotion::{Parameters, Policy, build, registry, with_promise};
use mega_core::{ActionKind, Cause, Counted, FailureMemory, Gain, Observation, Outcome, PageSize};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::observations::target;
use crate::tiny_machine::{TinyMachine, Truth, certain};

/// What is in huge pages of one process, of what is resident.
fn coverage(machine: &TinyMachine, pid: u32) -> f64 {
    let of_it = machine
        .regions
        .iter()
        .filter(|(target, _)| target.process.pid == pid);
    let (huge, resident) = of_it.fold((0.0, 0.0), |(huge, resident), (_, truth)| {
        let pages = f64::from(truth.resident);
        (
            huge + if truth.huge { pages } else { 0.0 },
            resident + pages,
        )
    });
    if resident > 0.0 { huge / resident } else { 1.0 }
}

/// Takes steps under a policy with a promise.
fn run(machine: &mut TinyMachine, policy: &str, least: f64, steps: usize) {
    let policy = with_promise(build(policy, &Parameters::new()).unwrap(), least);
    take_steps(machine, policy, Duration::from_secs(5).into(), steps);
}

fn take_steps(
    machine: &mut TinyMachine,
    policy: Box<dyn Policy>,
    interval: Interval,
    steps: usize,
) {
    let mut engine = Engine::new(policy, Budgets::default(), interval);
    for _ in 0..steps {
        let report = engine.step(machine).unwrap();
        machine.clock += report.next_interval;
    }
}

#[test]
fn what_the_policy_would_leave_alone_is_promoted_the_fullest_first() {
    let regions = (0..10).map(|index| {
        let mapped = if index < 6 { 512 } else { 100 };
        (target(1, index), Truth::base(mapped, 0))
    });
    let mut machine = TinyMachine::new(regions);
    run(&mut machine, "base", 0.5, 3);
    assert!(coverage(&machine, 1) >= 0.5, "{}", coverage(&machine, 1));
    let promoted: Vec<_> = machine
        .log
        .iter()
        .filter(|(_, action, _)| action.kind == ActionKind::Promote)
        .map(|(_, action, _)| action.target)
        .collect();
    // Half of 6 whole regions and of 4 fifths.
    assert_eq!(promoted, [0, 1, 2, 3].map(|index| target(1, index)));
}

#[test]
fn only_what_counts_is_promoted_and_kept() {
    let regions = (0..10).map(|index| (target(1, index), Truth::base(512, 0)));
    let mut machine = TinyMachine::new(regions);
    let range = |from: u64, to: u64| target(1, from).region.start()..target(1, to).region.start();
    // Of two pieces given in any order, the last four regions.
    let counted = Counted::new(vec![range(8, 10), range(6, 8)]);
    machine.counted.insert(target(1, 0).process, counted);
    run(&mut machine, "base", 1.0, 3);
    let huge: Vec<_> = machine
        .regions
        .iter()
        .filter(|(_, truth)| truth.huge)
        .map(|(target, _)| *target)
        .collect();
    assert_eq!(huge, [6, 7, 8, 9].map(|index| target(1, index)));

    let report = Engine::new(
        with_promise(build("base", &Parameters::new()).unwrap(), 1.0),
        Budgets::default(),
        Duration::from_secs(5),
    )
    .step(&mut machine)
    .unwrap();
    let summary = report.processes[0];
    assert_eq!(
        (summary.counted.mapped, summary.counted.huge),
        (8 << 20, 8 << 20)
    );
    assert_eq!(
        (summary.mapped_bytes, summary.huge_bytes),
        (20 << 20, 8 << 20)
    );
    assert!(summary.reaches(1.0));
}

#[test]
fn others_take_the_place_of_what_fails() {
    let regions = (0..10).map(|index| (target(1, index), Truth::base(512, 0)));
    let mut machine = TinyMachine::new(regions);
    for index in 0..5 {
        machine.failures.insert(target(1, index), Cause::Busy);
    }
    run(&mut machine, "base", 0.5, 4);
    assert!(coverage(&machine, 1) >= 0.5, "{}", coverage(&machine, 1));
}

#[test]
fn what_is_in_swap_is_not_read_back_for_it() {
    let mut machine = TinyMachine::new([(target(1, 0), Truth::base(300, 0))]);
    machine.swapped.insert(target(1, 0), 10);
    run(&mut machine, "base", 1.0, 3);
    assert!(machine.log.is_empty(), "{:?}", machine.log);
}

prop_compose! {
    fn machine()(
        truths in vec((1..=3_u32, 1..=512_u16, any::<bool>()), 1..60),
        others in 0..64_u64,
    ) -> TinyMachine {
        let regions: BTreeMap<_, _> = (0..)
            .zip(truths)
            .map(|(index, (pid, mapped, huge))| {
                let truth = if huge { Truth::huge(mapped, 0) } else { Truth::base(mapped, 0) };
                (target(pid, index), truth)
            })
            .collect();
        let mut machine = TinyMachine::new(regions);
        // From much memory to almost none available: policies then demote.
        machine.others = others << 30;
        machine
    }
}

/// What each process would gain, where the machine can measure that.
fn gains() -> impl Strategy<Value = Option<BTreeMap<u32, Option<Gain>>>> {
    let gain = (0.0..0.2_f64).prop_map(|saved| certain(saved, 1.0));
    option::of(vec(option::of(gain), 3).prop_map(|gains| (1..).zip(gains).collect()))
}

proptest! {
    #[test]
    fn it_is_kept_under_every_policy(mut machine in machine(), least in 0.0..=1.0_f64) {
        for info in registry() {
            run(&mut machine, info.name, least, 6);
            for pid in 1..=3 {
                let found = coverage(&machine, pid);
                prop_assert!(found >= least - 1e-9, "{}: {found} of {least}", info.name);
            }
        }
    }

    /// At an interval of its own choice, and where it can have measured what processes would gain, too.
    #[test]
    fn a_promise_of_nothing_changes_nothing(mut machine in machine(), gains in gains(), is_auto in any::<bool>()) {
        machine.gains = gains;
        let interval = if is_auto { Interval::Auto } else { Duration::from_secs(5).into() };
        for info in registry() {
            let policy = || build(info.name, &Parameters::new()).unwrap();
            let (mut alone, mut promised) = (machine.clone(), machine.clone());
            take_steps(&mut promised, with_promise(policy(), 0.0), interval, 12);
            take_steps(&mut alone, policy(), interval, 12);
            prop_assert_eq!(&promised.log, &alone.log, "{}", info.name);
            prop_assert_eq!(promised.measured, alone.measured, "{}", info.name);
        }
    }

    #[test]
    fn no_action_is_wanted_twice(mut machine in machine(), least in 0.0..=1.0_f64) {
        use mega_core::Machine;
        let mut observation: Observation = machine.observe().unwrap();
        observation.normalise();
        for info in registry() {
            let mut policy = with_promise(build(info.name, &Parameters::new()).unwrap(), least);
            let mut actions = policy.decide(&observation, &FailureMemory::default());
            let count = actions.len();
            for action in &actions {
                let region = observation.region(action.target).unwrap();
                let is_promotion = action.kind == ActionKind::Promote;
                prop_assert!(!is_promotion || region.page_size == PageSize::Base);
                policy.learn(action, Outcome::Failed(Cause::Busy));
            }
            actions.sort();
            actions.dedup();
            prop_assert_eq!(actions.len(), count, "{}", info.name);
        }
    }
}
