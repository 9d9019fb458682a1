//! What holds whatever the machine holds.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::engine::{Budgets, Engine, Interval, would};
use mega_core::promotion::{Parameters, build, registry};
use mega_core::{
    ActionKind, Cause, CgroupMemory, FailureMemory, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Machine,
    MemoryObservation, NodeMemory, Observation, Outcome, PageSize, ProcessObservation,
    RegionObservation, RegionRef, Span,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::observations::{process, region, target};
use crate::stubborn::Stubborn;
use crate::tiny_machine::{Costs, TinyMachine, Truth};

fn truth() -> impl Strategy<Value = Truth> {
    (1..=512_u16, 0..=512_u16, 0..=512_u16, any::<bool>()).prop_map(
        |(mapped, filled, used, huge)| {
            let mapped = if huge { 512 } else { mapped };
            // Half of the regions are mapped whole, or no threshold would ever be passed.
            let mapped = if mapped > 256 { 512 } else { mapped };
            let filled = if huge { filled.max(1) } else { mapped };
            Truth {
                filled,
                resident: mapped,
                used: used.min(filled),
                huge,
            }
        },
    )
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![
        Cause::NoMemory,
        Cause::Busy,
        Cause::Gone,
        Cause::NotEligible,
        Cause::NotHuge,
        Cause::NotPermitted,
    ])
}

prop_compose! {
    /// Up to three processes with up to 80 regions in all; memory from short to plentiful.
    fn machine()(
        truths in vec((1..=3_u32, truth()), 1..80),
        failing in vec((0..80_u64, cause()), 0..10),
        spare_regions in 0..200_u64,
        free_blocks in 0..200_u64,
        act in 0.0..0.05_f64,
        observe in 0.0..0.5_f64,
    ) -> TinyMachine {
        let regions: BTreeMap<RegionRef, Truth> = (0..)
            .zip(truths)
            .map(|(index, (pid, truth))| (target(pid, index), truth))
            .collect();
        let resident: u64 = regions.values().map(|truth| u64::from(truth.resident) << 12).sum();
        let mut machine = TinyMachine::new(regions);
        machine.total = 4 << 30;
        machine.others = (machine.total - resident).saturating_sub(spare_regions * 4 * HUGE_PAGE_SIZE);
        machine.free_blocks = free_blocks;
        machine.costs = Costs { observe, inspect: act / 4.0, act, wait: 0.0, block: 0.0 };
        for (index, cause) in failing {
            for pid in 1..=3 {
                machine.failures.insert(target(pid, index), cause);
            }
        }
        machine
    }
}

fn budgets() -> impl Strategy<Value = Budgets> {
    (0.01..1.0_f64, 0..64_u64, 0.02..1.1_f64).prop_map(|(cpu_share, pages, standstill)| Budgets {
        cpu_share,
        copy_bytes_per_second: pages * HUGE_PAGE_SIZE,
        standstill,
    })
}

fn any_policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(registry().iter().map(|info| info.name).collect::<Vec<_>>())
}

fn engine(name: &str, budgets: Budgets, interval: Duration) -> Engine {
    Engine::new(build(name, &Parameters::new()).unwrap(), budgets, interval)
}

/// Anything at all, in any order and out of any range.
fn nonsense() -> impl Strategy<Value = Observation> {
    let page_size = prop::sample::select(vec![PageSize::Base, PageSize::Huge, PageSize::Giant]);
    let any_region = (
        0..20_u64,
        any::<u16>(),
        any::<u16>(),
        page_size,
        any::<Option<u16>>(),
        any::<u16>(),
    )
        .prop_map(
            |(index, mapped, accessed, page_size, zero_filled, swapped)| RegionObservation {
                region: region(index),
                mapped,
                accessed,
                page_size,
                zero_filled,
                swapped,
            },
        );
    let any_cgroup = prop::option::of(
        (any::<u64>(), any::<u64>())
            .prop_map(|(limit, available)| CgroupMemory { limit, available }),
    );
    let any_node =
        (0..3_u32, any::<u64>(), any::<u64>()).prop_map(|(node, free, contiguity)| NodeMemory {
            node,
            free,
            contiguity,
        });
    let any_process = (
        0..4_u32,
        vec(any_region, 0..40),
        any::<bool>(),
        prop::option::of(0..4_u32),
        any_cgroup,
    )
        .prop_map(
            |(pid, regions, accesses_known, node, cgroup)| ProcessObservation {
                process: process(pid),
                cpu_time: None,
                regions,
                accesses_known,
                node,
                cgroup,
            },
        );
    let any_memory = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        vec(any_node, 0..4),
    )
        .prop_map(
            |(total, available, free, contiguity, nodes)| MemoryObservation {
                total,
                available,
                free,
                contiguity,
                nodes,
            },
        );
    (
        vec(any_process, 0..6),
        any_memory,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(processes, memory, giant_pages, free_zero)| Observation {
            interval: Duration::from_secs(5),
            processes,
            memory,
            idle_cpus: None,
            giant_pages,
            free_zero,
            counted: BTreeMap::new(),
            glances: Vec::new(),
        })
}

/// A machine that reports what it is told to, and answers every action with too few or too many outcomes.
struct Liar {
    reports: Vec<Observation>,
    answers: usize,
    steps: u32,
}

impl Machine for Liar {
    type Error = std::convert::Infallible;

    fn now(&self) -> Duration {
        Duration::from_secs(5) * self.steps
    }

    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn observe(&mut self) -> Result<Observation, Self::Error> {
        self.steps += 1;
        Ok(self.reports.pop().unwrap_or_default())
    }

    fn count_zero_filled(&mut self, _target: RegionRef) -> Option<u16> {
        Some(u16::MAX)
    }

    fn promotion_seconds(&self) -> Option<f64> {
        None
    }

    fn rest(&mut self, _time: Duration) {}

    fn act(&mut self, _actions: &[mega_core::Action]) -> Vec<Outcome> {
        vec![
            Outcome::Done {
                resident_before: u64::MAX >> 32,
                resident_after: 0
            };
            self.answers
        ]
    }
}

proptest! {
    /// On a machine whose programs keep doing the same, every policy comes to rest: a region is promoted
    /// and demoted at most once each.
    #[test]
    fn no_policy_oscillates_on_constant_input(name in any_policy(), machine in machine()) {
        let mut machine = machine;
        let mut engine = engine(name, Budgets { cpu_share: 1.0, ..Budgets::default() }, Duration::from_secs(5));
        for _ in 0..240 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        for (target, changes) in machine.changes() {
            prop_assert!(changes <= 2, "{name} changed {target:?} {changes} times");
        }
    }

    /// What is counted as done is what the machine did.
    #[test]
    fn totals_say_what_happened(name in any_policy(), machine in machine(), budgets in budgets()) {
        let mut machine = machine;
        let huge = |machine: &TinyMachine| machine.regions.values().filter(|truth| truth.huge).count() as i64;
        let before = huge(&machine);
        let mut engine = engine(name, budgets, Duration::from_secs(5));
        for _ in 0..40 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        let totals = engine.totals();
        prop_assert_eq!(huge(&machine) - before, totals.done[ActionKind::Promote] as i64 - totals.done[ActionKind::Demote] as i64);
        let failed = machine.log.iter().filter(|(_, _, outcome)| matches!(outcome, Outcome::Failed(_)));
        prop_assert_eq!(failed.count() as u64, totals.failed());
        let tried = totals.done[ActionKind::Promote] + totals.done[ActionKind::Demote] + totals.already_so + totals.failed();
        prop_assert_eq!(tried, machine.log.len() as u64);
    }

    /// In no stretch of time is more copied than the rate and one interval's burst allow, and in none is more CPU used than
    /// the share of it and of two minutes, and the last batch.
    #[test]
    fn budgets_are_never_exceeded(
        name in any_policy(),
        machine in machine(),
        budgets in budgets(),
        interval in 1..20_u64,
    ) {
        let mut machine = machine;
        let interval = Duration::from_secs(interval);
        let mut engine = engine(name, budgets, interval);
        // What one observation and one batch or inspection can take beyond what was known to be left.
        let overdraft = machine.costs.observe + 64.0 * machine.costs.act;
        let mut moments = vec![(machine.clock, machine.cpu_time())];
        for _ in 0..30 {
            let report = engine.step(&mut machine).unwrap();
            moments.push((machine.clock, machine.cpu_time()));
            machine.clock += report.next_interval;
            moments.push((machine.clock, machine.cpu_time()));
        }
        for (first, (from, used_then)) in moments.iter().enumerate() {
            for (to, used) in &moments[first..] {
                let used = (*used - *used_then).as_secs_f64();
                let elapsed = (*to - *from).as_secs_f64();
                prop_assert!(used <= budgets.cpu_share * (elapsed + 120.0) + overdraft);
            }
        }
        let copies: Vec<Duration> = machine
            .log
            .iter()
            .filter(|(_, action, outcome)| {
                action.kind == ActionKind::Promote && matches!(outcome, Outcome::Done { .. })
            })
            .map(|(moment, _, _)| *moment)
            .collect();
        let rate = budgets.copy_bytes_per_second as f64;
        let burst = (rate * interval.as_secs_f64()).max(HUGE_PAGE_SIZE as f64);
        for (first, from) in copies.iter().enumerate() {
            for (last, to) in copies.iter().enumerate().skip(first) {
                let bytes = ((last - first + 1) as u64 * HUGE_PAGE_SIZE) as f64;
                prop_assert!(bytes <= burst + rate * (*to - *from).as_secs_f64() + 1.0);
            }
        }
    }

    /// Promotions of a process come in bursts, and after each the process runs for as long as the bound on its standing
    /// still asks.
    #[test]
    fn nobody_stands_still_for_longer_than_the_bound(
        name in any_policy(),
        machine in machine(),
        budgets in budgets(),
    ) {
        let mut machine = machine;
        let mut engine = engine(name, budgets, Duration::from_secs(5));
        for _ in 0..20 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        let act = machine.costs.act;
        let share = budgets.standstill.min(1.0);
        let mut log = machine.log.iter();
        let mut rested_at = BTreeMap::new();
        let mut is_known = false;
        for batch in &machine.batches {
            let ends: Vec<f64> = log.by_ref().take(batch.len()).map(|(end, ..)| end.as_secs_f64()).collect();
            let first = batch[0];
            if first.kind != ActionKind::Promote {
                continue;
            }
            prop_assert!(batch.iter().all(|action| action.target.process == first.target.process));
            let (started, ended) = (ends[0] - act, ends[ends.len() - 1]);
            let rested = rested_at.get(&first.target.process).copied().unwrap_or(0.0);
            prop_assert!(started >= rested - 1e-3, "{started} before {rested}");
            if is_known && share < 1.0 {
                prop_assert!(ended - started <= act.max(10e-3) + 1e-3);
            }
            is_known = true;
            let rest = (ended - started) * (1.0 - share) / share;
            rested_at.insert(first.target.process, ended + rest.min(5.0));
        }
    }

    /// Where the interval follows the programs, `adaptive` comes to rest as well, and then looks seldom.
    #[test]
    fn programs_that_keep_doing_the_same_are_looked_at_seldom(machine in machine()) {
        let mut machine = machine;
        machine.costs.observe = 1e-3;
        let policy = build("adaptive", &Parameters::new()).unwrap();
        let mut engine = Engine::new(policy, Budgets::default(), Interval::Auto);
        let start = machine.clock;
        let mut moments = Vec::new();
        while machine.clock - start < Duration::from_secs(3600) {
            moments.push((machine.clock - start).as_secs_f64());
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        for (target, changes) in machine.changes() {
            prop_assert!(changes <= 2, "changed {target:?} {changes} times");
        }
        prop_assert!(moments.iter().filter(|moment| **moment < 5.0).count() >= 5);
        let settled = moments.iter().filter(|moment| **moment >= 1800.0).count();
        // What a process refused is tried again, ever more seldom; where that changes something, some 14 intervals grow from
        // the shortest to the longest.
        let late = start + Duration::from_secs(1780);
        let is_late_change = |moment: &Duration, outcome: &Outcome| {
            *moment >= late && matches!(outcome, Outcome::Done { .. })
        };
        let changes = machine.log.iter().filter(|(moment, _, outcome)| is_late_change(moment, outcome)).count();
        prop_assert!(settled <= 190 + 15 * changes, "{settled} looks in half an hour with {changes} changes");
    }

    /// On a machine with giant pages the policies that know them come to rest too, whatever a giant page
    /// costs and however few there are; what is counted is what the machine has.
    #[test]
    fn giant_pages_come_to_rest(
        name in prop::sample::select(vec!["adaptive", "trident"]),
        spans in vec((0..4_u8, 0..=512_u16), 1..4),
        free_chunks in 0..5_u64,
        giant_copies in prop::sample::select(vec![0, HUGE_PAGE_SIZE, GIANT_PAGE_SIZE]),
        available_gib in 1..8_u64,
    ) {
        let regions = (0..).zip(&spans).flat_map(|(span, (kind, used))| {
            let truth = match kind {
                0 => Truth::base(512, *used),
                1 => Truth::base(300, (*used).min(300)),
                2 => Truth::huge(512, *used),
                _ => Truth::huge(100, (*used).min(100)),
            };
            (0..512).map(move |index| (target(1, span * 512 + index), truth))
        });
        let mut machine = TinyMachine::new(regions);
        machine.giant_pages = true;
        machine.free_chunks = free_chunks;
        machine.giant_copies = giant_copies;
        machine.costs.act = 1e-4;
        machine.others = machine.available().saturating_sub(available_gib * GIANT_PAGE_SIZE);
        let mut engine = engine(name, Budgets { cpu_share: 1.0, ..Budgets::default() }, Duration::from_secs(5));
        for _ in 0..120 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        for (page, changes) in machine.changes() {
            prop_assert!(changes <= 2, "{name} changed {page:?} {changes} times");
        }
        let totals = engine.totals();
        let undone_with_a_region = machine.giants.len() as u64 <= totals.done[ActionKind::PromoteGiant] - totals.done[ActionKind::DemoteGiant];
        prop_assert!(undone_with_a_region, "{} of {totals:?}", machine.giants.len());
        prop_assert!(totals.done[ActionKind::PromoteGiant] <= free_chunks);
    }

    /// Where the machine has no giant pages nobody asks for one.
    #[test]
    fn without_giant_pages_nobody_asks_for_one(name in any_policy(), seen in vec(nonsense(), 1..6)) {
        let mut policy = build(name, &Parameters::new()).unwrap();
        for observation in seen {
            let observation = Observation { giant_pages: false, ..observation };
            let asks = policy.decide(&observation, &FailureMemory::default()).iter().any(|action| action.kind == ActionKind::PromoteGiant);
            prop_assert!(!asks);
        }
    }

    /// Where the machine cannot give back zero-filled huge pages of spans nobody asks for it; who asks, asks for whole
    /// spans.
    #[test]
    fn only_where_it_can_the_machine_is_asked_to_give_back(name in any_policy(), seen in vec(nonsense(), 1..6)) {
        let mut policy = build(name, &Parameters::new()).unwrap();
        for observation in seen {
            for action in policy.decide(&observation, &FailureMemory::default()) {
                if action.kind == ActionKind::FreeZero {
                    prop_assert!(observation.free_zero);
                    prop_assert_eq!(Span::of(action.target.region).first_region(), action.target.region);
                }
            }
        }
    }

    /// While memory is short, all that is zero-filled in cold giant pages is given back, and those that hold nothing
    /// zero-filled are the only ones that are demoted.
    #[test]
    fn giant_pages_give_back_before_they_are_demoted(spans in vec((any::<bool>(), 0..=512_u64), 1..4)) {
        let regions = (0..).zip(&spans).flat_map(|(span, (hot, zeros))| {
            (0..512).map(move |index| {
                let filled = if index < *zeros { 0 } else { 512 };
                (target(1, span * 512 + index), Truth::huge(filled, u16::from(*hot)))
            })
        });
        let mut machine = TinyMachine::new(regions);
        machine.giant_pages = true;
        machine.free_zero = true;
        machine.giants = (0..).zip(&spans).map(|(span, _)| target(1, span * 512)).collect();
        machine.total = machine.regions.len() as u64 * HUGE_PAGE_SIZE;
        machine.costs.act = 1e-4;
        let mut engine = engine("adaptive", Budgets { cpu_share: 1.0, ..Budgets::default() }, Duration::from_secs(5));
        for _ in 0..4 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        let cold = || (0..).zip(&spans).filter(|(_, (hot, _))| !hot);
        let freed: u64 = cold().map(|(_, (_, zeros))| zeros).sum();
        prop_assert_eq!(engine.totals().bytes_given_back, freed * HUGE_PAGE_SIZE);
        let tried = |kind| -> Vec<_> {
            machine.log.iter().filter(|(_, action, _)| action.kind == kind).map(|(_, action, _)| action.target).collect()
        };
        let expected: Vec<_> = cold().map(|(span, _): (u64, _)| target(1, span * 512)).collect();
        prop_assert_eq!(tried(ActionKind::FreeZero), expected);
        prop_assert_eq!(tried(ActionKind::DemoteGiant), vec![]);
        for _ in 0..4 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        for (_, action, _) in &machine.log {
            let span = (0..).zip(&spans).find(|(span, _)| target(1, span * 512) == action.target);
            let (_, (hot, zeros)) = span.unwrap();
            let is_expected = match action.kind {
                ActionKind::FreeZero => !hot,
                ActionKind::DemoteGiant => !hot && *zeros == 0,
                _ => false,
            };
            prop_assert!(is_expected, "{action:?}");
        }
    }

    /// Whatever a budget cuts off, it is what the policy wanted least: what is promoted is a beginning of its order, down to
    /// the size of a batch within which neighbours share a call.
    #[test]
    fn budgets_cut_by_rank(
        order in Just((0..200_u64).collect::<Vec<_>>()).prop_shuffle(),
        budgets in budgets(),
        act in 0.0..0.05_f64,
        steps in 1..20_usize,
    ) {
        let mut machine = TinyMachine::new((0..200).map(|index| (target(1, index), Truth::base(512, 512))));
        machine.costs = Costs { observe: 1e-4, inspect: 0.0, act, wait: 0.0, block: 0.0 };
        let wanted: Vec<_> = order.iter().map(|index| target(1, *index)).collect();
        let mut engine = Engine::new(Box::new(Stubborn(wanted.clone())), budgets, Duration::from_secs(1));
        for _ in 0..steps {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
        }
        let promoted = machine.huge_pages(1);
        prop_assert!(wanted[..promoted].iter().all(|target| machine.regions[target].huge));
        let ranks = machine.batches.iter().map(|batch| {
            let rank = |action: &mega_core::Action| wanted.iter().position(|target| *target == action.target).unwrap();
            batch.iter().map(rank).collect::<Vec<_>>()
        });
        for pair in ranks.collect::<Vec<_>>().windows(2) {
            let (worst, best) = (pair[0].iter().max().unwrap(), pair[1].iter().min().unwrap());
            prop_assert!(worst < best || *best == 0, "{pair:?}");
        }
    }

    /// Every process that could use promotions gets its part.
    #[test]
    fn no_process_starves(name in prop::sample::select(vec!["adaptive", "ingens", "hawkeye", "mega"]),
                          sizes in vec(20..200_u64, 2..6), pages in 1..20_u64) {
        let regions = (1..).zip(&sizes).flat_map(|(pid, size)| {
            (0..*size).map(move |index| (target(pid, index), Truth::base(512, 512)))
        });
        let mut machine = TinyMachine::new(regions);
        let copy_bytes_per_second = pages * HUGE_PAGE_SIZE;
        let mut engine = engine(name, Budgets { copy_bytes_per_second, cpu_share: 1.0, ..Budgets::default() }, Duration::from_secs(1));
        let mut steps = 0;
        // Until the first process is served whole, or has only what is left to it as it fits the TLB.
        while (1..).zip(&sizes).all(|(pid, size)| machine.huge_pages(pid) as u64 + 4 <= *size) && steps < 500 {
            let report = engine.step(&mut machine).unwrap();
            machine.clock += report.next_interval;
            steps += 1;
        }
        let served: Vec<usize> = (1..).zip(&sizes).map(|(pid, _)| machine.huge_pages(pid)).collect();
        let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
        // In the last step the first process done leaves its part to the others.
        prop_assert!(*least as u64 + pages + 8 >= *most as u64, "{served:?} after {steps} steps");
        prop_assert!(*least > 0, "{served:?} after {steps} steps");
    }

    /// The same machine and the same engine do the same.
    #[test]
    fn decisions_are_deterministic(name in any_policy(), seen in vec(nonsense(), 1..12)) {
        let decisions = || {
            let mut policy = build(name, &Parameters::new()).unwrap();
            seen.iter().map(|observation| {
                let mut observation = observation.clone();
                observation.normalise();
                (policy.inspect(&observation), policy.decide(&observation, &FailureMemory::default()))
            }).collect::<Vec<_>>()
        };
        prop_assert_eq!(decisions(), decisions());
    }

    /// Nothing that a machine reports makes the engine or a policy panic.
    #[test]
    fn nonsense_is_survived(name in any_policy(), reports in vec(nonsense(), 1..12), answers in 0..100_usize) {
        for observation in &reports {
            let _ = would(build(name, &Parameters::new()).unwrap(), observation);
            let mut policy = build(name, &Parameters::new()).unwrap();
            for _ in 0..3 {
                let _ = (policy.inspect(observation), policy.decide(observation, &FailureMemory::default()));
            }
        }
        let mut machine = Liar { reports, answers, steps: 0 };
        let mut engine = engine(name, Budgets::default(), Duration::from_secs(5));
        for _ in 0..15 {
            engine.step(&mut machine).unwrap();
        }
    }

    /// A normalised observation is what the vocabulary promises, and stays as it is when normalised again.
    #[test]
    fn normalising_keeps_the_promise(observation in nonsense()) {
        let mut once = observation;
        once.normalise();
        let mut twice = once.clone();
        twice.normalise();
        prop_assert_eq!(&once, &twice);
        prop_assert!(once.processes.is_sorted_by(|left, right| left.process < right.process));
        for process in &once.processes {
            prop_assert!(process.regions.is_sorted_by(|left, right| left.region < right.region));
            for region in &process.regions {
                prop_assert!(region.accessed <= region.mapped && (1..=512).contains(&region.mapped));
                prop_assert!(region.zero_filled.is_none_or(|zeros| zeros <= region.mapped));
            }
        }
    }
}
