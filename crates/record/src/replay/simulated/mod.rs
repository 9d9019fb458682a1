//! The replayed machine on the simulated kernel: physical memory, page tables, giant pages and compaction are simulated, and what
//! programs do to their memory is the recording's.
//!
//! Which base pages of a region are mapped and used is not recorded, but how many: they are taken to be its first. What a huge page
//! of the recording hides is not made up: it is huge here too, as far as memory allows, and once a policy demoted it, it sees it no
//! more. What everybody else had in use at the first look stays in use; all of that can be moved.

mod others;
mod played;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mega_core::compaction::ahead::{MigrationPace, keep_ahead};
use mega_core::compaction::{BestRatio, CompactionPolicy};
use mega_core::engine::Unmet;
use mega_core::{
    Action, Cause, Gain, Machine, Observation, Outcome, ProcessId, ProcessObservation, RegionRef,
};
use mega_sim::physical::{Layout, LayoutError};
use mega_sim::{Kernel, Settings, SimulatedMachine};

use super::machine::{AtObservation, Over};
use super::player::Player;
use super::terms::Terms;
use super::translation::{Core, Translation};
use crate::look::{Header, Look, TouchRate};
use played::Played;

/// Memory comes in such pieces.
const PIECE: u64 = 4 << 20;

/// Why a recording cannot be replayed on the simulated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotSimulate {
    /// It has no look.
    #[error("the recording has no look")]
    Empty,
    /// It does not say how much memory the machine had.
    #[error(
        "the recording does not say how much memory its machine had; say how much, as --memory 64GiB"
    )]
    NoMemory,
    /// There can be no such machine.
    #[error("{0}")]
    Layout(#[from] LayoutError),
}

/// A machine whose programs do what they did in a recording, on the simulated kernel.
pub struct SimulatedReplay<L> {
    looks: L,
    /// A look that is not due yet.
    ahead: Option<Look>,
    machine: SimulatedMachine,
    processes: BTreeMap<ProcessId, Played>,
    compaction: BestRatio,
    pace: MigrationPace,
    /// Whether the recording says what processes would gain.
    measures: bool,
    gains: BTreeMap<ProcessId, Gain>,
    rates: BTreeMap<ProcessId, TouchRate>,
    core: Option<Core>,
    idle_cpus: Option<f64>,
    /// When the latest look was.
    latest: Duration,
    looks_since: u32,
    interval_since: Duration,
    at_observation: AtObservation,
    missed: u64,
    merged: u64,
}

impl<L: Iterator<Item = Look>> SimulatedReplay<L> {
    /// A machine at the beginning of a recording, with giant pages as the patched kernel has them.
    ///
    /// # Errors
    /// Where there is no look, or there can be no such memory.
    pub fn new(header: &Header, mut looks: L, terms: Terms) -> Result<Self, CannotSimulate> {
        let first = looks.next().ok_or(CannotSimulate::Empty)?;
        let seen = &first.observation;
        let memory = terms.memory(&seen.memory, std::iter::empty());
        if memory.total < PIECE {
            return Err(CannotSimulate::NoMemory);
        }
        let settings = Settings {
            giant_pages: true,
            ..Settings::default()
        };
        let layout = Layout::one_node(memory.total / PIECE * PIECE)?;
        let mut kernel = Kernel::new(&layout, settings, terms.costs);
        let recorded: u64 = seen.processes.iter().map(resident).sum();
        let in_pieces = memory.free.saturating_sub(memory.contiguity);
        // The programs' own memory will fill small pieces first, as new memory does.
        let others = others::fill(
            &mut kernel,
            memory.total.saturating_sub(memory.free + recorded),
            in_pieces + recorded,
        );
        let cpus = header.cpus.max(1);
        let mut machine = SimulatedMachine::new(kernel, cpus);
        machine.leave_unmanaged(others);
        let compaction = BestRatio::default();
        Ok(SimulatedReplay {
            looks,
            ahead: Some(first),
            machine,
            processes: BTreeMap::new(),
            pace: MigrationPace::of(&compaction),
            compaction,
            measures: header.touches && header.calibrated,
            gains: BTreeMap::new(),
            rates: BTreeMap::new(),
            core: terms.processor.map(Core::new),
            idle_cpus: None,
            latest: Duration::ZERO,
            looks_since: 0,
            interval_since: Duration::ZERO,
            at_observation: AtObservation::default(),
            missed: 0,
            merged: 0,
        })
    }

    /// What is read of the recording: how far it was usable, once it is over.
    #[must_use]
    pub fn looks(&self) -> &L {
        &self.looks
    }

    fn next_look(&mut self) -> Option<Look> {
        self.ahead.take().or_else(|| self.looks.next())
    }

    /// Plays the recording up to this machine's time.
    fn catch_up(&mut self) {
        while let Some(mut look) = self.next_look() {
            let now = self.machine.now();
            if look.at > now {
                let due = look.calls.partition_point(|call| call.at <= now);
                let due: Vec<_> = look.calls.drain(..due).collect();
                due.iter().for_each(|call| self.hear(call));
                self.ahead = Some(look);
                return;
            }
            self.play(look);
        }
    }

    fn hear(&mut self, call: &mega_core::Call) {
        let process = self.processes.get_mut(&call.process);
        if let (Some(process), Some(range)) = (process, call.kind.range()) {
            process.lose(self.machine.kernel_mut(), range);
        }
    }

    fn play(&mut self, look: Look) {
        look.calls.iter().for_each(|call| self.hear(call));
        let seen = look.observation;
        let there: BTreeSet<ProcessId> = seen.processes.iter().map(|seen| seen.process).collect();
        let adds = self.looks_since > 0;
        let kernel = self.machine.kernel_mut();
        self.processes.retain(|process, played| {
            let stays = there.contains(process);
            if !stays {
                kernel.exit(played.pid());
            }
            stays
        });
        for recorded in &seen.processes {
            let played = self
                .processes
                .entry(recorded.process)
                .or_insert_with(|| Played::start(kernel));
            let mappings = look.news.mappings.get(&recorded.process);
            if let Some(mappings) = mappings {
                played.remap(kernel, mappings);
            }
            played.go_on(kernel, recorded, adds);
        }
        self.latest = look.at;
        self.idle_cpus = seen.idle_cpus;
        for (process, rate) in look.news.touches {
            if let Some(gain) = rate.gain {
                self.gains.insert(process, gain);
            }
            self.rates.insert(process, rate);
        }
        self.gains.retain(|process, _| there.contains(process));
        self.rates.retain(|process, _| there.contains(process));
        self.looks_since += 1;
        self.interval_since += seen.interval;
        self.missed += u64::from(look.missed);
    }

    /// Counts what the processes touched in that time, which ends now.
    fn translate(&mut self, time: Duration) {
        let Some(core) = &mut self.core else {
            return;
        };
        for (process, rate) in &self.rates {
            if let Some(played) = self.processes.get_mut(process) {
                let accessed = played.accessed(self.machine.kernel());
                core.touched(rate, accessed, time);
            }
        }
    }

    /// What is seen of a process of the simulated kernel, by its name in the recording and without what that does not know.
    fn as_recorded(&self, seen: ProcessObservation) -> Option<ProcessObservation> {
        let pid = self.machine.kernel().find(seen.process)?;
        let mut processes = self.processes.iter();
        let (process, played) = processes.find(|(_, played)| played.pid() == pid)?;
        let mut regions = seen.regions;
        regions.retain(|region| !played.is_blind(region));
        Some(ProcessObservation {
            process: *process,
            regions,
            accesses_known: seen.accesses_known && played.accesses_known(),
            node: played.node(),
            cgroup: played.cgroup(),
        })
    }

    /// A region by its process's name on the simulated kernel.
    fn simulated(&self, target: RegionRef) -> Option<RegionRef> {
        let pid = self.processes.get(&target.process)?.pid();
        let process = self.machine.kernel().process(pid).id;
        Some(RegionRef { process, ..target })
    }

    fn perform(&mut self, action: &Action) -> Outcome {
        let Some(target) = self.simulated(action.target) else {
            return Outcome::Failed(Cause::Gone);
        };
        let outcomes = self.machine.act(&[Action { target, ..*action }]);
        outcomes.first().copied().unwrap_or(Outcome::NotTried)
    }
}

fn resident(seen: &ProcessObservation) -> u64 {
    let regions = seen.regions.iter();
    regions.map(|region| region.resident_bytes()).sum()
}

impl<L: Iterator<Item = Look>> Machine for SimulatedReplay<L> {
    type Error = Over;

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn cpu_time(&self) -> Duration {
        self.machine.cpu_time()
    }

    fn observe(&mut self) -> Result<Observation, Over> {
        self.catch_up();
        if self.looks_since == 0 {
            let next = self.next_look().ok_or(Over)?;
            self.machine
                .rest(next.at.saturating_sub(self.machine.now()));
            self.play(next);
        }
        self.merged += u64::from(self.looks_since > 1);
        self.looks_since = 0;
        let interval = std::mem::take(&mut self.interval_since);
        self.translate(interval);
        let Ok(mut observation) = self.machine.observe();
        let seen = std::mem::take(&mut observation.processes).into_iter();
        observation.processes = seen.filter_map(|seen| self.as_recorded(seen)).collect();
        observation.normalise();
        observation.interval = interval;
        observation.idle_cpus = self.idle_cpus;
        let kernel = self.machine.kernel();
        let sum = |of: &dyn Fn(&Played) -> u64| self.processes.values().map(of).sum();
        self.at_observation = AtObservation {
            at: self.latest,
            recorded: sum(&Played::recorded_bytes),
            recorded_huge: sum(&Played::recorded_huge_bytes),
            blind: sum(&|played| played.blind_bytes(kernel)),
        };
        Ok(observation)
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        self.catch_up();
        let played = self.processes.get(&target.process)?;
        if !played.knows_zeros(self.machine.kernel(), target.region) {
            return None;
        }
        self.machine.count_zero_filled(self.simulated(target)?)
    }

    fn measures(&self) -> bool {
        self.measures
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        self.catch_up();
        self.gains.get(&process).copied()
    }

    fn promotion_seconds(&self) -> Option<f64> {
        None
    }

    fn rest(&mut self, time: Duration) {
        self.machine.rest(time);
        self.catch_up();
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.catch_up();
        actions.iter().map(|action| self.perform(action)).collect()
    }
}

impl<L: Iterator<Item = Look>> Player for SimulatedReplay<L> {
    fn at_observation(&self) -> AtObservation {
        self.at_observation
    }

    fn promoted(&self) -> BTreeSet<RegionRef> {
        let kernel = self.machine.kernel();
        let of = |(process, played): (&ProcessId, &Played)| {
            let process = *process;
            let regions = played.promoted(kernel).into_iter();
            regions.map(move |region| RegionRef { process, region })
        };
        self.processes.iter().flat_map(of).collect()
    }

    fn missed(&self) -> u64 {
        self.missed
    }

    fn merged(&self) -> u64 {
        self.merged
    }

    fn translation(&self) -> Option<Translation> {
        self.core.as_ref()?.taken()
    }

    fn keep_ahead(&mut self, unmet: &[Unmet]) {
        let now = self.machine.now();
        let Ok(_) = keep_ahead(
            &mut self.machine,
            &mut self.compaction as &mut dyn CompactionPolicy,
            &mut self.pace,
            unmet,
            now,
        );
    }

    fn moved(&self) -> u64 {
        self.machine.kernel().counters().migrated
    }
}
