//! What a step reports of the physical memory that it wanted and did not get.

use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Unmet};
use mega_core::{ActionKind, CgroupMemory, HUGE_PAGE_SIZE, NodeMemory, RegionRef};
use proptest::prelude::*;

use crate::observations::{
    GIB, PLENTY, base, decides, observation, policy, process, promote, target,
};
use crate::stubborn::Stubborn;
use crate::tiny_machine::{TinyMachine, Truth};

const INTERVAL: Duration = Duration::from_secs(5);

fn regions(pid: u32, count: u64, used: u16) -> impl Iterator<Item = (RegionRef, Truth)> {
    (0..count).map(move |index| (target(pid, index), Truth::base(512, used)))
}

fn stubborn(count: u64, budgets: Budgets) -> Engine {
    let wanted = (0..count).map(|index| target(1, index)).collect();
    Engine::new(Box::new(Stubborn(wanted)), budgets, INTERVAL)
}

fn adaptive() -> Engine {
    Engine::new(policy("adaptive", &[]), Budgets::default(), INTERVAL)
}

fn step(engine: &mut Engine, machine: &mut TinyMachine) -> Vec<Unmet> {
    let report = engine.step(machine).unwrap();
    machine.clock += report.next_interval;
    report.unmet
}

fn of_all_memory(free_blocks: u64, blocks: u64) -> Unmet {
    Unmet {
        node: None,
        free_blocks,
        blocks,
        chunks: 0,
    }
}

#[test]
fn what_found_no_memory_is_unmet_also_while_it_is_held_back() {
    let mut machine = TinyMachine::new(regions(1, 100, 512));
    machine.free_blocks = 0;
    let mut engine = stubborn(100, Budgets::default());
    for _ in 0..20 {
        assert_eq!(step(&mut engine, &mut machine), [of_all_memory(0, 100)]);
    }
    assert!(engine.totals().backed_off > 1500);
}

#[test]
fn failures_of_another_cause_lack_nothing() {
    let mut machine = TinyMachine::new(regions(1, 10, 512));
    for index in 0..10 {
        machine
            .failures
            .insert(target(1, index), mega_core::Cause::Busy);
    }
    let mut engine = stubborn(10, Budgets::default());
    for _ in 0..20 {
        assert_eq!(step(&mut engine, &mut machine), []);
    }
}

#[test]
fn demotions_lack_nothing() {
    let bloated = (0..200).map(|index| (target(1, index), Truth::huge(100, 0)));
    let mut machine = TinyMachine::new(bloated);
    machine.others = machine.available() - GIB;
    let budgets = Budgets {
        cpu_share: 0.001,
        ..Budgets::default()
    };
    let mut engine = Engine::new(policy("adaptive", &[]), budgets, INTERVAL);
    for _ in 0..20 {
        assert_eq!(step(&mut engine, &mut machine), []);
    }
    let totals = engine.totals();
    assert!(totals.deferred_by_budget > 0 && totals.done[ActionKind::Demote] > 0);
}

#[test]
fn of_what_a_budget_puts_off_the_next_steps_part_is_unmet() {
    let mut machine = TinyMachine::new(regions(1, 1000, 512));
    machine.free_blocks = 100;
    let budgets = Budgets {
        copy_bytes_per_second: 6 * HUGE_PAGE_SIZE,
        ..Budgets::default()
    };
    let mut engine = stubborn(1000, budgets);
    // 30 in each interval of 5 s.
    assert_eq!(step(&mut engine, &mut machine), [of_all_memory(70, 30)]);
    assert_eq!(step(&mut engine, &mut machine), [of_all_memory(40, 30)]);
    let last = step(&mut engine, &mut machine);
    assert_eq!(last, [of_all_memory(10, 30)]);
    assert_eq!(last[0].blocks_to_empty(), 20);
}

#[test]
fn what_only_the_bar_for_contiguity_keeps_back_is_unmet_until_there_are_blocks() {
    let mut machine = TinyMachine::new(regions(1, 300, 64));
    machine.free_blocks = 0;
    let mut engine = adaptive();
    step(&mut engine, &mut machine);
    let unmet = step(&mut engine, &mut machine);
    assert_eq!(machine.huge_pages(1), 0);
    assert_eq!(unmet, [of_all_memory(0, 600)], "twice as many are plenty");
    // Compaction answers.
    for _ in 0..6 {
        for unmet in step(&mut engine, &mut machine) {
            machine.free_blocks += unmet.blocks_to_empty();
        }
    }
    assert_eq!(machine.huge_pages(1), 300);
    assert_eq!(step(&mut engine, &mut machine), []);
}

#[test]
fn a_node_without_blocks_lacks_some_whatever_another_has() {
    let mut machine = TinyMachine::new(regions(1, 100, 64).chain(regions(2, 100, 64)));
    machine.nodes = [(0, 0), (1, 4 * GIB)]
        .map(|(node, contiguity)| NodeMemory {
            node,
            free: 8 * GIB,
            contiguity,
        })
        .to_vec();
    machine.node_of = [(1, 0), (2, 1)].into();
    let mut engine = adaptive();
    step(&mut engine, &mut machine);
    let unmet = step(&mut engine, &mut machine);
    assert_eq!([1, 2].map(|pid| machine.huge_pages(pid)), [0, 100]);
    let node_0 = Unmet {
        node: Some(0),
        ..of_all_memory(0, 200)
    };
    assert_eq!(unmet, [node_0]);
}

#[test]
fn a_full_cgroup_lacks_memory_and_no_blocks() {
    let mut machine = TinyMachine::new(regions(1, 100, 512));
    machine.cgroup = Some((vec![1], 100 * HUGE_PAGE_SIZE));
    machine.free_blocks = 0;
    let mut engine = stubborn(100, Budgets::default());
    for _ in 0..5 {
        assert_eq!(step(&mut engine, &mut machine), []);
    }
}

#[test]
fn what_several_groups_lack_is_added_up_and_the_later_knows_what_is_free() {
    let on = |node, free_blocks, blocks| Unmet {
        node,
        ..of_all_memory(free_blocks, blocks)
    };
    let mut unmet = vec![on(Some(0), 9, 1), on(None, 5, 5)];
    Unmet::merge(
        &mut unmet,
        vec![on(Some(0), 7, u64::MAX), on(Some(1), 3, 4)],
    );
    let expected = [on(Some(0), 7, u64::MAX), on(None, 5, 5), on(Some(1), 3, 4)];
    assert_eq!(unmet, expected);
}

fn in_cgroup(available_percent: u64, mapped: u16) -> mega_core::Observation {
    let regions = (0..100).map(|index| base(index, mapped, mapped)).collect();
    let mut observed = observation(PLENTY, &[(1, regions)]);
    observed.processes[0].cgroup = Some(CgroupMemory {
        limit: 10 * GIB,
        available: available_percent * GIB / 10,
    });
    observed
}

#[test]
fn a_container_at_its_limit_does_not_grow_by_promotions() {
    let promotes = |percent, mapped| {
        let mut adaptive = policy("adaptive", &[]);
        decides(&mut *adaptive, &in_cgroup(percent, mapped), 2).len()
    };
    assert_eq!((promotes(9, 512), promotes(50, 512)), (0, 100));
    // 51 base pages missing in each: what may be added is what is above a tenth of the limit.
    assert_eq!(promotes(11, 461), 100);
    let mut tight = in_cgroup(10, 461);
    tight.processes[0].cgroup = Some(CgroupMemory {
        limit: 10 * GIB,
        available: GIB + (5 << 20),
    });
    let granted = decides(&mut *policy("adaptive", &[]), &tight, 2);
    assert_eq!(
        granted,
        (0..granted.len() as u64)
            .map(|i| promote(1, i))
            .collect::<Vec<_>>()
    );
    assert!((10..25).contains(&granted.len()), "{}", granted.len());
}

#[test]
fn a_container_at_its_limit_gets_its_bloat_back_and_nobody_else_is_touched() {
    let bloated = |pid| (0..100).map(move |index| (target(pid, index), Truth::huge(300, 0)));
    let mut machine = TinyMachine::new(bloated(1).chain(bloated(2)).chain(regions(3, 50, 512)));
    machine.cgroup = Some((vec![1], 102 * HUGE_PAGE_SIZE));
    let mut engine = adaptive();
    for _ in 0..10 {
        step(&mut engine, &mut machine);
    }
    let demoted = [1, 2].map(|pid| 100 - machine.huge_pages(pid));
    assert!(demoted[0] > 10 && demoted[1] == 0, "{demoted:?}");
    assert!(
        demoted[0] < 50,
        "no more than ends the shortage: {demoted:?}"
    );
    assert_eq!(machine.huge_pages(3), 50);
    assert_eq!(process(1), target(1, 0).process);
}

#[test]
fn what_is_swapped_out_in_part_is_not_promoted_whoever_asks() {
    let mut machine = TinyMachine::new(regions(1, 20, 512));
    machine.swapped = (5..8).map(|index| (target(1, index), 1)).collect();
    for truth in machine.regions.values_mut() {
        truth.resident = 511;
    }
    let mut engine = stubborn(20, Budgets::default());
    for _ in 0..4 {
        step(&mut engine, &mut machine);
    }
    assert_eq!(machine.huge_pages(1), 17);
    assert_eq!(engine.totals().held_for_swap, 4 * 3);
    assert_eq!(engine.totals().backed_off, 0);

    let mut engine = adaptive();
    machine.regions = regions(1, 20, 512).collect();
    for truth in machine.regions.values_mut() {
        truth.resident = 511;
    }
    for _ in 0..4 {
        step(&mut engine, &mut machine);
    }
    assert_eq!(machine.huge_pages(1), 17);
    assert_eq!(engine.totals().held_for_swap, 0, "it does not ask");
}

proptest! {
    /// Whatever is lacking, compaction that answers it ends the lack: everything is promoted in the end.
    #[test]
    fn compaction_that_answers_ends_every_lack(
        used in prop::collection::vec(33..=512_u16, 60..120),
        name in prop::sample::select(vec!["adaptive", "hawkeye", "ingens", "trident"]),
    ) {
        let truths = (0..).zip(&used).map(|(index, used)| (target(1, index), Truth::base(512, *used)));
        let mut machine = TinyMachine::new(truths);
        machine.free_blocks = 0;
        let mut engine = Engine::new(policy(name, &[]), Budgets::default(), INTERVAL);
        for _ in 0..30 {
            for unmet in step(&mut engine, &mut machine) {
                machine.free_blocks += unmet.blocks_to_empty();
            }
        }
        // `adaptive` leaves alone what fits the TLB.
        let left = used.len() - machine.huge_pages(1);
        prop_assert!(left == 0 || name == "adaptive" && left <= 1536 / 33, "{name}: {left}");
    }
}
