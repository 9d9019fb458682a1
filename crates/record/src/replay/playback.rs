//! A recording while it is played: what every replayed machine keeps of it.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::{Call, Gain, Glance, Outcome, ProcessId};

use super::process::Accessed;
use super::terms::Terms;
use super::translation::{Core, Translation};
use crate::look::{Header, Look, TouchRate};

/// A recording while it is played.
pub struct Playback<L> {
    looks: L,
    /// A look that is not due yet.
    ahead: Option<Look>,
    /// Whether the recording says what processes would gain.
    measures: bool,
    gains: BTreeMap<ProcessId, Gain>,
    /// How often processes touch pages, as it was measured last.
    rates: BTreeMap<ProcessId, TouchRate>,
    core: Option<Core>,
    /// What the latest look said.
    idle_cpus: Option<f64>,
    glances: Vec<Glance>,
    /// When the latest look was.
    latest: Duration,
    /// Looks since the last observation, and the time over which Accessed bits gathered in them.
    looks_since: u32,
    interval_since: Duration,
    /// Looks that were missed when it was recorded, until now.
    missed: u64,
    /// Bytes that the hypervisor exchanged for a manager when it was recorded, until now.
    exchanged: u64,
    /// What the latest look found free in blocks, in bytes.
    contiguity: u64,
    /// Observations that have more than one look.
    merged: u64,
}

/// What of a recording is due.
pub(super) enum Due {
    Look(Box<Look>),
    /// Calls that come before the next look, which is not due.
    Calls(Vec<Call>),
}

impl<L: Iterator<Item = Look>> Playback<L> {
    /// At the beginning of a recording, of which `ahead` has been read.
    pub(super) fn new(header: &Header, ahead: Option<Look>, looks: L, terms: &Terms) -> Self {
        Playback {
            looks,
            ahead,
            measures: header.touches && header.calibrated,
            gains: BTreeMap::new(),
            rates: BTreeMap::new(),
            core: terms
                .processor
                .map(|(processor, walk)| Core::new(processor, walk)),
            idle_cpus: None,
            glances: Vec::new(),
            latest: Duration::ZERO,
            looks_since: 0,
            interval_since: Duration::ZERO,
            missed: 0,
            exchanged: 0,
            contiguity: 0,
            merged: 0,
        }
    }

    /// What is read of the recording.
    pub(super) fn looks(&self) -> &L {
        &self.looks
    }

    /// The next look, whenever it is due.
    pub(super) fn next_look(&mut self) -> Option<Look> {
        self.ahead.take().or_else(|| self.looks.next())
    }

    /// The next look if it is due by then, or else the calls that are. `None` where the recording is over.
    pub(super) fn due(&mut self, now: Duration) -> Option<Due> {
        let mut look = self.next_look()?;
        if look.at <= now {
            return Some(Due::Look(Box::new(look)));
        }
        let due = look.calls.partition_point(|call| call.at <= now);
        let calls = look.calls.drain(..due).collect();
        self.ahead = Some(look);
        Some(Due::Calls(calls))
    }

    /// Whether there was a look since the last observation: what was accessed until then still counts.
    pub(super) fn has_look(&self) -> bool {
        self.looks_since > 0
    }

    /// Takes over what a look says of the machine and of how often processes touch pages, of those that are `there`.
    pub(super) fn take_over(&mut self, look: Look, there: impl Fn(&ProcessId) -> bool) {
        self.latest = look.at;
        self.idle_cpus = look.observation.idle_cpus;
        self.glances = look.observation.glances;
        for (process, rate) in look.news.touches {
            if let Some(gain) = rate.gain {
                self.gains.insert(process, gain);
            }
            self.rates.insert(process, rate);
        }
        self.gains.retain(|process, _| there(process));
        self.rates.retain(|process, _| there(process));
        self.looks_since += 1;
        self.interval_since += look.observation.interval;
        self.missed += u64::from(look.missed);
        self.contiguity = look.observation.memory.contiguity;
        for acted in &look.actions {
            if let Outcome::Remapped { exchanged, .. } = acted.outcome {
                self.exchanged = self.exchanged.saturating_add(exchanged);
            }
        }
    }

    /// Begins an observation of the looks since the last one. Returns the time over which Accessed bits gathered in them.
    pub(super) fn observe(&mut self) -> Duration {
        self.merged += u64::from(self.looks_since > 1);
        self.looks_since = 0;
        std::mem::take(&mut self.interval_since)
    }

    /// Counts what the processes touched in that time, which ends now, by what was `accessed` of each.
    pub(super) fn translate(
        &mut self,
        time: Duration,
        mut accessed: impl FnMut(&ProcessId) -> Option<Accessed>,
    ) {
        let Some(core) = &mut self.core else {
            return;
        };
        for (process, rate) in &self.rates {
            if let Some(accessed) = accessed(process) {
                core.touched(rate, accessed, time);
            }
        }
    }

    pub(super) fn measures(&self) -> bool {
        self.measures
    }

    pub(super) fn gain(&self, process: ProcessId) -> Option<Gain> {
        self.gains.get(&process).copied()
    }

    pub(super) fn idle_cpus(&self) -> Option<f64> {
        self.idle_cpus
    }

    /// What processes accessed in the moment after the latest look, told once.
    pub(super) fn take_glances(&mut self) -> Vec<Glance> {
        std::mem::take(&mut self.glances)
    }

    pub(super) fn latest(&self) -> Duration {
        self.latest
    }

    /// Bytes that the hypervisor exchanged for giant pages instead of a copy when it was recorded, until now.
    pub(super) fn exchanged(&self) -> u64 {
        self.exchanged
    }

    /// What was free in blocks of at least 2 MiB when it was recorded, in bytes.
    pub(super) fn contiguity(&self) -> u64 {
        self.contiguity
    }

    /// Looks that were due and not made when it was recorded, until now.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Observations that had more than one look to go by. Of what was accessed in those, each says the least that it can be.
    pub(super) fn merged(&self) -> u64 {
        self.merged
    }

    /// What translating addresses took until the latest observation, where the terms name a processor and somebody measured
    /// touches.
    pub(super) fn translation(&self) -> Option<Translation> {
        self.core.as_ref()?.taken()
    }
}
