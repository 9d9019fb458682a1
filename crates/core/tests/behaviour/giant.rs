//! Giant pages: when `adaptive` makes and breaks them up, and what the engine lets them cost.

use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval, would};
use mega_core::{
    ActionKind, Cause, FailureMemory, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, MemoryObservation,
    Observation, Outcome, Policy, RegionObservation,
};

use crate::observations::{
    GIB, PLENTY, base, decides, demote, giant, huge, observation, of_span, policy, seen, target,
    with_free_zero, with_giant_pages,
};
use crate::tiny_machine::{TinyMachine, Truth, certain};

const INTERVAL: Duration = Duration::from_secs(5);
/// Observations after which `adaptive` knows what is cold.
const SETTLED: usize = 4;

/// Huge pages over these spans; of each the first `hot` are accessed.
fn huge_spans(spans: u64, hot: u64) -> Vec<RegionObservation> {
    (0..spans * 512)
        .map(|index| huge(index, index % 512 < hot, None))
        .collect()
}

fn adaptive() -> Box<dyn Policy> {
    policy("adaptive", &[])
}

fn promote_giant(index: u64) -> mega_core::Action {
    of_span(ActionKind::PromoteGiant, 1, index)
}

#[test]
fn a_working_set_beyond_the_tlb_gets_giant_pages_once_it_is_known_to_be_hot() {
    let observed = with_giant_pages(seen(huge_spans(4, 512)));
    let mut policy = adaptive();
    assert_eq!(decides(&mut *policy, &observed, SETTLED - 1), []);
    assert_eq!(
        policy.decide(&observed, &FailureMemory::default()),
        (0..4).map(promote_giant).collect::<Vec<_>>()
    );
    // 1536 huge pages fit the TLB.
    let fits = with_giant_pages(seen(huge_spans(3, 512)));
    assert_eq!(decides(&mut *adaptive(), &fits, 20), []);
}

#[test]
fn a_span_that_is_mostly_cold_stays_and_the_hottest_goes_first() {
    let mut regions = huge_spans(5, 512);
    for region in &mut regions[512..512 + 257] {
        region.accessed = 0;
    }
    for region in &mut regions[1024..1024 + 256] {
        region.accessed = 0;
    }
    let decided = decides(&mut *adaptive(), &with_giant_pages(seen(regions)), 20);
    assert_eq!(decided, [0, 3, 4, 2].map(promote_giant));
}

#[test]
fn one_region_that_is_not_huge_keeps_the_span_from_it() {
    for other in [base(700, 512, 0), giant(700, true, None)] {
        let mut regions = huge_spans(4, 512);
        regions[700] = other;
        let decided = decides(&mut *adaptive(), &with_giant_pages(seen(regions)), 5);
        let spans: Vec<_> = [0, 2, 3].map(promote_giant).to_vec();
        let only_giant: Vec<_> = decided
            .into_iter()
            .filter(|action| action.kind == ActionKind::PromoteGiant)
            .collect();
        assert_eq!(only_giant, spans);
    }
}

#[test]
fn without_a_gigabyte_to_spare_nothing_is_copied() {
    let with = |available| {
        let memory = MemoryObservation {
            available,
            ..PLENTY
        };
        let observed = with_giant_pages(observation(memory.clone(), &[(1, huge_spans(4, 512))]));
        decides(&mut *adaptive(), &observed, 20).len()
    };
    // A tenth of 64 GiB is to stay available.
    assert_eq!((with(7 * GIB), with(8 * GIB)), (0, 4));
}

#[test]
fn a_cold_giant_page_is_broken_up_before_what_is_in_it() {
    let short = MemoryObservation {
        available: PLENTY.total / 20,
        ..PLENTY
    };
    let with = |regions| with_giant_pages(observation(short.clone(), &[(1, regions)]));
    let giants = |hot| with((0..512).map(|index| giant(index, hot, None)).collect());
    assert_eq!(decides(&mut *adaptive(), &giants(true), 20), []);

    let mut policy = adaptive();
    assert_eq!(decides(&mut *policy, &giants(false), 3), []);
    assert_eq!(
        policy.inspect(&giants(false)),
        [],
        "to look into a part would mark all of it accessed"
    );
    let decided = policy.decide(&giants(false), &FailureMemory::default());
    assert_eq!(decided, [of_span(ActionKind::DemoteGiant, 1, 0)]);
    policy.learn(
        &decided[0],
        Outcome::Remapped {
            copied: 0,
            exchanged: 0,
        },
    );

    let apart = with((0..512).map(|index| huge(index, false, None)).collect());
    assert_eq!(policy.inspect(&apart).len(), 0, "not yet known to be apart");
    assert_eq!(policy.decide(&apart, &FailureMemory::default()), []);
    assert_eq!(policy.inspect(&apart).len(), 512, "still known to be cold");
    let bloated = |index| (index == 3 || index == 40).then_some(400);
    let counted = with(
        (0..512)
            .map(|index| huge(index, false, bloated(index)))
            .collect(),
    );
    assert_eq!(
        policy.decide(&counted, &FailureMemory::default()),
        [demote(1, 3), demote(1, 40)]
    );
}

#[test]
fn a_cold_giant_page_is_searched_once_before_it_is_broken_up() {
    let short = MemoryObservation {
        available: PLENTY.total / 20,
        ..PLENTY
    };
    let giants = |hot| {
        let regions = (0..512).map(|index| giant(index, hot, None)).collect();
        with_free_zero(observation(short.clone(), &[(1, regions)]))
    };
    let search = of_span(ActionKind::FreeZero, 1, 0);
    let break_up = of_span(ActionKind::DemoteGiant, 1, 0);
    for outcome in [Outcome::AlreadySo, Outcome::Failed(Cause::Busy)] {
        let mut policy = adaptive();
        assert_eq!(decides(&mut *policy, &giants(false), SETTLED), [search]);
        assert_eq!(
            policy.decide(&giants(false), &FailureMemory::default()),
            [search],
            "again while nobody says what came of it"
        );
        policy.learn(&search, outcome);
        assert_eq!(
            policy.decide(&giants(false), &FailureMemory::default()),
            [break_up]
        );
        // In use again it may have been written to since.
        policy.decide(&giants(true), &FailureMemory::default());
        assert_eq!(decides(&mut *policy, &giants(false), SETTLED), [search]);
    }
    let mut policy = adaptive();
    assert_eq!(decides(&mut *policy, &giants(false), SETTLED), [search]);
    policy.learn(&search, Outcome::NotTried);
    assert_eq!(
        policy.decide(&giants(false), &FailureMemory::default()),
        [search],
        "a dry run"
    );
}

#[test]
fn spans_are_searched_one_at_a_time() {
    let mut machine = machine(3);
    machine.free_zero = true;
    machine.giants = (0..3).map(|span| target(1, span * 512)).collect();
    machine.total = 3 * GIANT_PAGE_SIZE;
    for truth in machine.regions.values_mut() {
        truth.used = 0;
    }
    let mut engine = Engine::new(adaptive(), Budgets::default(), INTERVAL);
    run(&mut engine, &mut machine, SETTLED);
    let kinds: Vec<Vec<_>> = machine
        .batches
        .iter()
        .map(|batch| batch.iter().map(|action| action.kind).collect())
        .collect();
    assert_eq!(kinds, vec![vec![ActionKind::FreeZero]; 3]);
}

#[test]
fn a_giant_page_that_the_kernel_breaks_up_is_made_again_ever_more_rarely() {
    let mut adaptive = adaptive();
    let apart = with_giant_pages(seen(huge_spans(4, 512)));
    let mut together = apart.clone();
    for (index, region) in (0..512).zip(&mut together.processes[0].regions) {
        *region = giant(index, true, None);
    }
    let mut made = Vec::new();
    for interval in 0..80 {
        if adaptive
            .decide(&apart, &FailureMemory::default())
            .contains(&promote_giant(0))
        {
            made.push(interval);
            adaptive.learn(
                &promote_giant(0),
                Outcome::Remapped {
                    copied: 0,
                    exchanged: 0,
                },
            );
            adaptive.decide(&together, &FailureMemory::default());
        }
    }
    let waits: Vec<_> = made.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        made.len() >= 4 && waits.is_sorted_by(|a, b| a < b),
        "{made:?}"
    );
}

#[test]
fn what_would_be_done_counts_spans_apart() {
    let observed = with_giant_pages(seen(huge_spans(4, 512)));
    let would = would(policy("trident", &[]), &observed);
    assert_eq!(
        (
            would.wanted[ActionKind::Promote],
            would.wanted[ActionKind::PromoteGiant]
        ),
        (0, 4)
    );
    assert_eq!(
        (would.bytes_copied, would.wanted[ActionKind::DemoteGiant]),
        (0, 0)
    );
}

/// A machine with one process of huge pages over these spans, all in use.
fn machine(spans: u64) -> TinyMachine {
    let truths = (0..spans * 512).map(|index| (target(1, index), Truth::huge(512, 512)));
    let mut machine = TinyMachine::new(truths);
    machine.giant_pages = true;
    machine
}

fn run(engine: &mut Engine, machine: &mut TinyMachine, steps: usize) -> Vec<u64> {
    (0..steps)
        .map(|_| {
            let report = engine.step(machine).unwrap();
            machine.clock += report.next_interval;
            report.actions.done[ActionKind::PromoteGiant]
        })
        .collect()
}

fn trident(copy_bytes_per_second: u64) -> Engine {
    let budgets = Budgets {
        copy_bytes_per_second,
        cpu_share: 1.0,
        ..Budgets::default()
    };
    Engine::new(policy("trident", &[]), budgets, INTERVAL)
}

#[test]
fn giant_pages_are_charged_what_they_copied() {
    // 2 GiB in an interval.
    let (mut engine, mut copying) = (trident(2 * GIANT_PAGE_SIZE / 5), machine(6));
    assert_eq!(run(&mut engine, &mut copying, 4), [2, 2, 2, 0]);
    assert_eq!(engine.totals().bytes_copied, 6 * GIANT_PAGE_SIZE);
    assert_eq!(engine.totals().deferred_by_budget, 4 + 2);

    let mut in_place = machine(6);
    in_place.giant_copies = 0;
    let mut engine = trident(2 * GIANT_PAGE_SIZE / 5);
    assert_eq!(run(&mut engine, &mut in_place, 2), [6, 0]);
    assert_eq!(engine.totals().bytes_copied, 0);

    let mut engine = trident(0);
    assert_eq!(run(&mut engine, &mut machine(1), 5), [0; 5]);
}

#[test]
fn each_giant_page_is_tried_alone() {
    let mut machine = machine(3);
    run(&mut trident(1 << 40), &mut machine, 1);
    assert_eq!(
        machine.batches.iter().map(Vec::len).collect::<Vec<_>>(),
        [1; 3]
    );
}

#[test]
fn huge_pages_are_made_before_the_budget_goes_to_giant_ones() {
    let mut machine = machine(1);
    machine
        .regions
        .extend((600..610).map(|index| (target(1, index), Truth::base(512, 512))));
    // One giant page in an interval, or half of it and ten huge ones.
    let mut engine = trident(GIANT_PAGE_SIZE / 5);
    assert_eq!(run(&mut engine, &mut machine, 3), [0, 1, 0]);
    assert_eq!(machine.huge_pages(1), 522);
    assert_eq!(
        engine.totals().bytes_copied,
        GIANT_PAGE_SIZE + 10 * HUGE_PAGE_SIZE
    );
}

#[test]
fn without_chunks_it_asks_rarely_and_goes_on_with_huge_pages() {
    let mut machine = machine(3);
    machine.free_chunks = 0;
    let mut engine = trident(1 << 40);
    run(&mut engine, &mut machine, 40);
    let failed = engine.totals().failures[ActionKind::PromoteGiant][&Cause::NoMemory];
    assert!((2..20).contains(&failed), "{failed} vain promotions");
    machine
        .regions
        .extend((2000..2010).map(|index| (target(1, index), Truth::base(512, 512))));
    run(&mut engine, &mut machine, 1);
    assert_eq!(machine.huge_pages(1), 3 * 512 + 10);
}

#[test]
fn a_report_says_how_much_of_the_huge_memory_is_giant() {
    let mut machine = machine(2);
    let mut engine = trident(GIANT_PAGE_SIZE / 5);
    run(&mut engine, &mut machine, 1);
    let report = engine.step(&mut machine).unwrap();
    let process = &report.processes[0];
    assert_eq!((process.huge_bytes, process.giant_bytes), (2 * GIB, GIB));
}

/// A change of page size alone, from huge to giant and back, says nothing against what is remembered.
#[test]
fn regions_in_a_giant_page_are_left_alone() {
    let all_giant: Vec<_> = (0..2048).map(|index| giant(index, true, None)).collect();
    let observed: Observation = with_giant_pages(seen(all_giant));
    for name in [
        "adaptive",
        "mega",
        "hawkeye",
        "ingens",
        "trident",
        "trident-1g-only",
    ] {
        assert_eq!(
            decides(&mut *policy(name, &[]), &observed, 30),
            [],
            "{name}"
        );
    }
}

#[test]
fn where_nobody_can_tell_what_giant_pages_gain_half_in_use_pays() {
    let mut machine = machine(4);
    machine.gains = Some([(1, Some(certain(0.0, 1.0)))].into());
    let mut engine = Engine::new(adaptive(), Budgets::default(), Interval::Auto);
    let made: u64 = run(&mut engine, &mut machine, 200).iter().sum();
    assert_eq!(made, 4);
}
