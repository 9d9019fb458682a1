//! `adaptive`: promotes where that saves translations, at the price that memory has now.
//!
//! It compares what a change saves with what it costs, both in CPU time (`deal`). A promotion saves the translations that it takes out of
//! the TLB's working set: the base pages in use in a region, less the one huge page that replaces them. What a translation is worth is
//! measured, process by process, over the time that the process is expected to live, which is about as long as it has lived (`payback`).
//! If a process's whole working set fits the TLB, `adaptive` leaves the process alone. A promotion costs a copy, a free block, and the
//! base pages that it adds (`promote`):
//!
//! - The copy takes what it was seen to take.
//! - A block costs nothing while free blocks are plentiful, and more as they become scarce.
//! - A page that is added costs at least what one in use saves, and more as memory becomes scarce. Regions that are not (nearly) all
//!   mapped add a small part of what their process has resident at most.
//! - A region must survive a whole interval before its promotion. It must survive longer if its process keeps freeing
//!   memory, or if it was promoted and demoted before.
//!
//! A process may end at any time. So what is not paid back soon is promoted in part, as it goes (`payback`).
//!
//! If the machine has giant pages, `adaptive` promotes a span after huge pages have mapped all of it for a while, by the same
//! comparison. That saves up to 511 more translations and adds no memory, but may copy all of the span (`giant`). The more often the
//! kernel broke the page up again, the longer the span waits.
//!
//! Memory is short if the machine has little available, or the memory cgroup of a process has (`pressure`). A container
//! at its limit gets its bloat back and does not grow by promotions, whatever the machine has. `adaptive` does not
//! promote a region that is partly swapped out.
//!
//! `adaptive` demotes a huge page only while memory is short, and only if a count showed that so many of its base pages
//! are zero-filled that giving them back is worth the translations (`demote`). From a cold giant page it first gives back the huge pages
//! that hold only zeros, if the machine can. It demotes the giant page only if there are none, which costs almost
//! nothing. Without a shortage, cold pages stay.
//!
//! The first touch of a page is not use: pages mapped since the last observation do not count as accessed. If accesses
//! are unknown (the `mapped` tracker), every mapped page counts as used, and a region must survive two intervals;
//! `adaptive` then cannot tell which huge pages are cold.

mod deal;
mod demote;
mod giant;
mod life;
mod measured;
mod payback;
mod pressure;
mod promote;
mod settings;
mod state;
mod supply;
mod usual;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::action::{Action, ActionKind, Outcome};
use crate::failures::FailureMemory;
use crate::gain::{Circumstances, Gain};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{BASE_PAGE_SIZE, Region};
use crate::process::ProcessId;

use super::Policy;
use super::tracked::Tracked;

use life::Made;
use payback::Paybacks;
use pressure::Pressure;
pub(super) use settings::INFO;
use settings::Settings;
use state::{Accesses, COLD_INTERVALS, State};

/// What the last interval weighs in the mean churn when more was freed in it than before.
const CHURN_RISES: f32 = 0.5;
/// The same when less was: a program is trusted more slowly than it is distrusted.
const CHURN_FALLS: f32 = 0.25;

/// What one pass over a process's regions counts.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    made: Made,
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
        for seen in &observation.processes {
            let process = seen.process;
            if self.paybacks.has_come_to_work(process, seen.accesses_known) {
                self.states.of_mut(process).for_each(State::forget_use);
            }
        }
        let mut seen: Vec<(ProcessId, Seen)> = Vec::with_capacity(remembered.len());
        let counts = self.circumstances.counts;
        let mut moment = None;
        let paybacks = &mut self.paybacks;
        self.states.merge(observation, |process, region, before| {
            if seen.last().is_none_or(|(id, _)| *id != process.process) {
                seen.push((process.process, Seen::default()));
                moment = paybacks.moment(process, observation);
            }
            let accesses = match &mut moment {
                None if !process.accesses_known => Accesses::Unknown,
                None => Accesses::InInterval,
                Some(moment) => Accesses::InMoment {
                    seen: find(moment, region.region),
                    interval_is_known: process.accesses_known,
                },
            };
            let state = State::next(before, region, accesses, counts);
            if let Some((_, seen)) = seen.last_mut() {
                seen.made.regions += usize::from(region.is_huge());
                seen.made.translations += f64::from(state.saved());
                seen.kept += usize::from(before.is_some_and(|state| state.survives_as(region)));
            }
            Some(state)
        });
        let seen: BTreeMap<ProcessId, Seen> = seen.into_iter().collect();
        let seen = |process| seen.get(&process).copied().unwrap_or_default();
        let price = &self.circumstances.price;
        self.paybacks
            .update(observation, |process| seen(process).made, price);
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

/// The region among those that ascend, of which no earlier one is asked for again.
fn find<'a>(among: &mut &'a [RegionObservation], region: Region) -> Option<&'a RegionObservation> {
    while let Some((first, rest)) = among.split_first() {
        if first.region >= region {
            return (first.region == region).then_some(first);
        }
        *among = rest;
    }
    None
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
        let (paybacks, circumstances) = (&mut self.paybacks, &self.circumstances);
        let horizon = settings.payback_horizon;
        let may_grow = |process| !pressure.is_on(process);
        let mut actions = Vec::new();
        if pressure.is_anywhere() {
            let terms = |process| paybacks.terms(process, horizon, &circumstances.price);
            actions = demote::of_giant_pages(states, pressure, observation);
            actions.extend(demote::demotions(
                settings,
                states,
                pressure,
                observation,
                failures,
                terms,
            ));
        }
        self.blocks_short = Vec::new();
        if !pressure.is_on_machine() {
            let terms =
                |process, in_use| paybacks.giant_terms(process, in_use, horizon, circumstances);
            actions.extend(giant::promotions(
                settings,
                states,
                observation,
                may_grow,
                terms,
            ));
            let churn = |process: ProcessId| self.churn.get(&process).copied().unwrap_or(0.0);
            let shown = paybacks.shown();
            let is_known = |process: &ProcessObservation| {
                process.accesses_known || shown.contains(&process.process)
            };
            let offer = |process, left| paybacks.offer(process, left, horizon, circumstances);
            let promotions = promote::promotions(
                settings,
                states,
                observation,
                may_grow,
                churn,
                is_known,
                offer,
            );
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

    fn watches(&self, process: ProcessId) -> bool {
        self.pressure.is_anywhere() || self.paybacks.watches(process)
    }

    fn glances(&self) -> bool {
        self.paybacks.glance()
    }

    fn unmeasured(&self) -> Vec<ProcessId> {
        self.paybacks.unmeasured()
    }

    fn asks_for_price(&self) -> bool {
        self.paybacks.ask_for_price()
    }

    fn learn_gain(&mut self, process: ProcessId, gain: Option<Gain>, age: Duration) {
        self.paybacks.learn(process, gain, age);
    }

    fn demotes_to_give_back(&self) -> bool {
        true
    }

    fn settling_intervals(&self) -> usize {
        // The first observation only begins the histories.
        1 + usize::from(COLD_INTERVALS)
    }
}
