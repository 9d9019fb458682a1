//! `adaptive`: promotes and demotes where that saves more CPU time than it costs.
//!
//! All that it does it decides by one comparison (`comparison`), of CPU time with CPU time:
//!
//! - A promotion gains what its pages in use save a second, for as long as the region is expected to live. What has lived for
//!   a time is expected to live for about as long again, but it counts no longer than the payback horizon. What a page
//!   saves is measured (`lives`): how often the process touches pages, and what touches cost on this machine. If the process's whole
//!   working set fits the TLB, it gains nothing.
//! - It costs the copy and the time that the process stands still, as the engine has learnt them; the block, by how scarce
//!   free blocks are (`supply`); and the base pages that it adds, by how scarce memory is, of the machine or of the process's cgroup.
//! - A demotion gains the zero-filled base pages that it gives back, by the same price of memory, and costs the
//!   translations of the pages in use, and the copy should the region become huge again (`demote`).
//! - A giant page saves what huge pages in use cost beyond the TLB, adds no memory, and costs the copy of a span (`giant`).
//!
//! Two bounds hold whatever the comparison says. What promotions add to a process stays within the bloat that is allowed,
//! and the memory to keep free is kept: below it nothing is promoted, and only then anything is demoted (`pressure`).
//! `adaptive` does not promote a region that is partly swapped out.
//!
//! Some things must be known before there is something to compare. A region must survive a whole interval, in which it is seen
//! what of it is in use. It must survive longer if its process keeps freeing memory, or if it was promoted and
//! demoted before. A huge page is cold if it was not accessed in three intervals. Of a cold giant page `adaptive` first
//! gives back the huge pages that hold only zeros, if the machine can; it demotes the giant page if there are none,
//! which costs almost nothing.
//!
//! The first touch of a page is not use: pages mapped since the last observation do not count as accessed. If accesses
//! are unknown (the `mapped` tracker), every mapped page counts as used, and a region must survive two intervals;
//! `adaptive` then cannot tell which huge pages are cold.

mod comparison;
mod demote;
mod giant;
mod lives;
mod pressure;
mod promote;
mod settings;
mod state;
mod sums;
mod supply;

use std::collections::BTreeMap;

use crate::action::{Action, ActionKind, Outcome};
use crate::failures::FailureMemory;
use crate::gain::{Circumstances, Gain};
use crate::observation::{Observation, RegionRef};
use crate::page::BASE_PAGE_SIZE;
use crate::process::ProcessId;

use super::Policy;
use super::tracked::Tracked;

use lives::Lives;
use pressure::Pressure;
use promote::Known;
pub(super) use settings::INFO;
use settings::Settings;
use state::{COLD, State};
use sums::Sums;

/// What the last interval weighs in the mean churn when more was freed in it than before.
const CHURN_RISES: f32 = 0.5;
/// The same when less was: a program is trusted more slowly than it is distrusted.
const CHURN_FALLS: f32 = 0.25;

/// The policy and what it remembers.
struct Adaptive {
    settings: Settings,
    states: Tracked<State>,
    /// Of each process's regions the part that it freed in an interval: a mean that rises fast and
    /// falls slowly.
    churn: BTreeMap<ProcessId, f32>,
    pressure: Pressure,
    circumstances: Circumstances,
    lives: Lives,
    /// Each process of the last observation, added up.
    sums: Vec<Sums>,
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
            lives: Lives::default(),
            sums: Vec::new(),
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
        let mut kept: Vec<(ProcessId, usize)> = Vec::with_capacity(remembered.len());
        let counts = self.circumstances.counts;
        let seconds = observation.interval.as_secs_f32();
        let mut sums: Vec<(ProcessId, Sums)> = Vec::with_capacity(remembered.len());
        self.states.merge(observation, |process, region, before| {
            if kept.last().is_none_or(|(id, _)| *id != process.process) {
                kept.push((process.process, 0));
                sums.push((process.process, Sums::default()));
            }
            if let (Some(state), Some((_, kept))) = (before, kept.last_mut()) {
                *kept += usize::from(state.survives_as(region));
            }
            let known = process.accesses_known;
            let state = State::next(before, region, seconds, known, counts);
            if let Some((_, sums)) = sums.last_mut() {
                sums.add(region, &state);
            }
            Some(state)
        });
        self.sums = of_each(observation, sums);
        self.lives.update(observation, &self.sums);
        let kept: BTreeMap<ProcessId, usize> = kept.into_iter().collect();
        let processes = observation.processes.iter().zip(remembered);
        self.churn = processes
            .map(|(process, remembered)| {
                let process = process.process;
                let kept = kept.get(&process).copied().unwrap_or(0);
                let before = self.churn_of(process);
                (process, churn(before, share_freed(remembered, kept)))
            })
            .collect();
    }

    fn churn_of(&self, process: ProcessId) -> f32 {
        self.churn.get(&process).copied().unwrap_or(0.0)
    }
}

/// The sums of each process of the observation: nothing for those without a region.
fn of_each(observation: &Observation, sums: Vec<(ProcessId, Sums)>) -> Vec<Sums> {
    let mut sums = sums.into_iter().peekable();
    let of = |id| {
        sums.next_if(|(process, _)| *process == id)
            .map_or_else(Sums::default, |(_, sums)| sums)
    };
    let processes = observation.processes.iter();
    processes.map(|process| process.process).map(of).collect()
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
        let (settings, pressure, lives) = (&self.settings, &self.pressure, &mut self.lives);
        let known = Known {
            states: &self.states,
            sums: &self.sums,
            circumstances: &self.circumstances,
        };
        let may_grow = |process| !pressure.is_on(process);
        let mut actions = Vec::new();
        if pressure.is_anywhere() {
            actions = demote::of_giant_pages(known.states, pressure, observation);
            actions.extend(demote::demotions(
                settings,
                &known,
                lives,
                pressure,
                observation,
                failures,
            ));
        }
        self.blocks_short = Vec::new();
        if !pressure.is_on_machine() {
            let giant = giant::promotions(settings, &known, lives, observation, may_grow);
            actions.extend(giant);
            let churn = |process: ProcessId| self.churn.get(&process).copied().unwrap_or(0.0);
            let promotions =
                promote::promotions(settings, &known, lives, observation, may_grow, churn);
            actions.extend(promotions.actions);
            self.blocks_short = promotions.blocks_short;
        }
        actions
    }

    fn blocks_short(&self) -> Vec<(ProcessId, u64)> {
        self.blocks_short.clone()
    }

    fn learn(&mut self, action: &Action, outcome: Outcome) {
        let state = self.states.get_mut(action.target);
        if action.kind == ActionKind::FreeZero {
            if let (Some(state), false) = (state, outcome == Outcome::NotTried) {
                state.searched();
            }
            return;
        }
        let Outcome::Done {
            resident_before,
            resident_after,
        } = outcome
        else {
            if let (ActionKind::PromoteGiant, Outcome::Remapped { .. }, Some(state)) =
                (action.kind, outcome, state)
            {
                state.promoted_giant();
            }
            return;
        };
        match action.kind {
            ActionKind::Promote => {
                if let Some(state) = state {
                    let added = resident_after.saturating_sub(resident_before) / BASE_PAGE_SIZE;
                    state.promoted((resident_before > 0).then_some(added));
                }
            }
            ActionKind::Demote => {
                if let Some(state) = state {
                    state.demoted();
                }
            }
            // Nothing becomes or ceases to be resident by these two; the third is dealt with above.
            ActionKind::PromoteGiant | ActionKind::DemoteGiant | ActionKind::FreeZero => {}
        }
    }

    fn bears_any_interval(&self) -> bool {
        true
    }

    fn expect(&mut self, circumstances: Circumstances) {
        self.circumstances = circumstances;
    }

    fn unmeasured(&self) -> Vec<ProcessId> {
        self.lives.unmeasured()
    }

    fn learn_gain(&mut self, process: ProcessId, gain: Option<Gain>) {
        self.lives.learn(process, gain);
    }

    fn demotes_to_give_back(&self) -> bool {
        true
    }

    fn settling_intervals(&self) -> usize {
        // The first observation only begins the histories.
        1 + usize::from(COLD)
    }
}
