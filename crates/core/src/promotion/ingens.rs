//! `ingens`: promotes what is mapped, and shares huge pages fairly (Ingens, OSDI '16).
//!
//! The original marks a region huge before it tries, and never checks. Here the engine checks, and tries again.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::observation::{Observation, ProcessObservation, RegionRef};
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
    sequential_chunks: false,
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
struct Claim {
    process: ProcessId,
    huge_pages: f64,
    /// What one of its huge pages weighs: 1 when all are used, the idle penalty when none is.
    weight: f64,
    regions: std::vec::IntoIter<Region>,
}

impl Claim {
    /// What it has of the machine's huge pages. The less, the sooner it is served.
    fn holding(&self) -> f64 {
        self.huge_pages * self.weight
    }
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        let smallest_first = other.holding().total_cmp(&self.holding());
        smallest_first.then_with(|| other.process.cmp(&self.process))
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Claim {}

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

    fn claim(&self, process: &ProcessObservation) -> Claim {
        let used = self.used.get(&process.process).copied().unwrap_or(1.0);
        let pages = f64::from(PAGES_PER_REGION);
        let candidates = process.regions.iter().filter(|region| {
            !region.is_huge() && f64::from(region.mapped) / pages >= self.promote_mapped
        });
        let regions: Vec<Region> = candidates.map(|region| region.region).collect();
        Claim {
            process: process.process,
            huge_pages: count(
                process
                    .regions
                    .iter()
                    .filter(|region| region.is_huge())
                    .count(),
            ),
            weight: used + self.idle_penalty * (1.0 - used),
            regions: regions.into_iter(),
        }
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
        let mut claims: BinaryHeap<Claim> = observation
            .processes
            .iter()
            .map(|process| self.claim(process))
            .collect();
        let mut actions = Vec::new();
        while let Some(mut claim) = claims.pop() {
            if let Some(region) = claim.regions.next() {
                let target = RegionRef {
                    process: claim.process,
                    region,
                };
                actions.push(Action {
                    kind: ActionKind::Promote,
                    target,
                });
                claim.huge_pages += 1.0;
                claims.push(claim);
            }
        }
        actions
    }
}
