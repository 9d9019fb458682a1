//! What a running manager sees and does: `mega status --json` and `mega run --report`.

use std::path::PathBuf;

use mega_core::compaction::Emptied;
use mega_core::promotion::Parameters;
use mega_core::worth::Estimate;
use serde::{Deserialize, Serialize};

use super::{Actions, ExchangeReport, HostPage, Memory, Observed, ProcessReport, TapeReport};

/// What `mega status --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusReport {
    pub(crate) version: u32,
    /// Every running manager that answered, by pid.
    pub(crate) managers: Vec<ManagerStatus>,
}

/// What kind of manager it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub(crate) enum Mode {
    /// `mega run`
    Run {
        /// The program and its arguments. Bytes that are not UTF-8 are replaced.
        command: Vec<String>,
    },
    /// `mega daemon`
    Daemon {
        /// Its configuration.
        config: PathBuf,
    },
    /// `mega top` that looks by itself
    Observe,
}

/// One manager: a daemon or a `mega run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManagerStatus {
    /// The manager's own pid.
    pub(crate) pid: u32,
    #[serde(flatten)]
    pub(crate) mode: Mode,
    pub(crate) tracker: String,
    pub(crate) dry_run: bool,
    /// `null` where an older mega answers.
    #[serde(default)]
    pub(crate) fault: Option<FaultReport>,
    pub(crate) uptime_seconds: f64,
    pub(crate) manager: OwnCost,
    /// `null` before the first observation.
    pub(crate) memory: Option<Memory>,
    /// Free blocks of the machine by order, from 4 KiB on, as of the answer; empty where they cannot be read.
    #[serde(default)]
    pub(crate) free_areas: Vec<u64>,
    pub(crate) groups: Vec<GroupStatus>,
    /// What was done to keep contiguity ahead of promotions; `null` without the kernel module.
    #[serde(default)]
    pub(crate) compaction: Option<CompactionReport>,
    /// What came of all exchanges that this machine, a guest, asked its host for; `null` where no host offers them.
    #[serde(default)]
    pub(crate) exchange: Option<ExchangeReport>,
    /// By which pages the host maps what this guest maps; `null` where the machine is no guest.
    #[serde(default)]
    pub(crate) host_page: Option<HostPage>,
    /// How often processes were listed since the start.
    #[serde(default)]
    pub(crate) process_lists: u64,
    /// Why processes could not be listed just now; `null` where they could.
    #[serde(default)]
    pub(crate) last_error: Option<String>,
}

/// Blocks emptied ahead of promotions, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompactionReport {
    /// Blocks that were tried.
    pub(crate) tried: u64,
    /// Blocks that were free then.
    pub(crate) emptied: u64,
    pub(crate) pages_migrated: u64,
    pub(crate) pages_failed: u64,
}

impl CompactionReport {
    /// Adds what came of one block.
    pub(crate) fn add(&mut self, emptied: &Emptied) {
        self.tried += 1;
        self.emptied += u64::from(emptied.stopped.is_free());
        self.pages_migrated = self.pages_migrated.saturating_add(emptied.counts.migrated);
        self.pages_failed = self.pages_failed.saturating_add(emptied.counts.failed);
    }
}

impl ManagerStatus {
    /// What all groups together did.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Actions> {
        self.groups.iter().map(|group| &group.actions)
    }
}

/// What the manager itself costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OwnCost {
    pub(crate) cpu_seconds: f64,
    /// Of one core, since the start.
    pub(crate) cpu_share: f64,
    /// Resident memory.
    pub(crate) resident: u64,
}

/// The processes of one selection, or of one `mega run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupStatus {
    /// The selection's name; `run` for `mega run`.
    pub(crate) name: String,
    pub(crate) policy: String,
    /// Those that are not the defaults.
    pub(crate) parameters: Parameters,
    /// Until the next observation, as of the latest one.
    pub(crate) interval_seconds: f64,
    /// Whether mega chooses the interval.
    #[serde(default)]
    pub(crate) interval_auto: bool,
    /// Of one core.
    pub(crate) cpu_budget: f64,
    /// Bytes per second.
    pub(crate) copy_budget: u64,
    /// Of a process's time.
    #[serde(default)]
    pub(crate) standstill: f64,
    pub(crate) lock_bound_seconds: f64,
    /// The longest time that mega held a process's mmap lock in one go, since the start, in calls that can be cut.
    #[serde(default)]
    pub(crate) longest_hold_seconds: f64,
    /// The part of each process's memory that is to be in huge pages, 0 to 1; `null` where nothing is promised.
    #[serde(default)]
    pub(crate) coverage: Option<f64>,
    /// The memory that this is about, as `coverage_of` in the configuration has it; `null` for all.
    #[serde(default)]
    pub(crate) coverage_of: Option<Vec<String>>,
    /// Processes that have less.
    #[serde(default)]
    pub(crate) short_of_coverage: u64,
    /// CPU time that huge pages saved its processes since the start, in seconds, as far as their gain was measured.
    #[serde(default)]
    pub(crate) saved_cpu_seconds: Estimate,
    /// As of the latest observation.
    pub(crate) processes: Vec<ProcessReport>,
    /// Over `processes`.
    pub(crate) totals: Observed,
    /// Processes that run and could not be observed, by pid; at most 100.
    #[serde(default)]
    pub(crate) refused: Vec<RefusedReport>,
    /// How many there are in all.
    #[serde(default)]
    pub(crate) refused_count: u64,
    pub(crate) actions: Actions,
    /// The recording that is made of it; `null` where none is.
    #[serde(default)]
    pub(crate) recording: Option<TapeReport>,
    /// Why the latest step failed; `null` where it did not.
    #[serde(default)]
    pub(crate) last_error: Option<String>,
}

/// A process that runs and could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedReport {
    pub(crate) pid: u32,
    /// The command's name, up to 15 bytes.
    pub(crate) name: String,
    pub(crate) why: String,
}

/// What `mega run --report` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunReport {
    pub(crate) version: u32,
    /// The exit code of the program, 128 + n when signal n ended it.
    pub(crate) exit_status: u8,
    /// What went wrong with managing, if anything; it did not disturb the program.
    pub(crate) notes: Vec<String>,
    /// Each program that has a profile, by name.
    pub(crate) profiles: Vec<ProfileUse>,
    #[serde(flatten)]
    pub(crate) state: ManagerStatus,
}

/// What was done by the profile of a program, and what was learnt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProfileUse {
    /// The name of the profile.
    pub(crate) name: String,
    /// Runs that it learnt from, this one too.
    pub(crate) runs: u64,
    /// Regions that were made huge before the program came to them.
    pub(crate) made_ready: u64,
    /// Regions that were promoted as soon as it had begun them.
    pub(crate) promoted: u64,
    /// Regions made ready that it did not come to, and that were demoted.
    pub(crate) given_back: u64,
    /// Classes of mappings for which huge pages from the start turned out wrong.
    pub(crate) wrong: Vec<String>,
    /// Classes of mappings that get huge pages from the start next time.
    pub(crate) next_time_huge: Vec<String>,
}

impl ProfileUse {
    /// What the user is told, if anything.
    pub(crate) fn in_words(&self) -> Option<String> {
        let ProfileUse {
            name,
            made_ready,
            promoted,
            given_back,
            wrong,
            ..
        } = self;
        let mut line = format!("profile {name}: ");
        if made_ready + promoted > 0 {
            line += &format!(
                "{made_ready} regions made ready ahead of the program, {promoted} promoted as it began them, {given_back} given back"
            );
        } else if !self.next_time_huge.is_empty() && wrong.is_empty() {
            line += &format!(
                "huge pages from the start next time for {}",
                self.next_time_huge.join("; ")
            );
        } else if wrong.is_empty() {
            return None;
        }
        if !wrong.is_empty() {
            line += &format!(
                ", huge pages from the start were wrong for {}: base pages next time",
                wrong.join("; ")
            );
        }
        Some(line.replace(": , ", ": "))
    }
}

/// What page faults of the managed programs take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FaultReport {
    /// What was asked for: `base` or `inherit`.
    pub(crate) mode: String,
    /// What they take now, and why.
    pub(crate) by: String,
}
