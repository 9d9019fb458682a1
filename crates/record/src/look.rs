//! What is recorded.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use mega_core::compaction::Emptied;
use mega_core::worth::Touches;
use mega_core::{Action, Call, Gain, Observation, Outcome, ProcessId};
use serde::{Deserialize, Serialize};

/// What is said of a recording once, at its beginning. Fields may be added: who reads one ignores those that it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The version of mega that recorded it.
    pub recorder: String,
    /// The release of the kernel that it was recorded on.
    pub kernel: String,
    /// The tracker that saw what was accessed (`module`, `bpf`, `page_idle`, `mapped`).
    pub tracker: String,
    /// What was recorded, in words: a pid, a selection or a command.
    pub subject: String,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// The time between two looks that was asked for, in milliseconds; 0 where a manager chose it from look to look.
    pub interval_ms: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Whether the kernel gives back zero-filled base pages where it splits a huge page (Linux 6.12 and newer).
    pub split_gives_back: bool,
    /// Whether the touch meter was used: [`News::touches`] says what it found.
    pub touches: bool,
    /// The policy of the manager that recorded what it saw and did; `None` where nobody managed.
    pub policy: Option<String>,
    /// Whether it was known what a touch costs on the machine, so that [`TouchRate::gain`] is there too.
    pub calibrated: bool,
    /// Whether it was seen when processes changed their mappings: [`Look::calls`].
    pub calls: bool,
    /// Why not, in words; `None` where it was, or nobody tried.
    pub no_calls: Option<String>,
    /// Whether the machine was a guest, so that its host mapped what it maps by pages of its own. `None` where who recorded did not say.
    pub is_guest: Option<bool>,
}

impl Header {
    /// When looks were made, as "a look every 100 ms".
    #[must_use]
    pub fn rhythm_in_words(&self) -> String {
        match self.interval_ms {
            0 => "a look whenever the manager chose".to_owned(),
            interval => format!("a look every {interval} ms"),
        }
    }
}

/// One look at the processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// When it was, since the recording began.
    pub at: Duration,
    /// CPU time that it took.
    pub cpu: Duration,
    /// Looks that were due since the last one and were not made, because that took too long.
    pub missed: u32,
    /// What was seen. What counts for a promise of coverage ([`Observation::counted`]) is not recorded.
    pub observation: Observation,
    /// The free lists of each NUMA node.
    pub free_lists: Vec<FreeList>,
    /// What differs from the last look.
    pub news: News,
    /// What a manager did between this look and the next, in its order. Empty where none managed or who recorded did not hear of it.
    pub actions: Vec<Acted>,
    /// What its compaction tried to empty in that time, in its order: for what the promotions lacked.
    pub compacted: Vec<Compacted>,
    /// What processes did to their mappings since the last look, the oldest first; none of it is later than this look. Calls that
    /// concern less than 64 KiB are left out.
    pub calls: Vec<Call>,
    /// How many more there were.
    pub calls_lost: u64,
}

impl Look {
    /// Free areas of all nodes by order.
    #[must_use]
    pub fn free_areas(&self) -> Vec<u64> {
        let mut sum: Vec<u64> = Vec::new();
        for list in &self.free_lists {
            sum.resize(sum.len().max(list.areas.len()), 0);
            for (sum, areas) in sum.iter_mut().zip(&list.areas) {
                *sum = sum.saturating_add(*areas);
            }
        }
        sum
    }
}

/// An action of a manager, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acted {
    /// When it was done, since the recording began.
    pub at: Duration,
    /// What was done to what.
    pub action: Action,
    /// What came of it, as the manager saw it.
    pub outcome: Outcome,
}

/// A block or chunk of physical memory that a manager's compaction tried to empty, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// When it was over, since the recording began.
    pub at: Duration,
    /// Which, why it ended, what was moved, and how long that took.
    pub emptied: Emptied,
}

/// The free areas of a NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeList {
    /// Its number.
    pub node: u32,
    /// Free areas for each order from 0 on: of 4 KiB, 8 KiB and so on.
    pub areas: Vec<u64>,
}

/// What a look saw that the looks before it did not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// The names of processes that are seen for the first time, or that changed theirs.
    pub names: BTreeMap<ProcessId, String>,
    /// The addresses that huge pages may map, of processes where they changed: ascending, disjoint, in whole regions.
    pub mappings: BTreeMap<ProcessId, Vec<Range<u64>>>,
    /// How often processes touch their memory, where it was measured since the last look.
    pub touches: BTreeMap<ProcessId, TouchRate>,
    /// Who else uses Accessed bits or changes page sizes, a line for each, where that changed. At the first look: all.
    pub others: Option<Vec<String>>,
}

/// How often a process touches memory that base pages map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TouchRate {
    /// Touches a second of its CPU time.
    pub per_cpu_second: f64,
    /// CPUs that it used.
    pub cpus: f64,
    /// Bytes of base pages that it keeps touching.
    pub working_set: u64,
    /// What huge pages would gain it; `None` where the machine was not calibrated.
    pub gain: Option<Gain>,
}

impl TouchRate {
    /// What a measurement found, and what follows from it.
    #[must_use]
    pub fn new(touches: &Touches, gain: Option<Gain>) -> Self {
        TouchRate {
            per_cpu_second: touches.per_cpu_second.value,
            cpus: touches.cpu_share,
            working_set: touches.working_set,
            gain,
        }
    }
}
