//! `adaptive` promotes what is paid back within the time that a process is expected to live.

use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval};
use mega_core::{Gain, HUGE_PAGE_SIZE, Machine, PAGES_PER_REGION};
use proptest::prelude::*;

use crate::observations::{policy, target};
use crate::tiny_machine::{TinyMachine, Truth, certain};

const REGIONS: u64 = 200;
/// What one promotion takes, in seconds, of the manager and of the program alike.
const ACT: f64 = 5e-3;

/// A program that uses all of its memory, on a machine that can measure what it would gain.
fn machine(gain: Option<Gain>) -> TinyMachine {
    let regions = (0..REGIONS).map(|index| (target(1, index), Truth::base(512, 512)));
    let mut machine = TinyMachine::new(regions);
    machine.costs.act = ACT;
    machine.gains = Some([(1, gain)].into());
    machine
}

/// Runs for so many seconds; returns after how many the first region became huge.
fn first_promotion(
    machine: &mut TinyMachine,
    parameters: &[(&str, f64)],
    seconds: u64,
) -> Option<f64> {
    let policy = policy("adaptive", parameters);
    let mut engine = Engine::new(policy, Budgets::default(), Interval::Auto);
    let start = machine.clock;
    while machine.clock < start + Duration::from_secs(seconds) {
        let report = engine.step(machine).unwrap();
        machine.clock += report.next_interval;
    }
    let (moment, ..) = machine.log.first()?;
    Some((*moment - start).as_secs_f64())
}

#[test]
fn a_program_that_gains_nothing_is_left_alone_and_measured_ever_more_seldom() {
    let nothing = certain(0.0, 1.0);
    let mut machine = machine(Some(nothing));
    assert_eq!(first_promotion(&mut machine, &[], 3600), None);
    assert!(machine.measured <= 14, "{} times", machine.measured);
}

/// A measurement is of one process, and a look is at all of them.
#[test]
fn many_programs_are_measured_between_two_dear_looks() {
    const PROGRAMS: u32 = 100;
    const LOOK: f64 = 0.1;
    let of = |pid| (0..50).map(move |index| (target(pid, index), Truth::base(512, 512)));
    let regions = (1..=PROGRAMS).flat_map(of);
    let mut machine = TinyMachine::new(regions);
    machine.costs.observe = LOOK;
    machine.idle_cpus = Some(1.0);
    let nothing = Some(certain(0.0, 1.0));
    machine.gains = Some((1..=PROGRAMS).map(|pid| (pid, nothing)).collect());
    let mut engine = adaptive();
    let (clock, cpu) = (machine.now(), machine.cpu_time());
    go_on(&mut engine, &mut machine, 120);
    let measured = machine.measured;
    assert!(measured >= PROGRAMS as usize, "{measured} measured");
    let used = (machine.cpu_time() - cpu).as_secs_f64() / (machine.now() - clock).as_secs_f64();
    assert!(used < 0.04, "{used} of a core");
}

/// Where a CPU is idle, a promotion costs nobody anything while the program rests.
#[test]
fn a_program_that_rests_while_it_is_measured_is_measured_again() {
    let mut machine = machine(Some(certain(0.0, 0.0)));
    machine.idle_cpus = Some(1.0);
    let mut engine = adaptive();
    go_on(&mut engine, &mut machine, 60);
    assert_eq!(machine.huge_pages(1), 0);
    machine.gains = Some([(1, Some(certain(0.3, 1.0)))].into());
    go_on(&mut engine, &mut machine, 120);
    assert_eq!(machine.huge_pages(1) as u64, REGIONS);
}

/// Nobody has measured or watched it by then, and that it rested says nothing of what it uses at work.
#[test]
fn a_program_that_comes_to_work_is_promoted() {
    let mut machine = machine(Some(certain(0.3, 1.0)));
    machine.idle_cpus = Some(1.0);
    let mut engine = adaptive();
    machine.resting.insert(target(1, 0).process);
    go_on(&mut engine, &mut machine, 60);
    assert_eq!(machine.measured, 0, "it rests");
    machine.resting.clear();
    go_on(&mut engine, &mut machine, 60);
    assert_eq!(machine.huge_pages(1) as u64, REGIONS);
}

/// It goes over all of its memory in each interval, and all the time over a tenth.
#[test]
fn what_is_hot_is_promoted_where_all_would_be_too_dear() {
    let hot = (0..REGIONS / 10).map(|region| (target(1, region), PAGES_PER_REGION));
    for (in_moment, promoted) in [(None, 0), (Some(hot.collect()), REGIONS / 10)] {
        let mut machine = machine(Some(certain(1e-4, 1.0)));
        machine.costs.act = 0.6e-3;
        machine.idle_cpus = Some(1.0);
        machine.in_moment = in_moment;
        let mut engine = adaptive();
        for _ in 0..60 {
            engine.step(&mut machine).unwrap();
            machine.clock += Duration::from_secs(10);
        }
        assert_eq!(machine.huge_pages(1) as u64, promoted);
    }
}

/// No region is worth more than another then, and to look would only keep promotions waiting.
#[test]
fn who_uses_all_of_its_memory_is_not_glanced_at() {
    let mut machine = machine(Some(certain(0.01, 1.0)));
    machine.uncleared.insert(target(1, 0).process);
    let all = (0..REGIONS).map(|region| (target(1, region), PAGES_PER_REGION));
    machine.in_moment = Some(all.collect());
    go_on(&mut adaptive(), &mut machine, 600);
    assert_eq!(machine.huge_pages(1) as u64, REGIONS);
    assert_eq!(machine.glances, 0);
}

/// By the next interval it would have lost ten seconds of its gain.
#[test]
fn a_program_that_comes_to_be_watched_is_looked_at_soon() {
    let mut machine = machine(Some(certain(5e-4, 1.0)));
    machine.costs.act = 0.6e-3;
    machine.in_moment = Some((0..20).map(|region| (target(1, region), 512)).collect());
    let mut engine = adaptive();
    let start = machine.clock;
    let (mut last, mut was_unwatched) = (Duration::ZERO, false);
    let soon = loop {
        let report = engine.step(&mut machine).unwrap();
        let is_unwatched = !machine.unwatched.is_empty();
        if was_unwatched && !is_unwatched {
            break last;
        }
        (last, was_unwatched) = (report.next_interval, is_unwatched);
        machine.clock += last;
        assert!(machine.clock < start + Duration::from_secs(600));
    };
    assert!(
        machine.clock > start + Duration::from_secs(20),
        "it settled"
    );
    assert!(soon < Duration::from_secs(1), "{soon:?}");
    // What it accessed before says nothing, and the glance all.
    assert!((1..=20).contains(&machine.huge_pages(1)));
}

/// By the clock it would be measured again when it is two hours old.
#[test]
fn a_program_that_rested_for_an_hour_is_promoted_soon_once_it_works() {
    let mut machine = machine(Some(certain(0.0, 0.0)));
    machine.idle_cpus = Some(1.0);
    let mut engine = adaptive();
    let had = Duration::from_secs(3);
    machine.cpu_times.insert(1, had);
    go_on(&mut engine, &mut machine, 3600);
    assert_eq!(machine.measured, 1, "it rests");
    assert_eq!(machine.huge_pages(1), 0);
    machine.gains = Some([(1, Some(certain(0.3, 1.0)))].into());
    let works_from = machine.clock;
    while machine.clock < works_from + Duration::from_secs(30) {
        let worked = had + (machine.clock - works_from);
        machine.cpu_times.insert(1, worked);
        go_on(&mut engine, &mut machine, 1);
    }
    assert_eq!(machine.huge_pages(1) as u64, REGIONS);
}

#[test]
fn a_program_whose_gain_nobody_can_tell_is_promoted_as_before() {
    let mut unknown = machine(None);
    unknown.gains = None;
    for mut machine in [machine(None), unknown] {
        assert!(first_promotion(&mut machine, &[], 10).unwrap() < 3.0);
        assert_eq!(machine.huge_pages(1) as u64, REGIONS);
    }
}

#[test]
fn what_was_measured_is_reported_with_its_age() {
    let gain = Gain {
        working_set: REGIONS * HUGE_PAGE_SIZE,
        ..certain(0.3, 2.0)
    };
    let mut machine = machine(Some(gain));
    let mut engine = adaptive();
    let mut known = Vec::new();
    for _ in 0..20 {
        let report = engine.step(&mut machine).unwrap();
        known.push(report.processes[0].gain);
        machine.clock += Duration::from_secs(1);
    }
    let first = known.iter().flatten().next().unwrap();
    assert_eq!((first.gain, first.ago), (gain, Duration::ZERO));
    // Before it is measured nothing is said, and afterwards it stands and ages.
    assert_eq!(known[0], None);
    let last = known[19].unwrap();
    assert_eq!(last.gain, gain);
    assert!(last.ago > Duration::from_secs(10), "{:?}", last.ago);
    machine.regions.clear();
    assert!(engine.step(&mut machine).unwrap().processes.is_empty());
}

#[test]
fn the_horizon_bounds_what_is_waited_for() {
    let little = certain(0.01, 1.0);
    // 0.6 ms for each of 200 regions, at 10 ms a second, take 12 s to be paid back. Some more pass
    // until it is worth while to find out what is accessed, and up to two of the longest intervals.
    let wait = first_promotion(&mut machine(Some(little)), &[], 600).unwrap();
    assert!((11.0..40.0).contains(&wait), "{wait}");
    let horizon = [("payback_horizon", 10.0)];
    assert_eq!(
        first_promotion(&mut machine(Some(little)), &horizon, 600),
        None
    );
}

#[test]
fn a_program_that_was_there_before_mega_is_as_old_as_it_is() {
    // 0.6 ms for each of 200 regions, at 4 ms a second, take 30 s to be paid back.
    let within_20_s = |age: u64| {
        let mut machine = machine(Some(certain(4e-3, 1.0)));
        machine.age = Duration::from_secs(age);
        first_promotion(&mut machine, &[], 20)
    };
    assert_eq!(within_20_s(0), None);
    assert!(within_20_s(3600).unwrap() < 5.0);
}

/// Takes steps for so many seconds.
fn go_on(engine: &mut Engine, machine: &mut TinyMachine, seconds: u64) {
    let end = machine.clock + Duration::from_secs(seconds);
    while machine.clock < end {
        let report = engine.step(machine).unwrap();
        machine.clock += report.next_interval;
    }
}

fn adaptive() -> Engine {
    Engine::new(policy("adaptive", &[]), Budgets::default(), Interval::Auto)
}

fn all_are_huge(machine: &TinyMachine) -> bool {
    // What is left of less than the TLB holds is not worth it: three regions at most.
    machine.huge_pages(1) as u64 >= REGIONS - 3
}

#[test]
fn waiting_for_a_cpu_is_no_price() {
    // 50 us a second for each region: 1 ms is paid back in 20 s, 50 ms would be in 1000 s.
    let mut machine = machine(Some(certain(0.01, 1.0)));
    machine.idle_cpus = Some(0.0);
    machine.costs.act = 1e-3;
    machine.costs.wait = 50e-3;
    go_on(&mut adaptive(), &mut machine, 120);
    assert!(all_are_huge(&machine));
    // The same time of a CPU is one.
    let mut dear = self::machine(machine.gains.as_ref().unwrap()[&1]);
    dear.idle_cpus = Some(0.0);
    dear.costs.act = 51e-3;
    go_on(&mut adaptive(), &mut dear, 120);
    assert!(!all_are_huge(&dear));
}

#[test]
fn blocks_that_are_not_backed_are_a_price_where_no_cpu_is_idle() {
    // At 10 ms a second, 0.6 ms for each of 200 regions are paid back in 12 s, and 5 ms more in 112 s. A few tell that.
    for (idle, wanted) in [(1.0, 11.0..40.0), (0.0, 80.0..300.0)] {
        let mut machine = machine(Some(certain(0.01, 1.0)));
        machine.idle_cpus = Some(idle);
        machine.costs.block = 5e-3;
        let start = machine.clock;
        go_on(&mut adaptive(), &mut machine, 600);
        let wait = (machine.log[20].0 - start).as_secs_f64();
        assert!(wanted.contains(&wait), "{idle} idle: {wait}");
    }
}

#[test]
fn what_stays_dear_is_tried_now_and_then() {
    let mut machine = machine(Some(certain(0.01, 1.0)));
    machine.costs.act = 2.0;
    let mut engine = adaptive();
    go_on(&mut engine, &mut machine, 1200);
    let first = machine.log.len();
    assert!(first > 0 && !all_are_huge(&machine), "{first}");
    go_on(&mut engine, &mut machine, 1200);
    assert!(machine.log.len() > first);
}

#[test]
fn only_what_may_be_promoted_is_watched() {
    // Nothing is gained, or it is paid back only after 120 s, or soon.
    for (share, seconds, watched) in [(0.0, 600, false), (1e-3, 100, false), (0.3, 6, true)] {
        let mut machine = machine(Some(certain(share, 1.0)));
        machine.idle_cpus = Some(0.0);
        machine
            .regions
            .values_mut()
            .for_each(|truth| truth.used = 256);
        go_on(&mut adaptive(), &mut machine, seconds);
        assert_eq!(machine.unwatched.is_empty(), watched, "{share}");
        assert_eq!(machine.log.is_empty(), !watched, "{share}");
    }
}

#[test]
fn where_blocks_turn_out_dear_nobody_is_watched() {
    // At 10 ms a second, 0.6 ms for each of 200 regions are paid back in 12 s, and 5 ms more in 112 s.
    for (block, watched) in [(0.0, true), (5e-3, false)] {
        let mut machine = machine(Some(certain(0.01, 1.0)));
        machine.idle_cpus = Some(0.0);
        machine.costs.block = block;
        machine
            .regions
            .values_mut()
            .for_each(|truth| truth.used = 256);
        go_on(&mut adaptive(), &mut machine, 60);
        assert_eq!(machine.unwatched.is_empty(), watched, "{block}");
        assert_eq!(machine.log.is_empty(), !watched, "{block}");
    }
}

#[test]
fn what_is_not_accessed_is_not_promoted_though_nobody_watched_at_first() {
    let mut machine = machine(Some(certain(0.3, 1.0)));
    for (index, truth) in machine.regions.values_mut().enumerate() {
        truth.used *= u16::from(index % 4 == 0);
    }
    go_on(&mut adaptive(), &mut machine, 300);
    let promoted: Vec<_> = machine
        .log
        .iter()
        .map(|(_, action, _)| action.target)
        .collect();
    assert_eq!(promoted.len() as u64, REGIONS / 4);
    assert!(
        promoted
            .iter()
            .all(|target| machine.regions[target].used > 0)
    );
}

/// Of what it has mapped a program uses a twentieth, which is worth the more.
#[test]
fn the_gain_is_that_of_what_is_used_though_nobody_watched_at_first() {
    // 0.6 ms for each of ten regions, of 30 ms a second, are paid back at once; for each of 200 it would take 4 s, which is not soon.
    let mut machine = machine(Some(certain(0.03, 1.0)));
    machine.idle_cpus = Some(0.0);
    machine.costs.act = 0.6e-3;
    for (index, truth) in machine.regions.values_mut().enumerate() {
        truth.used *= u16::from(index % 20 == 0);
    }
    go_on(&mut adaptive(), &mut machine, 4);
    assert_eq!(machine.huge_pages(1), 10);
}

#[test]
fn what_turns_out_dear_is_decided_anew() {
    // By the usual price it is paid back in 1.2 s, by the true one in 12 s.
    let mut machine = machine(Some(certain(0.1, 1.0)));
    machine.idle_cpus = Some(0.0);
    machine.costs.act = 6e-3;
    let mut engine = adaptive();
    go_on(&mut engine, &mut machine, 8);
    assert!(machine.huge_pages(1) < 62, "{}", machine.huge_pages(1));
    go_on(&mut engine, &mut machine, 120);
    assert!(all_are_huge(&machine));
}

proptest! {
    /// However dear promotions were for a while, on a busy machine: once they are so no more, all that pays is promoted.
    #[test]
    fn a_time_of_dear_promotions_locks_nobody_out(
        share in 0.005..0.1_f64, dear in 0.05..0.5_f64, seconds in 1..300_u64, idle in 0.0..1.0_f64,
    ) {
        let mut machine = machine(Some(certain(share, 1.0)));
        machine.idle_cpus = Some(idle);
        machine.costs.act = dear;
        let mut engine = adaptive();
        go_on(&mut engine, &mut machine, seconds);
        machine.costs.act = 0.6e-3;
        go_on(&mut engine, &mut machine, 1800);
        prop_assert!(all_are_huge(&machine), "{} of {REGIONS}", machine.huge_pages(1));
    }

    /// Whenever a program ends that has lived for five seconds, huge pages took little more of its time than they saved.
    #[test]
    fn a_program_that_ends_at_any_time_has_lost_little(share in 0.001..0.6_f64, cpus in 0.2..4.0_f64) {
        let price = 0.6e-3;
        let mut machine = machine(Some(certain(share, cpus)));
        machine.idle_cpus = Some(0.0);
        machine.costs.act = price;
        let start = machine.clock;
        go_on(&mut adaptive(), &mut machine, 300);
        let moments = machine.log.iter().map(|(moment, ..)| (*moment - start).as_secs_f64());
        let moments: Vec<f64> = moments.collect();
        for (made, age) in moments.iter().enumerate().filter(|(_, age)| **age >= 5.0) {
            let saved: f64 = moments[..made].iter().map(|moment| age - moment).sum();
            let saved = saved / REGIONS as f64 * share * cpus;
            let spent = made as f64 * price * cpus.max(1.0);
            prop_assert!(spent - saved <= 0.0125 * cpus * age, "{} s of {age} s", spent - saved);
        }
    }

    /// Nothing is promoted before the program has lived as long as it takes to be paid back, and what has lived much longer
    /// is promoted.
    #[test]
    fn a_program_lives_to_be_paid_back(share in 0.0..1.0_f64, cpus in 0.1..4.0_f64, idle in 0.0..2.0_f64) {
        let mut machine = machine(Some(certain(share, cpus)));
        let saved = share * cpus;
        machine.idle_cpus = Some(idle);
        let seconds = 200;
        let moment = first_promotion(&mut machine, &[], seconds);
        // Before the first promotion nobody knows what one takes: 0.6 ms is thought.
        let price = REGIONS as f64 * 0.6e-3 * cpus;
        if let Some(moment) = moment {
            prop_assert!(moment * saved >= price * 0.9, "{moment} s");
        }
        let dearest = REGIONS as f64 * 0.6e-3 * (cpus + 1.0);
        if moment.is_none() {
            prop_assert!(saved * seconds as f64 / 3.0 < dearest, "never");
        }
    }
}
