//! A promise over a policy: so much of each process's memory stays in huge pages, whatever the policy finds worth it.
//!
//! The policy decides as always. What is short of the promise is promoted besides, before all else, the fullest regions
//! first because they add the least memory. Demotions that would break the promise are left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::action::{Action, ActionKind, Outcome};
use crate::failures::FailureMemory;
use crate::gain::{Circumstances, Gain};
use crate::observation::{Counted, Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{HUGE_PAGE_SIZE, REGIONS_PER_SPAN};
use crate::process::ProcessId;

use super::Policy;

/// Lets `policy` decide under the promise that at least `least`, 0 to 1, of each process's memory is in huge pages: of what
/// has a physical page, in regions that huge pages can map; where an observation says which memory counts, of that.
#[must_use]
pub fn with_promise(policy: Box<dyn Policy>, least: f64) -> Box<dyn Policy> {
    Box::new(Promise { policy, least })
}

struct Promise {
    policy: Box<dyn Policy>,
    least: f64,
}

/// What a process has in huge pages, and all that it has.
#[derive(Clone, Copy)]
struct Held {
    huge: u64,
    mapped: u64,
}

impl Held {
    fn of(process: &ProcessObservation, counted: Option<&Counted>) -> Self {
        let bytes = |is: fn(&RegionObservation) -> bool| {
            let regions = process.regions.iter();
            regions
                .filter(|region| is(region) && counts(region, counted))
                .map(RegionObservation::resident_bytes)
                .sum()
        };
        Held {
            huge: bytes(RegionObservation::is_huge),
            mapped: bytes(|_| true),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn reaches(self, least: f64) -> bool {
        self.huge as f64 >= least * self.mapped as f64
    }

    /// What it is with a region promoted.
    fn promoted(self, region: &RegionObservation) -> Self {
        Held {
            huge: self.huge + HUGE_PAGE_SIZE,
            mapped: self.mapped + region.promotion_bloat_bytes(),
        }
    }

    /// What it is at worst once these regions are demoted: all of their memory stays.
    fn demoted(self, regions: u64) -> Self {
        Held {
            huge: self.huge.saturating_sub(regions * HUGE_PAGE_SIZE),
            ..self
        }
    }
}

/// Whether a region counts for the promise.
fn counts(region: &RegionObservation, counted: Option<&Counted>) -> bool {
    counted.is_none_or(|counted| counted.contains(region.region))
}

impl Promise {
    /// The promotions that a process is short of. What waits after a failure does not count: others take its place.
    fn missing(
        &self,
        process: &ProcessObservation,
        counted: Option<&Counted>,
        failures: &FailureMemory,
    ) -> Vec<Action> {
        let mut held = Held::of(process, counted);
        if held.reaches(self.least) {
            return Vec::new();
        }
        let mut candidates: Vec<&RegionObservation> = process
            .regions
            .iter()
            .filter(|region| !region.is_huge() && region.swapped == 0 && counts(region, counted))
            .collect();
        candidates.sort_by_key(|region| (Reverse(region.mapped), region.region));
        let mut actions = Vec::new();
        for region in candidates {
            if held.reaches(self.least) {
                break;
            }
            let action = Action {
                kind: ActionKind::Promote,
                target: RegionRef {
                    process: process.process,
                    region: region.region,
                },
            };
            if failures.holds(&action).is_none() {
                held = held.promoted(region);
                actions.push(action);
            }
        }
        actions
    }

    /// Takes out the demotions that would leave a process short.
    fn keep(&self, observation: &Observation, wanted: &mut Vec<Action>) {
        let mut left: BTreeMap<ProcessId, Held> = BTreeMap::new();
        wanted.retain(|action| {
            let regions = match action.kind {
                ActionKind::Demote => 1,
                // How many of the span's huge pages hold only zeros is not known.
                ActionKind::FreeZero => REGIONS_PER_SPAN as u64,
                ActionKind::Promote | ActionKind::PromoteGiant | ActionKind::DemoteGiant => {
                    return true;
                }
            };
            let id = action.target.process;
            let counted = observation.counted(id);
            // A span may count in part; it is taken as if all of it did.
            if action.kind == ActionKind::Demote
                && counted.is_some_and(|counted| !counted.contains(action.target.region))
            {
                return true;
            }
            let Some(process) = observation.process(id) else {
                return true;
            };
            let held = left.entry(id).or_insert_with(|| Held::of(process, counted));
            let after = held.demoted(regions);
            let allowed = after.reaches(self.least);
            if allowed {
                *held = after;
            }
            allowed
        });
    }
}

impl Policy for Promise {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn inspect(&mut self, observation: &Observation) -> Vec<RegionRef> {
        self.policy.inspect(observation)
    }

    fn decide(&mut self, observation: &Observation, failures: &FailureMemory) -> Vec<Action> {
        let mut wanted = self.policy.decide(observation, failures);
        self.keep(observation, &mut wanted);
        let mut actions: Vec<Action> = observation
            .processes
            .iter()
            .flat_map(|process| {
                self.missing(process, observation.counted(process.process), failures)
            })
            .collect();
        let promised: BTreeSet<Action> = actions.iter().copied().collect();
        wanted.retain(|action| !promised.contains(action));
        actions.extend(wanted);
        actions
    }

    fn learn(&mut self, action: &Action, outcome: Outcome) {
        self.policy.learn(action, outcome);
    }

    fn blocks_short(&self) -> Vec<(ProcessId, u64)> {
        self.policy.blocks_short()
    }

    fn demotes_to_give_back(&self) -> bool {
        self.policy.demotes_to_give_back()
    }

    fn bears_any_interval(&self) -> bool {
        self.policy.bears_any_interval()
    }

    fn expect(&mut self, circumstances: Circumstances) {
        self.policy.expect(circumstances);
    }

    fn watches(&self, process: ProcessId) -> bool {
        self.policy.watches(process)
    }

    fn unmeasured(&self) -> Vec<ProcessId> {
        self.policy.unmeasured()
    }

    fn glances(&self) -> bool {
        self.policy.glances()
    }

    fn asks_for_price(&self) -> bool {
        self.policy.asks_for_price()
    }

    fn learn_gain(&mut self, process: ProcessId, gain: Option<Gain>, age: Duration) {
        self.policy.learn_gain(process, gain, age);
    }

    fn settling_intervals(&self) -> usize {
        self.policy.settling_intervals()
    }
}
