//! `hawkeye`: promotes the most used regions first, and recovers bloat under pressure (HawkEye, ASPLOS '19).
//!
//! Access coverage is the number of base pages of a region accessed in an interval, averaged over the past. The policy
//! promotes the regions of all processes in the order of their coverage, in ten buckets. Within a bucket the processes
//! take turns; the one with the largest estimated translation overhead is first. The original measures that overhead
//! with hardware counters. Without counters it estimates it, as this version does, by the coverage of what is not huge
//! yet.
//!
//! The original may promote again what it demoted to recover bloat. Here a demoted region stays demoted until its
//! program has mapped more of it.

use std::collections::VecDeque;

use crate::action::{Action, ActionKind, Outcome};
use crate::failures::FailureMemory;
use crate::observation::{MemoryObservation, Observation, RegionObservation, RegionRef};
use crate::page::{PAGES_PER_REGION, PageSize, Region};
use crate::process::ProcessId;

use super::Policy;
use super::info::PolicyInfo;
use super::memory::share_in_use;
use super::tracked::Tracked;
use crate::parameters::{ParameterInfo, Values};

const HIGH_WATERMARK: ParameterInfo = ParameterInfo::share(
    "high_watermark",
    "share of memory in use from which bloat is recovered (HawkEye: 85 %)",
    0.85,
);
const LOW_WATERMARK: ParameterInfo = ParameterInfo::share(
    "low_watermark",
    "share of memory in use below which bloat is no longer recovered (HawkEye: 70 %)",
    0.70,
);
const MIN_COVERAGE: ParameterInfo = ParameterInfo {
    name: "min_coverage",
    summary: "mean accessed base pages from which a region is promoted (1: any that is used)",
    unit: "pages",
    default: 1.0,
    min: 0.0,
    max: 512.0,
};
const MIN_ZERO_FILLED: ParameterInfo = ParameterInfo {
    name: "min_zero_filled",
    summary: "zero-filled base pages from which a huge page is demoted to recover bloat (half of it)",
    unit: "pages",
    default: 256.0,
    min: 1.0,
    max: 512.0,
};

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "hawkeye",
    summary: "promotes in order of access coverage; demotes zero-filled huge pages while memory is short",
    source: "HawkEye (ASPLOS '19)",
    parameters: &[HIGH_WATERMARK, LOW_WATERMARK, MIN_COVERAGE, MIN_ZERO_FILLED],
    for_giant_pages: false,
    asks_for_gains: false,
    settings: &[],
    ordered: &[(&LOW_WATERMARK, &HIGH_WATERMARK)],
    build: |values| Box::new(HawkEye::new(values)),
};

/// Buckets of coverage: 0 to 50 base pages, 51 to 101 and so on.
const BUCKETS: usize = 10;
/// Intervals after which a huge page that held too little zeros to be demoted is looked into again.
const INSPECT_AGAIN: u8 = 12;

/// What is remembered of one region.
#[derive(Clone, Copy, Debug)]
struct State {
    page_size: PageSize,
    /// Mean accessed base pages: each interval halves the weight of the past.
    coverage: f32,
    /// Intervals until it may be looked into (again).
    inspect_in: u8,
    /// Set once it was demoted: the base pages it had mapped when first seen afterwards.
    demoted: Demoted,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Demoted {
    Never,
    JustNow,
    WithMapped(u16),
}

struct HawkEye {
    high_watermark: f64,
    low_watermark: f64,
    min_coverage: f64,
    min_zero_filled: u16,
    recovering: bool,
    states: Tracked<State>,
}

impl HawkEye {
    fn new(values: Values<'_>) -> Self {
        HawkEye {
            high_watermark: values.get(&HIGH_WATERMARK),
            low_watermark: values.get(&LOW_WATERMARK),
            min_coverage: values.get(&MIN_COVERAGE),
            min_zero_filled: values.count(&MIN_ZERO_FILLED),
            recovering: false,
            states: Tracked::default(),
        }
    }

    /// Whether bloat is being recovered: from the high watermark until the low one.
    fn update_pressure(&mut self, memory: &MemoryObservation) {
        let in_use = share_in_use(memory);
        self.recovering = if self.recovering {
            in_use >= self.low_watermark
        } else {
            in_use > self.high_watermark
        };
    }

    fn update_states(&mut self, observation: &Observation) {
        self.states.merge(observation, |process, region, before| {
            let accessed = f32::from(region.accessed);
            let Some(mut state) = before else {
                let coverage = if process.accesses_known {
                    accessed
                } else {
                    0.0
                };
                let page_size = region.page_size;
                return Some(State {
                    page_size,
                    coverage,
                    inspect_in: 0,
                    demoted: Demoted::Never,
                });
            };
            if state.page_size != region.page_size {
                state.page_size = region.page_size;
                state.inspect_in = 0;
                state.coverage = accessed;
            } else if process.accesses_known {
                state.coverage = f32::midpoint(state.coverage, accessed);
            }
            state.inspect_in = state.inspect_in.saturating_sub(1);
            if state.demoted == Demoted::JustNow && !region.is_huge() {
                state.demoted = Demoted::WithMapped(region.mapped);
            }
            Some(state)
        });
    }

    fn may_promote(&self, region: &RegionObservation, state: &State) -> bool {
        let grown = match state.demoted {
            Demoted::Never => true,
            Demoted::JustNow => false,
            Demoted::WithMapped(then) => region.mapped >= then.saturating_add(self.min_zero_filled),
        };
        !region.is_huge() && grown && f64::from(state.coverage) >= self.min_coverage
    }

    /// Processes by estimated translation overhead, the largest first: the mean accessed base pages that
    /// are not mapped by huge pages.
    fn by_overhead<'a>(&self, observation: &'a Observation) -> Vec<&'a crate::ProcessObservation> {
        let mut processes: Vec<_> = observation
            .processes
            .iter()
            .map(|process| {
                let base = self
                    .states
                    .join(process)
                    .filter(|(region, _)| !region.is_huge());
                (
                    base.map(|(_, state)| f64::from(state.coverage))
                        .sum::<f64>(),
                    process,
                )
            })
            .collect();
        processes.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        processes.into_iter().map(|(_, process)| process).collect()
    }

    fn promotions(&self, observation: &Observation) -> Vec<Action> {
        let mut buckets: [Vec<(ProcessId, VecDeque<Region>)>; BUCKETS] = Default::default();
        for process in self.by_overhead(observation) {
            for (region, state) in self.states.join(process) {
                if self.may_promote(region, state)
                    && let Some(queues) = buckets.get_mut(bucket(state.coverage))
                {
                    match queues.last_mut().filter(|(id, _)| *id == process.process) {
                        Some((_, queue)) => queue.push_back(region.region),
                        None => queues.push((process.process, VecDeque::from([region.region]))),
                    }
                }
            }
        }
        let mut actions = Vec::new();
        for queues in buckets.into_iter().rev() {
            take_turns(queues, &mut actions);
        }
        actions
    }

    /// Huge pages known to hold enough zeros, most zeros first.
    fn demotions(&mut self, observation: &Observation) -> Vec<Action> {
        let mut bloated = Vec::new();
        for process in &observation.processes {
            for region in process
                .regions
                .iter()
                .filter(|region| region.page_size == PageSize::Huge)
            {
                let Some(zero_filled) = region.zero_filled else {
                    continue;
                };
                let target = RegionRef {
                    process: process.process,
                    region: region.region,
                };
                if zero_filled >= self.min_zero_filled {
                    bloated.push((zero_filled, target));
                }
                if let Some(state) = self.states.get_mut(target) {
                    state.inspect_in = INSPECT_AGAIN;
                }
            }
        }
        bloated.sort_by_key(|(zero_filled, target)| (std::cmp::Reverse(*zero_filled), *target));
        let demote = |(_, target)| Action {
            kind: ActionKind::Demote,
            target,
        };
        bloated.into_iter().map(demote).collect()
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bucket(coverage: f32) -> usize {
    let width = f32::from(PAGES_PER_REGION) / 10.0;
    ((coverage.max(0.0) / width) as usize).min(BUCKETS - 1)
}

/// One promotion of each process, then another of each, until all are taken.
fn take_turns(mut queues: Vec<(ProcessId, VecDeque<Region>)>, actions: &mut Vec<Action>) {
    while !queues.is_empty() {
        for (process, queue) in &mut queues {
            if let Some(region) = queue.pop_front() {
                let target = RegionRef {
                    process: *process,
                    region,
                };
                actions.push(Action {
                    kind: ActionKind::Promote,
                    target,
                });
            }
        }
        queues.retain(|(_, queue)| !queue.is_empty());
    }
}

impl Policy for HawkEye {
    fn name(&self) -> &'static str {
        INFO.name
    }

    /// While bloat is recovered: the huge pages of the processes with the least translation overhead
    /// first, as in the original.
    fn inspect(&mut self, observation: &Observation) -> Vec<RegionRef> {
        self.update_pressure(&observation.memory);
        if !self.recovering {
            return Vec::new();
        }
        let mut targets = Vec::new();
        for process in self.by_overhead(observation).into_iter().rev() {
            for (region, state) in self.states.join(process) {
                if region.page_size == PageSize::Huge && state.inspect_in == 0 {
                    targets.push(RegionRef {
                        process: process.process,
                        region: region.region,
                    });
                }
            }
        }
        targets
    }

    fn decide(&mut self, observation: &Observation, _failures: &FailureMemory) -> Vec<Action> {
        self.update_pressure(&observation.memory);
        self.update_states(observation);
        if self.recovering {
            self.demotions(observation)
        } else {
            self.promotions(observation)
        }
    }

    fn learn(&mut self, action: &Action, outcome: Outcome) {
        let demoted = matches!(outcome, Outcome::Done { .. }) && action.kind == ActionKind::Demote;
        if demoted && let Some(state) = self.states.get_mut(action.target) {
            state.demoted = Demoted::JustNow;
        }
    }

    fn demotes_to_give_back(&self) -> bool {
        true
    }

    fn settling_intervals(&self) -> usize {
        2
    }
}
