//! `trident-1g-only`: `trident` without huge pages of their own.

use std::time::Duration;

use mega_core::engine::{Budgets, Engine};
use mega_core::{
    Action, ActionKind, Cause, MemoryObservation, Observation, Policy, RegionObservation,
};

use crate::observations::{
    PLENTY, base, decides, giant, huge, observation, of_span, policy, promote, seen, target,
    with_giant_pages,
};
use crate::tiny_machine::{TinyMachine, Truth};

fn trident_1g_only() -> Box<dyn Policy> {
    policy("trident-1g-only", &[])
}

fn span_of(region: impl Fn(u64) -> RegionObservation) -> Observation {
    with_giant_pages(seen((0..512).map(region).collect()))
}

fn promotions() -> Vec<Action> {
    (0..512).map(|index| promote(1, index)).collect()
}

fn promote_giant() -> Action {
    of_span(ActionKind::PromoteGiant, 1, 0)
}

#[test]
fn a_span_goes_from_base_to_giant() {
    let mut policy = trident_1g_only();
    let first = span_of(|index| base(index, 1, 0));
    assert_eq!(decides(&mut *policy, &first, 1), promotions());
    let then = span_of(|index| huge(index, false, None));
    assert_eq!(decides(&mut *policy, &then, 1), [promote_giant()]);
    let last = span_of(|index| giant(index, false, None));
    assert_eq!(decides(&mut *policy, &last, 1), []);
}

#[test]
fn what_no_giant_page_can_map_stays_at_base_pages() {
    let hole = (0..512).filter(|index| *index != 77);
    let part = 512..600;
    let regions = hole.chain(part);
    let observed = seen(regions.map(|index| base(index, 512, 512)).collect());
    let observed = with_giant_pages(observed);
    assert_eq!(decides(&mut *trident_1g_only(), &observed, 5), []);
}

#[test]
fn without_giant_pages_it_does_nothing() {
    let observed = seen((0..512).map(|index| base(index, 512, 512)).collect());
    assert_eq!(decides(&mut *trident_1g_only(), &observed, 5), []);
}

/// A machine with one span of huge pages, and an engine that lets `trident-1g-only` do all it wants.
fn huge_span() -> (TinyMachine, Engine) {
    let truths = (0..512).map(|index| (target(1, index), Truth::huge(512, 512)));
    let mut machine = TinyMachine::new(truths);
    machine.giant_pages = true;
    machine.costs.act = 1e-4;
    let budgets = Budgets {
        cpu_share: 1.0,
        copy_bytes_per_second: 1 << 40,
        ..Budgets::default()
    };
    let engine = Engine::new(trident_1g_only(), budgets, Duration::from_secs(5));
    (machine, engine)
}

/// How many huge pages there are after each of these steps.
fn huge_pages_after(engine: &mut Engine, machine: &mut TinyMachine, steps: usize) -> Vec<usize> {
    let mut after = Vec::new();
    for _ in 0..steps {
        let report = engine.step(machine).unwrap();
        machine.clock += report.next_interval;
        after.push(machine.huge_pages(1));
    }
    after
}

#[test]
fn a_span_without_a_chunk_goes_back_to_base_pages_and_is_tried_again() {
    let (mut machine, mut engine) = huge_span();
    machine.free_chunks = 0;
    let after = huge_pages_after(&mut engine, &mut machine, 12);
    // Tried, broken up for the eight steps that the engine holds the span back, made huge again, tried again.
    assert_eq!(after, [512, 0, 0, 0, 0, 0, 0, 0, 0, 512, 512, 0]);
    assert_eq!(
        engine.totals().failures[ActionKind::PromoteGiant][&Cause::NoMemory],
        2
    );
    machine.free_chunks = 1;
    huge_pages_after(&mut engine, &mut machine, 20);
    assert_eq!(machine.giants.len(), 1);
}

#[test]
fn a_busy_span_stays_huge() {
    let (mut machine, mut engine) = huge_span();
    machine.failures.insert(target(1, 0), Cause::Busy);
    let after = huge_pages_after(&mut engine, &mut machine, 12);
    assert_eq!(after, [512; 12]);
}

#[test]
fn while_memory_is_short_no_span_is_begun_that_adds_some() {
    let short = MemoryObservation {
        available: PLENTY.total / 10,
        ..PLENTY
    };
    let of_mapped = |mapped| {
        let regions = (0..512).map(|index| base(index, mapped, 0)).collect();
        with_giant_pages(observation(short.clone(), &[(1, regions)]))
    };
    assert_eq!(decides(&mut *trident_1g_only(), &of_mapped(511), 1), []);
    let whole = decides(&mut *trident_1g_only(), &of_mapped(512), 1);
    assert_eq!(whole, promotions());
}
