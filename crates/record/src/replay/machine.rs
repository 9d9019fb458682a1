//! The replayed machine: what was recorded, behind the trait that the live machine has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mega_core::engine::Unmet;
use mega_core::{
    Action, ActionKind, Call, Cause, Gain, HUGE_PAGE_SIZE, Machine, MemoryObservation, Observation,
    Outcome, PAGES_PER_REGION, PageSize, ProcessId, RegionRef,
};
use mega_sim::Costs;

use super::playback::{Due, Playback};
use super::player::Player;
use super::process::Process;
use super::terms::Terms;
use crate::look::{Header, Look};

/// The recording has no further look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording is over")]
pub struct Over;

/// How it was at an observation, as far as the observation does not say. All in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtObservation {
    /// When the latest look was.
    pub(super) at: Duration,
    /// Resident in the recording.
    pub(super) recorded: u64,
    /// Of that in huge pages in the recording.
    pub(super) recorded_huge: u64,
    /// In huge pages of the recording that the policy demoted, and so sees no more.
    pub(super) blind: u64,
}

/// A machine whose processes do what they did in a recording. Its clock is the recording's.
///
/// An observation has all looks since the one before it. Where there was none yet, it waits for the next.
pub struct ReplayedMachine<L> {
    playback: Playback<L>,
    terms: Terms,
    split_gives_back: bool,
    now: Duration,
    cpu: Duration,
    processes: BTreeMap<ProcessId, Process>,
    /// What the latest look said of the machine as a whole.
    memory: MemoryObservation,
    /// Processes that have forked since the latest look: what they give up may be their children's.
    forked: BTreeSet<ProcessId>,
    cpu_since: Duration,
    at_observation: AtObservation,
    promoted: BTreeSet<RegionRef>,
}

impl<L: Iterator<Item = Look>> ReplayedMachine<L> {
    /// A machine at the beginning of a recording.
    #[must_use]
    pub fn new(header: &Header, looks: L, terms: Terms) -> Self {
        ReplayedMachine {
            playback: Playback::new(header, None, looks, &terms),
            terms,
            split_gives_back: header.split_gives_back,
            now: Duration::ZERO,
            cpu: Duration::ZERO,
            processes: BTreeMap::new(),
            memory: MemoryObservation::default(),
            forked: BTreeSet::new(),
            cpu_since: Duration::ZERO,
            at_observation: AtObservation::default(),
            promoted: BTreeSet::new(),
        }
    }

    /// The regions that were promoted and not demoted since.
    #[must_use]
    pub fn promoted(&self) -> &BTreeSet<RegionRef> {
        &self.promoted
    }

    /// What is read of the recording: how far it was usable, once it is over.
    #[must_use]
    pub fn looks(&self) -> &L {
        self.playback.looks()
    }

    /// Plays the recording up to this machine's time.
    fn catch_up(&mut self) {
        while let Some(due) = self.playback.due(self.now) {
            match due {
                Due::Look(look) => self.play(*look),
                Due::Calls(calls) => return calls.iter().for_each(|call| self.hear(call)),
            }
        }
    }

    /// A process changes its mappings. What it gives up is free from then on; the next look has counted that.
    fn hear(&mut self, call: &Call) {
        let Some(range) = call.kind.range() else {
            self.forked.insert(call.process);
            return;
        };
        let Some(process) = self.processes.get_mut(&call.process) else {
            return;
        };
        let gone = process.lose(range);
        self.promoted.retain(|target| {
            target.process != call.process || !gone.regions.contains(&target.region)
        });
        if !self.forked.contains(&call.process) {
            let memory = &mut self.memory;
            memory.free = memory.free.saturating_add(gone.bytes);
            memory.available = memory.available.saturating_add(gone.bytes);
            memory.contiguity = memory.contiguity.saturating_add(gone.blocks_in_bytes);
        }
    }

    fn play(&mut self, mut look: Look) {
        look.calls.iter().for_each(|call| self.hear(call));
        self.forked.clear();
        let seen = &mut look.observation;
        let adds = self.playback.has_look();
        let mut before = std::mem::take(&mut self.processes);
        for recorded in std::mem::take(&mut seen.processes) {
            let id = recorded.process;
            let process = match before.remove(&id) {
                Some(mut process) => {
                    process.go_on(recorded, adds);
                    process
                }
                None => Process::new(recorded),
            };
            self.processes.insert(id, process);
        }
        self.memory = seen.memory.clone();
        self.cpu_since = look.cpu;
        let processes = &self.processes;
        self.playback
            .take_over(look, |process| processes.contains_key(process));
    }

    fn memory_now(&self) -> MemoryObservation {
        let processes = self.processes.values();
        let taken = processes.map(|process| (process.node(), process.taken()));
        self.terms.memory(&self.memory, taken)
    }

    /// Lets the manager work for `cycles` of the table of costs.
    fn spend(&mut self, cycles: u64) {
        let time = self.terms.costs.time(cycles);
        self.now += time;
        self.cpu += time;
    }

    /// Performs an action; `contiguity` bytes are contiguous.
    fn perform(&mut self, action: &Action, contiguity: u64) -> Outcome {
        let costs = self.terms.costs;
        let region = action.target.region;
        let Some(process) = self.processes.get_mut(&action.target.process) else {
            return Outcome::Failed(Cause::Gone);
        };
        let Some(seen) = process.look(region) else {
            return Outcome::Failed(Cause::Gone);
        };
        let (outcome, cycles) = match (action.kind, seen.page_size) {
            (ActionKind::Promote, PageSize::Huge | PageSize::Giant)
            | (ActionKind::Demote, PageSize::Base) => (Outcome::AlreadySo, 0),
            (ActionKind::Promote, PageSize::Base) if contiguity < HUGE_PAGE_SIZE => {
                (Outcome::Failed(Cause::NoMemory), 0)
            }
            (ActionKind::Promote, PageSize::Base) => {
                process.promote(region);
                self.promoted.insert(action.target);
                let done = Outcome::Done {
                    resident_before: seen.resident_bytes(),
                    resident_after: HUGE_PAGE_SIZE,
                };
                (done, cycles_of_promotion(&costs, seen.mapped))
            }
            (ActionKind::Demote, PageSize::Huge) => {
                self.promoted.remove(&action.target);
                let done = Outcome::Done {
                    resident_before: HUGE_PAGE_SIZE,
                    resident_after: process.demote(region, self.split_gives_back),
                };
                let looked = u64::from(self.split_gives_back) * u64::from(PAGES_PER_REGION);
                (done, costs.split + looked * costs.inspect_page)
            }
            // Giant pages stay as they were recorded.
            (ActionKind::Demote, PageSize::Giant)
            | (ActionKind::PromoteGiant | ActionKind::DemoteGiant | ActionKind::FreeZero, _) => {
                (Outcome::Failed(Cause::NotEligible), 0)
            }
        };
        self.spend(cycles);
        outcome
    }
}

/// As the simulated machine has it: what is mapped is copied, and the rest zeroed.
fn cycles_of_promotion(costs: &Costs, mapped: u16) -> u64 {
    let mapped = u64::from(mapped.min(PAGES_PER_REGION));
    let unmapped = u64::from(PAGES_PER_REGION) - mapped;
    costs.collapse + mapped * costs.copy_page + unmapped * costs.zero_page
}

impl<L: Iterator<Item = Look>> Machine for ReplayedMachine<L> {
    type Error = Over;

    fn now(&self) -> Duration {
        self.now
    }

    fn cpu_time(&self) -> Duration {
        self.cpu
    }

    fn observe(&mut self) -> Result<Observation, Over> {
        self.catch_up();
        if !self.playback.has_look() {
            let next = self.playback.next_look().ok_or(Over)?;
            self.now = self.now.max(next.at);
            self.play(next);
        }
        let interval = self.playback.observe();
        let processes = &self.processes;
        self.playback.translate(interval, |process| {
            processes.get(process).map(Process::accessed)
        });
        let sum = |of: fn(&Process) -> u64| self.processes.values().map(of).sum();
        self.at_observation = AtObservation {
            at: self.playback.latest(),
            recorded: sum(Process::recorded_bytes),
            recorded_huge: sum(Process::recorded_huge_bytes),
            blind: sum(Process::blind_bytes),
        };
        let took = std::mem::take(&mut self.cpu_since);
        self.now += took;
        self.cpu += took;
        let memory = self.memory_now();
        Ok(Observation {
            interval,
            processes: self.processes.values_mut().map(Process::observe).collect(),
            memory,
            idle_cpus: self.playback.idle_cpus(),
            giant_pages: false,
            free_zero: false,
            counted: BTreeMap::new(),
            glances: self.playback.take_glances(),
        })
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        self.catch_up();
        let process = self.processes.get(&target.process)?;
        let mapped = process.look(target.region)?.mapped;
        let count = process.zero_filled(target.region);
        self.spend(u64::from(mapped) * self.terms.costs.inspect_page);
        count
    }

    fn measures(&self) -> bool {
        self.playback.measures()
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        self.catch_up();
        self.playback.gain(process)
    }

    fn promotion_seconds(&self) -> Option<f64> {
        Some(self.terms.promotion_seconds())
    }

    fn rest(&mut self, time: Duration) {
        self.now += time;
        self.catch_up();
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.catch_up();
        let mut contiguity = self.memory_now().contiguity;
        let mut outcomes = Vec::with_capacity(actions.len());
        for action in actions {
            let outcome = self.perform(action, contiguity);
            let took_block =
                action.kind == ActionKind::Promote && matches!(outcome, Outcome::Done { .. });
            if took_block {
                contiguity = contiguity.saturating_sub(HUGE_PAGE_SIZE);
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

impl<L: Iterator<Item = Look>> Player for ReplayedMachine<L> {
    type Looks = L;

    fn playback(&self) -> &Playback<L> {
        &self.playback
    }

    fn at_observation(&self) -> AtObservation {
        self.at_observation
    }

    fn promoted(&self) -> BTreeSet<RegionRef> {
        self.promoted.clone()
    }

    fn keep_ahead(&mut self, _unmet: &[Unmet]) {}

    fn moved(&self) -> u64 {
        0
    }
}
