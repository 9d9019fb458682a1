//! Recordings of programs whose parts are known replay to the known answer.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::collections::BTreeSet;
use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval};
use mega_core::promotion::{Parameters, build};
use mega_core::{
    Action, ActionKind, Call, CallKind, Cause, HUGE_PAGE_SIZE, Machine, MemoryObservation,
    Observation, Outcome, PageSize, ProcessId, ProcessObservation, Region, RegionObservation,
    RegionRef, mix,
};
use mega_record::replay::{
    Course, PROCESSORS, ReplayedMachine, SimulatedReplay, Terms, Walk, follow,
};
use mega_record::{Ending, Header, Look, Reader, Writer};

const GIB: u64 = 1 << 30;
const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_time: 1,
};
/// The parts of the known program, as indices of regions: all of it is used; mapped and never used; one page in eight mapped
/// and used.
const HOT: std::ops::Range<u64> = 1024..1088;
const COLD: std::ops::Range<u64> = 2048..2112;
const SPARSE: std::ops::Range<u64> = 4096..4128;

fn region(index: u64, mapped: u16, accessed: u16) -> RegionObservation {
    RegionObservation {
        region: Region::containing(index * HUGE_PAGE_SIZE),
        mapped,
        accessed,
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    }
}

/// A look at the process, with 16 GiB of which half is free.
fn look(second: u64, regions: Vec<RegionObservation>) -> Look {
    Look {
        at: Duration::from_secs(second),
        cpu: Duration::from_millis(2),
        observation: Observation {
            interval: Duration::from_secs(u64::from(second > 0)),
            processes: vec![ProcessObservation {
                process: PROCESS,
                cpu_time: None,
                regions,
                accesses_known: second > 0,
                node: None,
                cgroup: None,
            }],
            memory: MemoryObservation {
                total: 16 * GIB,
                available: 12 * GIB,
                free: 8 * GIB,
                contiguity: 6 * GIB,
                nodes: Vec::new(),
            },
            idle_cpus: Some(1.0),
            ..Observation::default()
        },
        ..Look::default()
    }
}

/// The known program for so many seconds.
fn known(seconds: u64) -> Vec<Look> {
    let regions = || {
        let hot = HOT.map(|index| region(index, 512, 512));
        let cold = COLD.map(|index| region(index, 512, 0));
        let sparse = SPARSE.map(|index| region(index, 64, 64));
        hot.chain(cold).chain(sparse).collect()
    };
    (0..seconds).map(|second| look(second, regions())).collect()
}

fn engine(policy: &str, parameters: &[(&str, f64)]) -> Engine {
    let parameters: Parameters = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect();
    let policy = build(policy, &parameters).unwrap();
    Engine::new(policy, Budgets::default(), Interval::Auto)
}

fn replay(looks: Vec<Look>, policy: &str, terms: Terms) -> Course {
    let machine = ReplayedMachine::new(&Header::default(), looks.into_iter(), terms);
    follow(engine(policy, &[]), machine).0
}

fn promoted(course: &Course) -> BTreeSet<u64> {
    let promoted = course.promoted.iter();
    promoted
        .map(|target| target.region.start() / HUGE_PAGE_SIZE)
        .collect()
}

#[test]
fn base_leaves_the_program_as_it_was_recorded() {
    let course = replay(known(120), "base", Terms::default());
    assert_eq!(course.totals.bytes_copied, 0);
    assert_eq!(
        (course.mean_coverage, course.mean_growth),
        (Some(0.0), Some(1.0))
    );
    assert!(course.promoted.is_empty());
    assert_eq!(course.last.resident, course.last.recorded);
    assert_eq!(course.last.free, 8 * GIB);
}

#[test]
fn mega_promotes_what_is_full_and_used_and_nothing_else() {
    let course = replay(known(180), "mega", Terms::default());
    assert_eq!(promoted(&course), HOT.collect());
    assert_eq!(course.totals.bytes_copied, 64 * HUGE_PAGE_SIZE);
    assert_eq!(course.last.resident, course.last.recorded);
    assert_eq!(course.last.huge, 64 * HUGE_PAGE_SIZE);
    assert_eq!(course.last.contiguity, 6 * GIB - 64 * HUGE_PAGE_SIZE);
}

#[test]
fn ingens_promotes_what_is_full_also_where_nobody_uses_it() {
    let course = replay(known(180), "ingens", Terms::default());
    assert_eq!(promoted(&course), HOT.chain(COLD).collect());
}

#[test]
fn with_every_second_look_dropped_the_decisions_hold() {
    for policy in ["mega", "adaptive", "ingens", "hawkeye", "trident", "base"] {
        let whole = replay(known(240), policy, Terms::default());
        let every_second: Vec<Look> = known(240)
            .into_iter()
            .enumerate()
            .filter(|(number, _)| number % 2 == 0)
            .map(|(_, mut look)| {
                // The bits of the look that was not made gathered until this one.
                look.observation.interval *= 2;
                look.missed = 1;
                look
            })
            .collect();
        let half = replay(every_second, policy, Terms::default());
        assert_eq!(promoted(&half), promoted(&whole), "{policy}");
        assert_eq!(
            half.totals.bytes_copied, whole.totals.bytes_copied,
            "{policy}"
        );
        assert_eq!(half.missed, 120);
        assert_eq!(whole.promoted.is_empty(), policy == "base", "{policy}");
    }
}

/// The base pages of a region that are accessed in one second, where that varies: of hot ones half to all, from another place on each
/// time, and none in one second of nine; of cold ones one page now and then; of sparse ones some of those that they have.
fn accessed_in(second: u64, index: u64) -> BTreeSet<u16> {
    let any = mix(second << 32 | index);
    let pages = |first: u64, count: u64, of: u64| {
        let page = |page| u16::try_from((first + page) % of).unwrap();
        (0..count).map(page).collect()
    };
    if HOT.contains(&index) {
        match any % 9 {
            0 => BTreeSet::new(),
            _ => pages(any >> 8, 256 + (any >> 20) % 257, 512),
        }
    } else if COLD.contains(&index) {
        pages(any >> 8, u64::from(any.is_multiple_of(60)), 512)
    } else {
        pages(any >> 8, any % 65, 64)
    }
}

/// The known program where what it accesses varies, looked at at every so many seconds: a look finds what was accessed since the last.
fn varying(seconds: u64, every: u64) -> Vec<Look> {
    let region_at = |second: u64, index| {
        let since = (second + 1).saturating_sub(every)..=second;
        let accessed: BTreeSet<u16> = since
            .flat_map(|second| accessed_in(second, index))
            .collect();
        let mapped = if SPARSE.contains(&index) { 64 } else { 512 };
        region(index, mapped, u16::try_from(accessed.len()).unwrap())
    };
    let look_at = |second| {
        let all = HOT.chain(COLD).chain(SPARSE);
        let mut look = look(second, all.map(|index| region_at(second, index)).collect());
        look.observation.interval *= u32::try_from(every).unwrap();
        look.missed = u32::try_from(every - 1).unwrap();
        look
    };
    let every = usize::try_from(every).unwrap();
    (0..seconds).step_by(every).map(look_at).collect()
}

/// A page that is accessed in both seconds counts once in a look at both: what such a look says is no sum and no mean. HawkEye promotes
/// whatever was accessed at all, if long enough nothing is hotter: what it does with memory that is accessed now and then may differ.
#[test]
fn with_every_second_look_dropped_the_decisions_hold_where_accesses_vary() {
    let wanted: [(&str, BTreeSet<u64>); 6] = [
        ("mega", HOT.collect()),
        ("adaptive", HOT.collect()),
        ("hawkeye", HOT.chain(SPARSE).collect()),
        ("ingens", HOT.chain(COLD).collect()),
        ("trident", HOT.chain(COLD).chain(SPARSE).collect()),
        ("base", BTreeSet::new()),
    ];
    for (policy, wanted) in wanted {
        for every in [1, 2] {
            let course = replay(varying(240, every), policy, Terms::default());
            let mut promoted = promoted(&course);
            if policy == "hawkeye" {
                promoted.retain(|index| !COLD.contains(index));
            }
            assert_eq!(promoted, wanted, "{policy}, a look in {every} s");
            assert_eq!(course.missed, 240 / every * (every - 1));
        }
    }
}

#[test]
fn without_free_blocks_nothing_is_promoted_and_with_few_only_as_many() {
    let fragmented = |fragmentation| Terms {
        fragmentation: Some(fragmentation),
        ..Terms::default()
    };
    let none = replay(known(180), "ingens", fragmented(1.0));
    assert!(none.promoted.is_empty());
    assert!(none.totals.failures[ActionKind::Promote][&Cause::NoMemory] > 0);
    // A two-hundredth of 8 GiB: 20 blocks.
    let few = replay(known(180), "ingens", fragmented(0.995));
    assert_eq!(few.promoted.len(), 20);
    // The more memory, the more of it is in blocks.
    let more = Terms {
        memory: Some(64 * GIB),
        ..fragmented(0.995)
    };
    assert_eq!(replay(known(180), "ingens", more).promoted.len(), 128);
}

#[test]
fn bloat_of_a_promotion_is_resident_until_it_is_given_back() {
    let header = Header {
        split_gives_back: true,
        ..Header::default()
    };
    let looks = vec![
        look(0, vec![region(9, 100, 100)]),
        look(1, vec![region(9, 120, 5)]),
    ];
    let mut machine = ReplayedMachine::new(&header, looks.into_iter(), Terms::default());
    machine.observe().unwrap();
    let target = RegionRef {
        process: PROCESS,
        region: Region::containing(9 * HUGE_PAGE_SIZE),
    };
    let mut act = |kind| machine.act(&[Action { kind, target }])[0];
    assert!(matches!(act(ActionKind::Promote), Outcome::Done { .. }));
    let seen = machine.observe().unwrap();
    assert_eq!(seen.processes[0].regions[0].mapped, 512);
    assert_eq!(seen.processes[0].regions[0].accessed, 512);
    assert_eq!(seen.memory.free, 8 * GIB - (512 - 120) * 4096);
    assert_eq!(machine.count_zero_filled(target), Some(512 - 120));
    let kind = ActionKind::Demote;
    let given_back = machine.act(&[Action { kind, target }])[0];
    let expected = Outcome::Done {
        resident_before: HUGE_PAGE_SIZE,
        resident_after: 120 * 4096,
    };
    assert_eq!(given_back, expected);
    assert_eq!(machine.observe(), Err(mega_record::replay::Over));
}

#[test]
fn a_huge_page_of_which_the_program_frees_a_part_is_split() {
    let looks = vec![
        look(0, vec![region(9, 500, 500)]),
        look(1, vec![region(9, 400, 400)]),
        look(2, vec![region(9, 510, 1)]),
        look(3, vec![]),
    ];
    let mut machine = ReplayedMachine::new(&Header::default(), looks.into_iter(), Terms::default());
    machine.observe().unwrap();
    let target = RegionRef {
        process: PROCESS,
        region: Region::containing(9 * HUGE_PAGE_SIZE),
    };
    let kind = ActionKind::Promote;
    machine.act(&[Action { kind, target }]);
    let mut seen = || {
        machine.observe().unwrap().processes[0]
            .regions
            .first()
            .copied()
    };
    let split = seen().unwrap();
    assert_eq!(
        (split.page_size, split.mapped, split.accessed),
        (PageSize::Base, 412, 400)
    );
    // What it maps again has room for two pages that the huge page had brought.
    assert_eq!(seen().unwrap().mapped, 512);
    assert_eq!(seen(), None);
    let free = machine.observe().map(|seen| seen.memory.free);
    assert!(free.is_err(), "the recording is over");
}

/// What a program gives up between two looks is free from then on, and what it maps there again is new memory.
#[test]
fn memory_that_is_unmapped_between_two_looks_is_free_at_that_time() {
    let regions = || vec![region(9, 500, 500), region(10, 500, 500)];
    let of = |index: u64| index * HUGE_PAGE_SIZE..(index + 1) * HUGE_PAGE_SIZE;
    let call = |tenths: u64, kind| Call {
        at: Duration::from_millis(100 * tenths),
        process: PROCESS,
        kind,
    };
    let mut second = look(1, regions());
    second.calls = vec![
        call(5, CallKind::Unmapped(of(9))),
        // A part of a region: what is left of it says the next look.
        call(6, CallKind::Discarded(of(10).start..of(10).end - 4096)),
        call(7, CallKind::Mapped(of(9))),
    ];
    let looks = vec![look(0, regions()), second];
    let mut machine = ReplayedMachine::new(&Header::default(), looks.into_iter(), Terms::default());
    let before = machine.observe().unwrap().memory;
    let promote = |index: u64| Action {
        kind: ActionKind::Promote,
        target: RegionRef {
            process: PROCESS,
            region: Region::containing(of(index).start),
        },
    };
    let done = machine.act(&[promote(9), promote(10)]);
    assert!(done.iter().all(|one| matches!(one, Outcome::Done { .. })));
    let now = machine.now();
    machine.rest(Duration::from_millis(550) - now);
    // It is not there to be promoted again, and its huge page is free.
    assert_eq!(machine.act(&[promote(9)]), [Outcome::Failed(Cause::Gone)]);
    assert_eq!(machine.act(&[promote(10)]), [Outcome::AlreadySo]);
    assert_eq!(machine.promoted().len(), 1);
    let seen = machine.observe().unwrap();
    let sizes: Vec<PageSize> = seen.processes[0]
        .regions
        .iter()
        .map(|seen| seen.page_size)
        .collect();
    assert_eq!(sizes, [PageSize::Base, PageSize::Huge]);
    assert_eq!(before.contiguity - seen.memory.contiguity, HUGE_PAGE_SIZE);
}

/// A program that unmaps its memory before it ends was promoted all the same.
#[test]
fn what_was_promoted_is_told_although_the_program_unmaps_it_in_the_end() {
    let mut looks = known(60);
    let mut ending = look(60, Vec::new());
    let start = HOT.start.min(COLD.start) * HUGE_PAGE_SIZE;
    let end = HOT.end.max(COLD.end) * HUGE_PAGE_SIZE;
    ending.calls = vec![Call {
        at: ending.at,
        process: PROCESS,
        kind: CallKind::Unmapped(start..end),
    }];
    looks.push(ending);
    let course = replay(looks, "ingens", Terms::default());
    assert_eq!(promoted(&course), HOT.chain(COLD).collect());
}

/// What a huge page of the recording hides is not made up.
#[test]
fn a_huge_page_of_the_recording_is_blind_once_it_is_demoted() {
    let huge = RegionObservation {
        page_size: PageSize::Huge,
        ..region(9, 512, 512)
    };
    let looks = vec![
        look(0, vec![huge]),
        look(1, vec![huge]),
        look(2, vec![region(9, 300, 20)]),
    ];
    let header = Header {
        split_gives_back: true,
        ..Header::default()
    };
    let mut machine = ReplayedMachine::new(&header, looks.into_iter(), Terms::default());
    let seen = machine.observe().unwrap();
    assert_eq!(seen.processes[0].regions, [huge]);
    let target = RegionRef {
        process: PROCESS,
        region: huge.region,
    };
    assert_eq!(machine.count_zero_filled(target), None);
    let kind = ActionKind::Demote;
    let expected = Outcome::Done {
        resident_before: HUGE_PAGE_SIZE,
        resident_after: HUGE_PAGE_SIZE,
    };
    assert_eq!(machine.act(&[Action { kind, target }]), [expected]);
    assert_eq!(machine.observe().unwrap().processes[0].regions, []);
    // In the recording base pages map it now: they are seen.
    let seen = machine.observe().unwrap();
    assert_eq!(seen.processes[0].regions, [region(9, 300, 20)]);
}

#[test]
fn the_course_counts_what_the_recording_hides() {
    let huge = |index| RegionObservation {
        page_size: PageSize::Huge,
        ..region(index, 512, 512)
    };
    let regions = || {
        let huge = (0..30).map(huge);
        huge.chain((30..40).map(|index| region(index, 512, 0)))
            .collect()
    };
    let looks = (0..60).map(|second| look(second, regions())).collect();
    let course = replay(looks, "base", Terms::default());
    assert_eq!(course.recorded_coverage, Some(0.75));
    assert_eq!(course.last.recorded_huge, 30 * HUGE_PAGE_SIZE);
}

/// Ten minutes of 4 GiB, in a file and out of it again, under every policy. `cargo test -p mega-record --test known -- --nocapture`
/// says how long it took.
#[test]
fn ten_minutes_of_four_gibibytes_are_replayed_from_a_file() {
    // What is accessed differs in each region and at each look, so that nothing is alike.
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u16::try_from(state >> 55).unwrap()
    };
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for second in 0..600 {
        let regions = (0..2048)
            .map(|index| region(index, 512, random()))
            .collect();
        writer.write(&look(second, regions)).unwrap();
    }
    let (file, _) = writer.finish().unwrap();
    for policy in ["adaptive", "mega"] {
        let began = std::time::Instant::now();
        let reader = Reader::new(file.as_slice()).unwrap();
        let machine = ReplayedMachine::new(&reader.header().clone(), reader, Terms::default());
        let (course, machine) = follow(engine(policy, &[]), machine);
        println!(
            "{policy}: {:?} for {} steps of {} bytes",
            began.elapsed(),
            course.totals.steps,
            file.len()
        );
        let usable = machine.looks().usable();
        assert_eq!((usable.looks, &usable.ending), (600, &Ending::Whole));
        assert!(course.last.at >= Duration::from_secs(590));
        assert!(course.totals.done[ActionKind::Promote] > 0);
    }
}

/// Whoever asks what a promotion takes hears what it takes in this replay, simulated or not.
#[test]
fn a_replay_names_the_price_that_it_takes() {
    let mut processors = PROCESSORS.iter();
    let server = **processors.find(|one| one.name == "skylake-sp").unwrap();
    // All memory in use is built anew on the simulated kernel: of less there is less to build.
    let looks = || {
        let mut looks = known(2);
        for look in &mut looks {
            look.observation.memory.total = 512 << 20;
            look.observation.memory.free = 128 << 20;
        }
        looks.into_iter()
    };
    for terms in [Terms::default(), Terms::default().on(server, Walk::Native)] {
        let costs = terms.costs;
        let price = costs.time(costs.promotion()).as_secs_f64();
        let header = Header::default();
        let machine = ReplayedMachine::new(&header, looks(), terms);
        assert_eq!(machine.promotion_seconds(), Some(price));
        let machine = SimulatedReplay::new(&header, looks(), terms).unwrap();
        assert_eq!(machine.promotion_seconds(), Some(price));
    }
}
