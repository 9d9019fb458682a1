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
use mega_sim::physical::LayoutError;
use mega_sim::{Settings, SimulatedMachine};

use super::machine::{AtObservation, Over};
use super::playback::{Due, Playback};
use super::player::Player;
use super::terms::Terms;
use crate::look::{Header, Look};
pub use others::kernel_as_recorded;
use played::Played;

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
    playback: Playback<L>,
    machine: SimulatedMachine,
    processes: BTreeMap<ProcessId, Played>,
    compaction: BestRatio,
    pace: MigrationPace,
    at_observation: AtObservation,
    terms: Terms,
}

impl<L: Iterator<Item = Look>> SimulatedReplay<L> {
    /// A machine at the beginning of a recording, with giant pages as the patched kernel has them.
    ///
    /// # Errors
    /// Where there is no look, or there can be no such memory.
    pub fn new(header: &Header, mut looks: L, terms: Terms) -> Result<Self, CannotSimulate> {
        let first = looks.next().ok_or(CannotSimulate::Empty)?;
        let settings = Settings {
            giant_pages: true,
            ..Settings::default()
        };
        let (kernel, others) = kernel_as_recorded(&first.observation, &terms, settings)?;
        let cpus = header.cpus.max(1);
        let mut machine = SimulatedMachine::new(kernel, cpus);
        machine.leave_unmanaged(others);
        let compaction = BestRatio::default();
        Ok(SimulatedReplay {
            playback: Playback::new(header, Some(first), looks, &terms),
            machine,
            processes: BTreeMap::new(),
            pace: MigrationPace::of(&compaction),
            compaction,
            at_observation: AtObservation::default(),
            terms,
        })
    }

    /// What is read of the recording: how far it was usable, once it is over.
    #[must_use]
    pub fn looks(&self) -> &L {
        self.playback.looks()
    }

    /// Plays the recording up to this machine's time.
    fn catch_up(&mut self) {
        while let Some(due) = self.playback.due(self.machine.now()) {
            match due {
                Due::Look(look) => self.play(*look),
                Due::Calls(calls) => return calls.iter().for_each(|call| self.hear(call)),
            }
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
        let seen = &look.observation;
        let there: BTreeSet<ProcessId> = seen.processes.iter().map(|seen| seen.process).collect();
        let adds = self.playback.has_look();
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
        self.playback
            .take_over(look, |process| there.contains(process));
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
            cpu_time: played.cpu_time(),
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
        if !self.playback.has_look() {
            let next = self.playback.next_look().ok_or(Over)?;
            self.machine
                .rest(next.at.saturating_sub(self.machine.now()));
            self.play(next);
        }
        let interval = self.playback.observe();
        let (kernel, processes) = (self.machine.kernel(), &mut self.processes);
        self.playback.translate(interval, |process| {
            Some(processes.get_mut(process)?.accessed(kernel))
        });
        let Ok(mut observation) = self.machine.observe();
        let seen = std::mem::take(&mut observation.processes).into_iter();
        observation.processes = seen.filter_map(|seen| self.as_recorded(seen)).collect();
        observation.glances = self.playback.take_glances();
        observation.normalise();
        observation.interval = interval;
        observation.idle_cpus = self.playback.idle_cpus();
        let kernel = self.machine.kernel();
        let sum = |of: &dyn Fn(&Played) -> u64| self.processes.values().map(of).sum();
        self.at_observation = AtObservation {
            at: self.playback.latest(),
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
        self.machine.rest(time);
        self.catch_up();
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.catch_up();
        actions.iter().map(|action| self.perform(action)).collect()
    }
}

impl<L: Iterator<Item = Look>> Player for SimulatedReplay<L> {
    type Looks = L;

    fn playback(&self) -> &Playback<L> {
        &self.playback
    }

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
