//! What a recording has, before it runs: which processes, and how long each is there.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::{Observation, ProcessId};

use crate::look::Look;

/// What a recording has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Its processes.
    pub processes: BTreeMap<ProcessId, Surveyed>,
    /// What its first look saw; `None` where it has none.
    pub first: Option<Observation>,
    /// When its last look was, since it began.
    pub length: Duration,
}

/// What a recording has of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surveyed {
    /// Its name, where the recording says it.
    pub name: Option<String>,
    /// The numbers of the first and last look that saw it, from 0.
    pub(super) looks: (u64, u64),
    /// Whether it is there at the end of the recording.
    pub(super) stays: bool,
    /// Whether huge pages mapped any of its memory at any look: which of their base pages were used is not known.
    pub is_partly_blind: bool,
    /// Whether it was measured how often it touches its memory.
    pub touches_measured: bool,
    /// The most that it had resident at a look, in bytes, blind memory included.
    pub most_resident: u64,
    /// Resident bytes, blind memory included, as a mean over the looks that saw it.
    pub mean_resident: f64,
    /// Of them blind.
    pub mean_blind: f64,
}

impl Survey {
    /// Goes over all looks.
    pub fn of(looks: impl Iterator<Item = Look>) -> Self {
        let mut survey = Survey::default();
        let mut seen_by: BTreeMap<ProcessId, f64> = BTreeMap::new();
        let mut last = 0;
        for (number, look) in (0..).zip(looks) {
            last = number;
            survey.length = look.at;
            for seen in &look.observation.processes {
                let (mut resident, mut blind) = (0, 0);
                for region in &seen.regions {
                    resident += region.resident_bytes();
                    blind += if region.is_huge() {
                        region.resident_bytes()
                    } else {
                        0
                    };
                }
                let known = survey.processes.entry(seen.process).or_insert(Surveyed {
                    looks: (number, number),
                    ..Surveyed::default()
                });
                known.looks.1 = number;
                known.is_partly_blind |= blind > 0;
                known.most_resident = known.most_resident.max(resident);
                let times = seen_by.entry(seen.process).or_default();
                *times += 1.0;
                known.mean_resident += (bytes(resident) - known.mean_resident) / *times;
                known.mean_blind += (bytes(blind) - known.mean_blind) / *times;
            }
            for process in look.news.touches.keys() {
                if let Some(known) = survey.processes.get_mut(process) {
                    known.touches_measured = true;
                }
            }
            for (process, name) in look.news.names {
                if let Some(known) = survey.processes.get_mut(&process) {
                    known.name = Some(name);
                }
            }
            survey.first.get_or_insert(look.observation);
        }
        for process in survey.processes.values_mut() {
            process.stays = process.looks.1 == last;
        }
        survey
    }
}

#[allow(clippy::cast_precision_loss, reason = "exact enough for a mean")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}
