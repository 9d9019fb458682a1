//! Recordings on the simulated kernel: giant pages, compaction, and what every machine must do.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval};
use mega_core::promotion::{Parameters, build};
use mega_core::{
    Action, ActionKind, BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Machine,
    MemoryObservation, Observation, PageSize, ProcessId, ProcessObservation, Region,
    RegionObservation, RegionRef,
};
use mega_record::replay::{CannotSimulate, Course, SimulatedReplay, Terms, follow};
use mega_record::{Header, Look};

const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_time: 1,
};
const GIB: u64 = 1 << 30;

fn region(index: u64, mapped: u16, accessed: u16) -> RegionObservation {
    RegionObservation {
        region: Region::containing(GIB + index * HUGE_PAGE_SIZE),
        mapped,
        accessed,
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    }
}

/// A look at the process, which may use addresses from 1 GiB to 3 GiB. All but a quarter of the memory is free, in blocks.
fn look(second: u64, total: u64, regions: Vec<RegionObservation>) -> Look {
    let mut look = Look {
        at: Duration::from_secs(second),
        observation: Observation {
            interval: Duration::from_secs(second.min(1)),
            processes: vec![ProcessObservation {
                process: PROCESS,
                cpu_time: None,
                regions,
                accesses_known: second > 0,
                node: None,
                cgroup: None,
            }],
            memory: MemoryObservation {
                total,
                available: total / 4 * 3,
                free: total / 4 * 3,
                contiguity: total / 4 * 3,
                nodes: Vec::new(),
            },
            idle_cpus: Some(1.0),
            ..Observation::default()
        },
        ..Look::default()
    };
    if second == 0 {
        look.news.mappings = [(PROCESS, std::iter::once(GIB..3 * GIB).collect())].into();
    }
    look
}

fn replay(looks: Vec<Look>, policy: &str, terms: Terms) -> Course {
    let policy = build(policy, &Parameters::new()).unwrap();
    let engine = Engine::new(policy, Budgets::default(), Interval::Auto);
    let machine = SimulatedReplay::new(&Header::default(), looks.into_iter(), terms).unwrap();
    follow(engine, machine).0
}

#[test]
fn a_span_that_is_used_whole_gets_a_giant_page() {
    let regions = || (0..512).map(|index| region(index, 512, 512)).collect();
    let looks = |seconds| {
        (0..seconds)
            .map(|second| look(second, 6 * GIB, regions()))
            .collect()
    };
    let course = replay(looks(60), "trident", Terms::default());
    assert_eq!(course.last.giant, GIANT_PAGE_SIZE, "{:?}", course.last);
    assert_eq!(course.last.huge, GIANT_PAGE_SIZE);
    assert!(course.totals.done[ActionKind::PromoteGiant] > 0);
    assert!(course.last.copied >= GIANT_PAGE_SIZE);
}

#[test]
fn compaction_makes_the_blocks_that_promotions_lack() {
    let regions = || (0..16).map(|index| region(index, 512, 512)).collect();
    let looks = || {
        (0..40)
            .map(|second| look(second, GIB / 2, regions()))
            .collect()
    };
    let terms = Terms {
        fragmentation: Some(1.0),
        ..Terms::default()
    };
    let course = replay(looks(), "ingens", terms);
    let first = course.points.first().unwrap();
    // What a zone keeps to itself is not in pieces.
    assert!(first.contiguity < first.free / 10, "{first:?}");
    assert!(
        course.last.moved > 0 && course.last.huge > 0,
        "{:?}",
        course.last
    );
    let free = course.last.free;
    let course = replay(looks(), "base", terms);
    assert_eq!((course.last.moved, course.last.huge), (0, 0));
    assert_eq!(course.last.free, free, "what is in use does not grow");
}

/// What a huge page of the recording hides is not made up.
#[test]
fn a_huge_page_of_the_recording_is_blind_once_it_is_demoted() {
    let huge = RegionObservation {
        page_size: PageSize::Huge,
        ..region(9, 512, 512)
    };
    let looks = vec![
        look(0, GIB, vec![huge]),
        look(1, GIB, vec![huge]),
        look(2, GIB, vec![region(9, 300, 20)]),
    ];
    let mut machine =
        SimulatedReplay::new(&Header::default(), looks.into_iter(), Terms::default()).unwrap();
    let seen = machine.observe().unwrap();
    assert_eq!(seen.processes[0].regions, [huge]);
    let target = RegionRef {
        process: PROCESS,
        region: huge.region,
    };
    assert_eq!(machine.count_zero_filled(target), None);
    let kind = ActionKind::Demote;
    machine.act(&[Action { kind, target }]);
    assert_eq!(machine.observe().unwrap().processes[0].regions, []);
    let seen = machine.observe().unwrap();
    let seen = seen.processes[0].regions[0];
    assert_eq!((seen.mapped, seen.accessed), (300, 20));
    assert_eq!(seen.page_size, PageSize::Base);
    assert!(machine.observe().is_err());
}

/// What a policy is shown of accesses is what was recorded, new pages or not.
#[test]
fn as_many_pages_are_accessed_as_were_recorded() {
    let looks = vec![
        look(0, GIB, vec![region(9, 200, 0)]),
        look(1, GIB, vec![region(9, 500, 300)]),
        look(2, GIB, vec![region(9, 512, 12)]),
    ];
    let mut machine =
        SimulatedReplay::new(&Header::default(), looks.into_iter(), Terms::default()).unwrap();
    let mut seen = || {
        let seen = machine.observe().unwrap().processes[0].regions[0];
        (seen.mapped, seen.accessed)
    };
    assert_eq!([seen(), seen(), seen()], [(200, 0), (500, 300), (512, 12)]);
}

/// A huge page that was there when it was recorded, and was split, is none that the policy made.
#[test]
fn a_huge_page_of_the_recording_ends_where_it_ended() {
    let huge = RegionObservation {
        page_size: PageSize::Huge,
        ..region(9, 512, 512)
    };
    let looks = vec![
        look(0, GIB, vec![huge]),
        look(1, GIB, vec![region(9, 512, 20)]),
    ];
    let course = replay(looks, "base", Terms::default());
    assert!(course.promoted.is_empty(), "{:?}", course.promoted);
    assert_eq!((course.last.huge, course.last.blind), (0, 0));
    assert_eq!(course.last.resident, HUGE_PAGE_SIZE);
}

#[test]
fn memory_that_nobody_recorded_has_to_be_named() {
    let looks = || vec![look(0, 0, Vec::new())].into_iter();
    let machine = SimulatedReplay::new(&Header::default(), looks(), Terms::default());
    assert_eq!(machine.err(), Some(CannotSimulate::NoMemory));
    let terms = Terms {
        memory: Some(GIB),
        ..Terms::default()
    };
    let mut machine = SimulatedReplay::new(&Header::default(), looks(), terms).unwrap();
    let memory = machine.observe().unwrap().memory;
    assert_eq!(memory.total, GIB);
    assert!(memory.free > GIB - 64 * BASE_PAGE_SIZE);
    let nothing = SimulatedReplay::new(&Header::default(), std::iter::empty(), terms);
    assert_eq!(nothing.err(), Some(CannotSimulate::Empty));
}

/// Ten minutes of 4 GiB whose pages are used differently at each look, on a machine with 6 GiB. `cargo test --release -p mega-record
/// --test simulated -- --ignored --nocapture ten_minutes` says how long it takes.
#[test]
#[ignore = "takes seconds: make test-long runs it"]
fn ten_minutes_of_four_gibibytes_on_the_simulated_kernel() {
    for policy in ["adaptive", "mega", "trident"] {
        let mut state = 1_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u16::try_from(state >> 55).unwrap()
        };
        let looks = (0..600).map(move |second| {
            let regions = (0..2048).map(|index| region(index, 512, random()));
            let mut look = look(second, 6 * GIB, regions.collect());
            if second == 0 {
                look.news.mappings = [(PROCESS, std::iter::once(GIB..5 * GIB).collect())].into();
            }
            look
        });
        let engine = Engine::new(
            build(policy, &Parameters::new()).unwrap(),
            Budgets::default(),
            Interval::Auto,
        );
        let began = std::time::Instant::now();
        let terms = Terms::default();
        let machine = SimulatedReplay::new(&Header::default(), looks, terms).unwrap();
        let course = follow(engine, machine).0;
        let steps = course.totals.steps;
        println!("{policy}: {:?} for {steps} steps", began.elapsed());
        assert!(course.last.at >= Duration::from_secs(590));
        let done = course.totals.done;
        assert!(done[ActionKind::Promote] + done[ActionKind::PromoteGiant] > 0);
    }
}
