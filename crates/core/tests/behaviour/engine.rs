//! The engine on a machine that knows its own truth.

use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval, StepReport};
use mega_core::{ActionKind, Cause, HUGE_PAGE_SIZE, Machine, Outcome, RegionRef};

use crate::observations::{policy, target};
use crate::stubborn::Stubborn;
use crate::tiny_machine::{Costs, TinyMachine, Truth};

const INTERVAL: Duration = Duration::from_secs(5);

fn engine(name: &str, budgets: Budgets) -> Engine {
    Engine::new(policy(name, &[]), budgets, INTERVAL)
}

/// Takes `steps` steps, waiting as long between them as the engine asks for.
fn run(engine: &mut Engine, machine: &mut TinyMachine, steps: usize) -> Vec<StepReport> {
    let mut reports = Vec::new();
    for _ in 0..steps {
        let report = engine.step(machine).unwrap();
        machine.clock += report.next_interval;
        reports.push(report);
    }
    reports
}

/// `count` regions of process `pid`, mapped whole and in use.
fn in_use(pid: u32, count: u64) -> impl Iterator<Item = (RegionRef, Truth)> {
    (0..count).map(move |index| (target(pid, index), Truth::base(512, 512)))
}

#[test]
fn promotes_what_is_in_use_and_says_what_it_did() {
    let mut machine = TinyMachine::new(in_use(1, 100));
    let mut engine = engine("adaptive", Budgets::default());
    let reports = run(&mut engine, &mut machine, 4);
    assert_eq!(machine.huge_pages(1), 100);
    let totals = engine.totals();
    assert_eq!(
        (
            totals.steps,
            totals.done[ActionKind::Promote],
            totals.failed()
        ),
        (4, 100, 0)
    );
    assert_eq!(
        (totals.bytes_copied, totals.bloat_bytes_added),
        (100 * HUGE_PAGE_SIZE, 0)
    );
    assert_eq!(
        reports[1].actions.done[ActionKind::Promote],
        100,
        "at the first whole interval"
    );
    let last = &reports[3].processes[0];
    assert_eq!(
        (last.regions, last.huge_bytes, last.accessed_bytes),
        (100, 100 << 21, 100 << 21)
    );
    assert_eq!(reports[3].next_interval, INTERVAL);
}

#[test]
fn a_failed_promotion_is_not_counted_and_not_tried_without_end() {
    let mut machine = TinyMachine::new(in_use(1, 100));
    machine.failures.insert(target(1, 7), Cause::Busy);
    let mut engine = engine("ingens", Budgets::default());
    run(&mut engine, &mut machine, 60);
    let totals = engine.totals();
    assert_eq!(totals.done[ActionKind::Promote], 99);
    let tries = machine
        .log
        .iter()
        .filter(|(_, action, _)| action.target == target(1, 7))
        .count() as u64;
    assert_eq!(
        totals.failures[ActionKind::Promote].get(&Cause::Busy),
        Some(&tries)
    );
    assert!((2..=7).contains(&tries), "tried {tries} times in 60 steps");
    assert!(totals.backed_off > 0);
}

#[test]
fn without_memory_it_asks_rarely_and_serves_the_processes_that_have_some() {
    let mut machine = TinyMachine::new(in_use(1, 1000).chain(in_use(2, 10)));
    for index in 0..1000 {
        machine.failures.insert(target(1, index), Cause::NoMemory);
    }
    let mut engine = engine("adaptive", Budgets::default());
    run(&mut engine, &mut machine, 100);
    assert_eq!((machine.huge_pages(1), machine.huge_pages(2)), (0, 10));
    // One batch of 8 at first, then 4 at a time, ever more rarely.
    let failed = engine.totals().failures[ActionKind::Promote][&Cause::NoMemory];
    assert!((8..40).contains(&failed), "{failed} vain promotions");
    // When there is memory again, it is found out and all are served.
    machine.failures.clear();
    run(&mut engine, &mut machine, 70);
    assert_eq!(machine.huge_pages(1), 1000);
}

#[test]
fn a_copy_budget_too_small_for_all_is_shared_and_kept() {
    let mut machine = TinyMachine::new(
        in_use(1, 1000)
            .chain(in_use(2, 1000))
            .chain(in_use(3, 1000)),
    );
    let budgets = Budgets {
        copy_bytes_per_second: 6 * HUGE_PAGE_SIZE,
        ..Budgets::default()
    };
    let mut engine = engine("adaptive", budgets);
    let reports = run(&mut engine, &mut machine, 6);
    // 30 in each interval of 5 s.
    let each: Vec<u64> = reports
        .iter()
        .map(|report| report.actions.done[ActionKind::Promote])
        .collect();
    assert_eq!(each, [0, 30, 30, 30, 30, 30]);
    assert_eq!([1, 2, 3].map(|pid| machine.huge_pages(pid)), [50, 50, 50]);
    assert_eq!(reports[1].actions.deferred_by_budget, 2970);
}

#[test]
fn a_slow_machine_stops_early_and_keeps_the_cpu_share() {
    let mut machine = TinyMachine::new(in_use(1, 2000));
    machine.costs = Costs {
        observe: 0.01,
        inspect: 0.01,
        act: 0.05,
        wait: 0.0,
        block: 0.0,
    };
    let start = machine.now();
    let mut engine = engine(
        "adaptive",
        Budgets {
            cpu_share: 0.1,
            ..Budgets::default()
        },
    );
    run(&mut engine, &mut machine, 100);
    let elapsed = (machine.now() - start).as_secs_f64();
    let used = machine.cpu_time().as_secs_f64();
    // What the account holds at first comes on top.
    assert!(used <= 0.1 * (elapsed + 120.0), "{used} s of {elapsed} s");
    assert!(
        used > 0.05 * elapsed,
        "{used} s of {elapsed} s: the budget is there to be used"
    );
    assert!(engine.totals().done[ActionKind::Promote] > 0);
}

/// Looks as often as the engine asks for until the clock has gone on by `time`; returns how often that was.
fn run_for(engine: &mut Engine, machine: &mut TinyMachine, time: Duration) -> usize {
    let end = machine.clock + time;
    let mut looks = 0;
    while machine.clock < end {
        looks += run(engine, machine, 1).len();
    }
    looks
}

#[test]
fn a_new_program_is_promoted_within_seconds_and_then_looked_at_seldom() {
    let mut machine = TinyMachine::new(in_use(1, 2000));
    let mut engine = Engine::new(policy("adaptive", &[]), Budgets::default(), Interval::Auto);
    // 2000 promotions of a millisecond, and as much time for the program in between.
    run_for(&mut engine, &mut machine, Duration::from_secs(6));
    assert_eq!(machine.huge_pages(1), 2000);
    run_for(&mut engine, &mut machine, Duration::from_secs(60));
    let looks = run_for(&mut engine, &mut machine, Duration::from_secs(300));
    assert!(looks <= 31, "{looks}");
    // What comes anew is seen to at once, and what was promoted is not lost over it.
    machine.regions.extend(in_use(2, 1000));
    run_for(&mut engine, &mut machine, Duration::from_secs(15));
    assert_eq!((machine.huge_pages(1), machine.huge_pages(2)), (2000, 1000));
}

#[test]
fn the_papers_policies_are_asked_at_equal_intervals() {
    let mut machine = TinyMachine::new(in_use(1, 100));
    let mut engine = Engine::new(policy("ingens", &[]), Budgets::default(), Interval::Auto);
    let reports = run(&mut engine, &mut machine, 5);
    assert!(
        reports
            .iter()
            .all(|report| report.next_interval == Interval::EQUAL)
    );
    engine.replace_policy(policy("adaptive", &[]));
    let reports = run(&mut engine, &mut machine, 1);
    assert!(reports[0].next_interval < Interval::EQUAL);
}

#[test]
fn while_one_program_runs_on_another_is_promoted() {
    let both = || TinyMachine::new(in_use(1, 400).chain(in_use(2, 400)));
    let time = |standstill| {
        let mut machine = both();
        let budgets = Budgets {
            standstill,
            ..Budgets::default()
        };
        let mut engine = Engine::new(policy("ingens", &[]), budgets, INTERVAL);
        let start = machine.clock;
        run(&mut engine, &mut machine, 1);
        assert_eq!(machine.huge_pages(1) + machine.huge_pages(2), 800);
        (machine.clock - start - INTERVAL).as_secs_f64()
    };
    assert!(time(0.5) < 1.1 * time(1.0));
    assert!(time(0.25) > 1.8 * time(1.0));
}

#[test]
fn a_step_ends_in_time_and_the_next_goes_on_at_once() {
    let mut machine = TinyMachine::new(in_use(1, 2000));
    let mut engine = Engine::new(policy("adaptive", &[]), Budgets::default(), Interval::Auto);
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let before = machine.clock;
        let report = engine.step(&mut machine).unwrap();
        longest = longest.max(machine.clock - before);
        let left = report.actions.deferred_by_budget > 0;
        assert_eq!(
            left,
            report.next_interval.is_zero(),
            "at once where more is to do"
        );
        machine.clock += report.next_interval;
    }
    assert!(longest < Duration::from_millis(2100), "{longest:?}");
    assert_eq!(machine.huge_pages(1), 2000);
}

#[test]
fn observing_over_budget_stretches_the_interval_and_still_leaves_something_to_act_with() {
    let mut machine = TinyMachine::new(in_use(1, 50));
    machine.costs = Costs {
        observe: 2.0,
        inspect: 0.001,
        act: 0.001,
        wait: 0.0,
        block: 0.0,
    };
    let start = machine.now();
    let mut engine = engine(
        "adaptive",
        Budgets {
            cpu_share: 0.1,
            ..Budgets::default()
        },
    );
    let reports = run(&mut engine, &mut machine, 20);
    assert!(
        reports[0].next_interval >= Duration::from_secs(20),
        "{:?}",
        reports[0].next_interval
    );
    let elapsed = (machine.now() - start).as_secs_f64();
    assert!(machine.cpu_time().as_secs_f64() <= 0.1 * (elapsed + 120.0));
    assert_eq!(machine.huge_pages(1), 50);
}

#[test]
fn neighbours_go_to_the_machine_together() {
    let mut machine = TinyMachine::new(in_use(1, 64));
    machine.costs.act = 1e-4;
    let mut engine = engine("adaptive", Budgets::default());
    run(&mut engine, &mut machine, 3);
    // Ever more, since the first tell what the next cost.
    let sizes: Vec<usize> = machine.batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 8, 16, 32, 4]);
    assert!(
        machine
            .batches
            .iter()
            .all(|batch| batch.is_sorted_by_key(|action| action.target))
    );
}

/// How much of its memory a region uses, scattered over a heap: the hottest are nowhere in particular.
fn scattered(index: u64) -> u16 {
    u16::try_from(33 + index * 7919 % 480).unwrap()
}

#[test]
fn the_hottest_regions_of_a_contiguous_heap_come_first() {
    let heap = (0..1000).map(|index| (target(1, index), Truth::base(512, scattered(index))));
    let mut machine = TinyMachine::new(heap);
    let budgets = Budgets {
        copy_bytes_per_second: 2 * HUGE_PAGE_SIZE,
        ..Budgets::default()
    };
    let mut engine = engine("adaptive", budgets);
    run(&mut engine, &mut machine, 4);
    let is_huge = |huge| move |truth: &&Truth| truth.huge == huge;
    let used = |truth: &Truth| truth.used;
    let promoted = machine.regions.values().filter(is_huge(true)).map(used);
    let left = machine.regions.values().filter(is_huge(false)).map(used);
    assert_eq!(promoted.clone().count(), 30, "10 in each interval of 5 s");
    // `adaptive` ranks in steps of 32 base pages.
    let (coldest, hottest) = (promoted.min().unwrap(), left.max().unwrap());
    assert!(
        coldest / 32 >= hottest / 32,
        "promoted {coldest}, left {hottest}"
    );
}

#[test]
fn what_turns_out_cheaper_than_thought_is_done_in_one_step() {
    // 2000 promotions of 0.4 ms fit 1.25 s of CPU; 5 ms, as thought at first, would allow 250.
    let mut machine = TinyMachine::new(in_use(1, 2000));
    machine.costs.act = 0.4e-3;
    let mut engine = engine("ingens", Budgets::default());
    let reports = run(&mut engine, &mut machine, 1);
    assert_eq!(reports[0].actions.done[ActionKind::Promote], 2000);
}

#[test]
fn a_dry_run_counts_each_region_once_as_what_it_would_do() {
    let mut machine = TinyMachine::new(in_use(1, 100));
    machine.dry_run = true;
    let mut engine = engine("adaptive", Budgets::default());
    run(&mut engine, &mut machine, 10);
    let totals = engine.totals();
    assert_eq!(
        (
            totals.left_out[ActionKind::Promote],
            totals.done[ActionKind::Promote],
            totals.bytes_copied
        ),
        (100, 0, 0)
    );
    assert_eq!(machine.huge_pages(1), 0);
}

#[test]
fn outcomes_that_are_missing_count_as_neither() {
    let mut machine = TinyMachine::new(in_use(1, 100));
    machine.swallowed = 1;
    let mut engine = engine("adaptive", Budgets::default());
    run(&mut engine, &mut machine, 5);
    let totals = engine.totals();
    assert_eq!(machine.huge_pages(1), 100);
    assert_eq!(totals.done[ActionKind::Promote] + totals.unreported, 100);
    assert!(totals.unreported > 0);
}

#[test]
fn under_pressure_zero_filled_huge_pages_are_found_and_given_back() {
    let bloated = (0..100).map(|index| (target(1, index), Truth::huge(100, 0)));
    let used = (100..200).map(|index| (target(1, index), Truth::huge(512, 512)));
    let mut machine = TinyMachine::new(bloated.chain(used));
    machine.total = 1 << 30;
    machine.others = (1 << 30) - 400 * HUGE_PAGE_SIZE / 2 - (50 << 20);
    let mut engine = engine("adaptive", Budgets::default());
    let reports = run(&mut engine, &mut machine, 10);
    let totals = engine.totals();
    assert!(machine.available() as f64 >= 0.15 * machine.total as f64);
    assert_eq!(
        totals.bytes_given_back,
        totals.done[ActionKind::Demote] * (412 << 12)
    );
    assert!(
        (1..=100).contains(&totals.done[ActionKind::Demote]),
        "{}",
        totals.done[ActionKind::Demote]
    );
    assert!(
        (100..200).all(|index| machine.regions[&target(1, index)].huge),
        "what is used stays huge"
    );
    let bloat: u64 = reports
        .iter()
        .filter_map(|report| report.processes[0].bloat_bytes)
        .max()
        .unwrap();
    assert_eq!(bloat, 100 * (412 << 12));
}

#[test]
fn shared_memory_that_gives_nothing_back_costs_few_huge_pages_and_stops_nobody_else() {
    // The first process's memory is all zeros too, and would be the first choice.
    let pages =
        |pid, filled| (0..200).map(move |index| (target(pid, index), Truth::huge(filled, 0)));
    let mut machine = TinyMachine::new(pages(1, 0).chain(pages(2, 100)));
    machine.shared.insert(target(1, 0).process);
    machine.total = 2 << 30;
    machine.others = machine.available() - (60 << 20);
    for name in ["adaptive", "hawkeye"] {
        let mut machine = machine.clone();
        let mut engine = engine(name, Budgets::default());
        run(&mut engine, &mut machine, 30);
        let demoted = |pid| 200 - machine.huge_pages(pid);
        assert!((1..40).contains(&demoted(1)), "{name}: {}", demoted(1));
        assert!(demoted(2) > 40, "{name}: {}", demoted(2));
        // Once it gives back, it is found out in time.
        machine.shared.clear();
        machine.others += machine.available() - (60 << 20);
        run(&mut engine, &mut machine, 100);
        assert!(200 - machine.huge_pages(1) > 60, "{name}");
    }
}

#[test]
fn two_runs_of_the_same_are_the_same() {
    let history = || {
        let mixed = (0..400).map(|index| {
            (
                target(index % 3 + 1, u64::from(index)),
                Truth::base(300 + (index % 213) as u16, u16::try_from(index).unwrap()),
            )
        });
        let mut machine = TinyMachine::new(mixed);
        machine.free_blocks = 100;
        machine.failures.insert(target(1, 300), Cause::Busy);
        let mut engine = engine("adaptive", Budgets::default());
        let reports = run(&mut engine, &mut machine, 30);
        (machine.log, reports)
    };
    assert_eq!(history(), history());
}

#[test]
fn what_is_so_already_is_said_and_costs_no_copy_budget() {
    let mut machine =
        TinyMachine::new((0..8).map(|index| (target(1, index), Truth::huge(512, 512))));
    let wanted = (0..8).map(|index| target(1, index)).collect();
    let budgets = Budgets {
        copy_bytes_per_second: 2 * HUGE_PAGE_SIZE,
        ..Budgets::default()
    };
    let mut engine = Engine::new(Box::new(Stubborn(wanted)), budgets, INTERVAL);
    engine.step(&mut machine).unwrap();
    engine.step(&mut machine).unwrap();
    assert_eq!(
        (
            engine.totals().already_so,
            engine.totals().done[ActionKind::Promote]
        ),
        (16, 0)
    );
}

#[test]
fn a_region_that_is_gone_is_forgotten() {
    let mut machine = TinyMachine::new(in_use(1, 1));
    let gone = target(1, 99);
    let mut engine = Engine::new(
        Box::new(Stubborn(vec![gone, gone])),
        Budgets::default(),
        INTERVAL,
    );
    run(&mut engine, &mut machine, 3);
    assert_eq!(
        engine.totals().failures[ActionKind::Promote][&Cause::Gone],
        3,
        "asked for twice, tried once a step"
    );
    assert!(
        machine
            .log
            .iter()
            .all(|(_, _, outcome)| *outcome == Outcome::Failed(Cause::Gone))
    );
}

#[test]
fn what_may_not_be_changed_is_left_alone_as_a_process() {
    let mut machine = TinyMachine::new(in_use(1, 500).chain(in_use(2, 5)));
    for index in 0..500 {
        machine
            .failures
            .insert(target(1, index), Cause::NotPermitted);
    }
    let mut engine = engine("adaptive", Budgets::default());
    run(&mut engine, &mut machine, 60);
    let failed = engine.totals().failures[ActionKind::Promote][&Cause::NotPermitted];
    assert!(failed <= 8, "one batch: {failed}");
    assert_eq!(machine.huge_pages(2), 5);
}

#[test]
fn policy_budgets_and_interval_can_be_changed_on_the_way() {
    let mut machine = TinyMachine::new(in_use(1, 100));
    let mut engine = engine(
        "base",
        Budgets {
            copy_bytes_per_second: 0,
            ..Budgets::default()
        },
    );
    run(&mut engine, &mut machine, 3);
    engine.replace_policy(policy("adaptive", &[]));
    run(&mut engine, &mut machine, 3);
    assert_eq!(
        engine.totals().done[ActionKind::Promote],
        0,
        "no copy budget"
    );
    engine.set_budgets(Budgets::default());
    engine.set_interval(Duration::from_secs(1));
    let reports = run(&mut engine, &mut machine, 3);
    assert_eq!(machine.huge_pages(1), 100);
    assert_eq!(
        (engine.policy_name(), reports[0].next_interval),
        ("adaptive", Duration::from_secs(1))
    );
    assert_eq!(engine.totals().steps, 9);
}
