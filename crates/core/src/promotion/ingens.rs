//! `ingens`: promotes what is mapped, and shares huge pages fairly (Ingens, OSDI '16).
//!
//! The original marks a region huge before it tries, and never checks. Here the engine checks, and tries again.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{PAGES_PER_REGION, Region};
use crate::process::ProcessId;

use super::Policy;
use super::info::PolicyInfo;
use crate::parameters::{ParameterInfo, Values};

const PROMOTE_MAPPED: ParameterInfo = ParameterInfo::share(
    "promote_mapped",
    "share of a region mapped from which it is promoted (Ingens: 90 %)",
    0.90,
);
const IDLE_PENALTY: ParameterInfo = ParameterInfo {
    name: "idle_penalty",
    summary: "how many used huge pages an unused one weighs in a process's share (4: the 75 % idle memory tax of ESX, whose form Ingens takes)",
    unit: "factor",
    default: 4.0,
    min: 1.0,
    max: 1000.0,
};

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "ingens",
    summary: "promotes what is at least 90 % mapped; processes that have few huge pages, and use them, come first",
    source: "Ingens (OSDI '16)",
    parameters: &[PROMOTE_MAPPED, IDLE_PENALTY],
    for_giant_pages: false,
    asks_for_gains: false,
    settings: &[],
    ordered: &[],
    build: |values| Box::new(Ingens::new(values)),
};

struct Ingens {
    promote_mapped: f64,
    idle_penalty: f64,
    /// Of each process's huge pages the part that is used: a mean that halves the weight of the past
    /// with every interval.
    used: BTreeMap<ProcessId, f64>,
}

/// A process waiting for its next promotion.
struct Claim<'a> {
    observed: &'a ProcessObservation,
    huge_pages: f64,
    /// What one of its huge pages weighs: 1 when all are used, the idle penalty when none is.
    weight: f64,
    /// The first of its regions that was not considered yet.
    next: usize,
}

impl Claim<'_> {
    /// What it has of the machine's huge pages. The less, the sooner it is served.
    fn holding(&self) -> f64 {
        self.huge_pages * self.weight
    }
}

/// Whose turn it is: the one with the smallest holding, of equals the first.
#[derive(PartialEq)]
struct Turn {
    holding: f64,
    claim: usize,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let smallest_first = other.holding.total_cmp(&self.holding);
        smallest_first.then_with(|| other.claim.cmp(&self.claim))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Turn {}

impl Ingens {
    fn new(values: Values<'_>) -> Self {
        Ingens {
            promote_mapped: values.get(&PROMOTE_MAPPED),
            idle_penalty: values.get(&IDLE_PENALTY),
            used: BTreeMap::new(),
        }
    }

    fn learn_use(&mut self, observation: &Observation) {
        let mut used = BTreeMap::new();
        for process in &observation.processes {
            let before = self.used.get(&process.process).copied();
            let now = process
                .accesses_known
                .then(|| share_used(process))
                .flatten();
            let mean = match (before, now) {
                (Some(before), Some(now)) => f64::midpoint(before, now),
                // Nothing says that they are not used.
                (before, now) => now.or(before).unwrap_or(1.0),
            };
            used.insert(process.process, mean);
        }
        self.used = used;
    }

    fn claim<'a>(&self, process: &'a ProcessObservation) -> Claim<'a> {
        let used = self.used.get(&process.process).copied().unwrap_or(1.0);
        let huge = process.regions.iter().filter(|region| region.is_huge());
        Claim {
            observed: process,
            huge_pages: count(huge.count()),
            weight: used + self.idle_penalty * (1.0 - used),
            next: 0,
        }
    }

    /// The next region of a claim to promote.
    fn next(&self, claim: &mut Claim<'_>) -> Option<Region> {
        let least = self.promote_mapped * f64::from(PAGES_PER_REGION);
        let rest = claim.observed.regions.get(claim.next..)?;
        let is_wanted =
            |region: &RegionObservation| !region.is_huge() && f64::from(region.mapped) >= least;
        let skipped = rest.iter().position(is_wanted)?;
        claim.next += skipped + 1;
        Some(rest[skipped].region)
    }
}

/// The part of a process's huge pages that were accessed; `None` when it has none.
fn share_used(process: &ProcessObservation) -> Option<f64> {
    let huge = process.regions.iter().filter(|region| region.is_huge());
    let (accessed, all) = huge.fold((0, 0), |(accessed, all), region| {
        (accessed + usize::from(region.accessed > 0), all + 1)
    });
    (all > 0).then(|| count(accessed) / count(all))
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}

impl Policy for Ingens {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn decide(&mut self, observation: &Observation, _failures: &FailureMemory) -> Vec<Action> {
        self.learn_use(observation);
        let processes = observation.processes.iter();
        let mut claims: Vec<Claim<'_>> = processes.map(|process| self.claim(process)).collect();
        let turns = claims.iter().enumerate().map(|(claim, of)| Turn {
            holding: of.holding(),
            claim,
        });
        let mut turns: BinaryHeap<Turn> = turns.collect();
        let regions = claims.iter().map(|claim| claim.observed.regions.len());
        let mut actions = Vec::with_capacity(regions.sum());
        while let Some(mut turn) = turns.peek_mut() {
            let claim = &mut claims[turn.claim];
            let Some(region) = self.next(claim) else {
                PeekMut::pop(turn);
                continue;
            };
            actions.push(Action {
                kind: ActionKind::Promote,
                target: RegionRef {
                    process: claim.observed.process,
                    region,
                },
            });
            claim.huge_pages += 1.0;
            turn.holding = claim.holding();
        }
        actions
    }
}
