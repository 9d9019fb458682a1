//! `adaptive`: promotes where that saves translations, at the price that memory has now.
//!
//! A promotion is worth the translations that it takes out of the TLB's working set: the base pages in use in a region,
//! less the one huge page that replaces them. If a process's whole working set fits the TLB, `adaptive` leaves the
//! process alone. A promotion costs a copy, a free block, and the base pages that it adds:
//!
//! - A region that is (nearly) all mapped adds none. Its bar is low while free blocks are plentiful, and rises as they
//!   become scarce (`promote`).
//! - `adaptive` promotes a less mapped region only if most of it is in use, and if the pages it adds are a small part
//!   of what its process has resident.
//! - A region must survive a whole interval before its promotion. It must survive longer if its process keeps freeing
//!   memory, or if it was promoted and demoted before.
//!
//! Promotions must be paid back. If the machine can measure what a process would gain, `adaptive` compares: the CPU time that
//! huge pages save it in the time that it is expected to live, which is about as long as it has lived, against the CPU
//! time that it and the manager lose by the promotions. What is not paid back soon is promoted in part, as it goes (`payback`).
//!
//! If the machine has giant pages, `adaptive` promotes a span after huge pages have mapped all of it for a while and
//! enough of them are in use. That saves up to 511 more translations and adds no memory, but may copy all of the span
//! (`giant`). The more often the kernel broke the page up again, the longer the span waits.
//!
//! Memory is short if the machine has little available, or the memory cgroup of a process has (`pressure`). A container
//! at its limit gets its bloat back and does not grow by promotions, whatever the machine has. `adaptive` does not
//! promote a region that is partly swapped out.
//!
//! `adaptive` demotes a huge page only while memory is short, and only if a count showed that enough of its base pages
//! are zero-filled: a demotion gives those back (`demote`). From a cold giant page it first gives back the huge pages
//! that hold only zeros, if the machine can. It demotes the giant page only if there are none, which costs almost
//! nothing. Without a shortage, cold pages stay.
//!
//! The first touch of a page is not use: pages mapped since the last observation do not count as accessed. If accesses
//! are unknown (the `mapped` tracker), every mapped page counts as used, and a region must survive two intervals;
//! `adaptive` then cannot tell which huge pages are cold.

mod demote;
mod giant;
mod payback;
mod pressure;
mod promote;
mod settings;
mod state;
mod supply;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::action::{Action, ActionKind, Outcome};
use crate::failures::FailureMemory;
use crate::gain::{Circumstances, Gain};
use crate::observation::{Observation, RegionRef};
use crate::page::BASE_PAGE_SIZE;
use crate::process::ProcessId;

use super::Policy;
use super::tracked::Tracked;

use payback::Paybacks;
use pressure::Pressure;
pub(super) use settings::INFO;
use settings::Settings;
use state::State;

/// What the last interval weighs in the mean churn when more was freed in it than before.
const CHURN_RISES: f32 = 0.5;
/// The same when less was: a program is trusted more slowly than it is distrusted.
const CHURN_FALLS: f32 = 0.25;

/// What one pass over a process's regions counts.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Regions that huge pages map.
    huge: usize,
    /// Regions that are as they were remembered.
    kept: usize,
}

/// The policy and what it remembers.
struct Adaptive {
    settings: Settings,
    states: Tracked<State>,
    /// Of each process's regions the part that it freed in an interval: a mean that rises fast and
    /// falls slowly.
    churn: BTreeMap<ProcessId, f32>,
    pressure: Pressure,
    circumstances: Circumstances,
    paybacks: Paybacks,
    /// Free blocks that each process lacked at the last decision.
    blocks_short: Vec<(ProcessId, u64)>,
}

impl Adaptive {
    fn new(settings: Settings) -> Self {
        Adaptive {
            settings,
            states: Tracked::default(),
            churn: BTreeMap::new(),
            pressure: Pressure::default(),
            circumstances: Circumstances::default(),
            paybacks: Paybacks::default(),
            blocks_short: Vec::new(),
        }
    }

    /// Brings what is remembered up to the observation, in one pass over the regions.
    fn update(&mut self, observation: &Observation) {
        self.pressure.update(&self.settings, observation);
        let remembered: Vec<usize> = observation
            .processes
            .iter()
            .map(|process| self.states.of(process.process).len())
            .collect();
        let mut seen: Vec<(ProcessId, Seen)> = Vec::with_capacity(remembered.len());
        let counts = self.circumstances.counts;
        self.states.merge(observation, |process, region, before| {
            if seen.last().is_none_or(|(id, _)| *id != process.process) {
                seen.push((process.process, Seen::default()));
            }
            if let Some((_, seen)) = seen.last_mut() {
                seen.huge += usize::from(region.is_huge());
                seen.kept += usize::from(before.is_some_and(|state| state.survives_as(region)));
            }
            Some(State::next(before, region, process.accesses_known, counts))
        });
        let seen: BTreeMap<ProcessId, Seen> = seen.into_iter().collect();
        let seen = |process| seen.get(&process).copied().unwrap_or_default();
        let price = &self.circumstances.price;
        self.paybacks
            .update(observation, |process| seen(process).huge, price);
        let processes = observation.processes.iter().zip(remembered);
        self.churn = processes
            .map(|(process, remembered)| {
                let process = process.process;
                let before = self.churn_of(process);
                let freed = share_freed(remembered, seen(process).kept);
                (process, churn(before, freed))
            })
            .collect();
    }

    fn churn_of(&self, process: ProcessId) -> f32 {
        self.churn.get(&process).copied().unwrap_or(0.0)
    }
}

/// The part of a process's remembered regions that it has freed since.
#[allow(clippy::cast_precision_loss)]
fn share_freed(remembered: usize, kept: usize) -> f32 {
    if remembered == 0 {
        0.0
    } else {
        remembered.saturating_sub(kept) as f32 / remembered as f32
    }
}

/// The mean churn after an interval in which that share was freed.
fn churn(before: f32, freed: f32) -> f32 {
    let weight = if freed > before {
        CHURN_RISES
    } else {
        CHURN_FALLS
    };
    before + (freed - before) * weight
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn inspect(&mut self, observation: &Observation) -> Vec<RegionRef> {
        self.pressure.update(&self.settings, observation);
        demote::worth_inspecting(&self.states, &self.pressure, observation)
    }

    fn decide(&mut self, observation: &Observation, failures: &FailureMemory) -> Vec<Action> {
        self.update(observation);
        let (settings, states, pressure) = (&self.settings, &self.states, &self.pressure);
        let may_grow = |process| !pressure.is_on(process);
        let mut actions = Vec::new();
        if pressure.is_anywhere() {
            actions = demote::of_giant_pages(settings, states, pressure, observation);
            actions.extend(demote::demotions(
                settings,
                states,
                pressure,
                observation,
                failures,
            ));
        }
        self.blocks_short = Vec::new();
        if !pressure.is_on_machine() {
            actions.extend(giant::promotions(settings, states, observation, may_grow));
            let churn = |process: ProcessId| self.churn.get(&process).copied().unwrap_or(0.0);
            let paybacks = &mut self.paybacks;
            let paying = |process, promotions| {
                let horizon = settings.payback_horizon;
                paybacks.paying(process, promotions, horizon, &self.circumstances)
            };
            let promotions =
                promote::promotions(settings, states, observation, may_grow, churn, paying);
            actions.extend(promotions.actions);
            self.blocks_short = promotions.blocks_short;
        }
        actions
    }

    fn blocks_short(&self) -> Vec<(ProcessId, u64)> {
        self.blocks_short.clone()
    }

    fn learn(&mut self, action: &Action, outcome: Outcome) {
        let is_search = action.kind == ActionKind::FreeZero;
        if matches!(outcome, Outcome::Failed(_)) && !is_search {
            // It changes nothing, and where a million fail, looking each up is a good part of the step.
            return;
        }
        let Some(state) = self.states.get_mut(action.target) else {
            return;
        };
        match (action.kind, outcome) {
            (ActionKind::FreeZero, Outcome::NotTried) => {}
            (ActionKind::FreeZero, _) => state.searched(),
            (ActionKind::PromoteGiant, Outcome::Remapped { .. }) => state.promoted_giant(),
            (
                ActionKind::Promote,
                Outcome::Done {
                    resident_before,
                    resident_after,
                },
            ) => {
                let added = resident_after.saturating_sub(resident_before) / BASE_PAGE_SIZE;
                state.promoted((resident_before > 0).then_some(added));
            }
            (ActionKind::Demote, Outcome::Done { .. }) => state.demoted(),
            // Nothing becomes or ceases to be resident.
            _ => {}
        }
    }

    fn bears_any_interval(&self) -> bool {
        true
    }

    fn expect(&mut self, circumstances: Circumstances) {
        self.circumstances = circumstances;
    }

    fn unmeasured(&self) -> Vec<ProcessId> {
        self.paybacks.unmeasured().to_vec()
    }

    fn learn_gain(&mut self, process: ProcessId, gain: Option<Gain>, age: Duration) {
        self.paybacks.learn(process, gain, age);
    }

    fn demotes_to_give_back(&self) -> bool {
        true
    }

    fn settling_intervals(&self) -> usize {
        // The first observation only begins the histories.
        1 + usize::from(
            self.settings
                .min_age
                .max(self.settings.cold_intervals)
                .max(2),
        )
    }
}
