//! What was predicted and what was measured.

use mega_core::worth::{Estimate, Worth};
use serde::{Deserialize, Serialize};

use super::judge::{Bar, Pair, judge};
use super::truth::Measured;
use crate::error::Error;
use crate::live::machine::Machine;
use crate::live::run::Run;

/// The version of this form.
const VERSION: u32 = 1;

/// All programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) version: u32,
    pub(super) machine: Machine,
    pub(super) bars: Vec<Bar>,
    /// Those saving most first.
    pub(super) programs: Vec<ProgramResult>,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProgramResult {
    pub(super) name: String,
    /// Bytes of memory that it was told to use; a small one uses less.
    pub(super) size: u64,
    /// How often it got huge pages.
    pub(super) rounds: u32,
    /// How long each window was, in seconds.
    pub(super) window_seconds: f64,
    /// The share of its CPU time that it was said to save.
    pub(super) predicted: Estimate,
    /// The share that it saved.
    pub(super) measured: Estimate,
    /// What the prediction rests on.
    pub(super) touches_per_second: Estimate,
    pub(super) working_set: u64,
    pub(super) pages_per_line: f64,
    pub(super) saved_ns: Estimate,
    /// Every window.
    pub(super) windows: Vec<Measured>,
}

impl ProgramResult {
    pub(super) fn new(
        name: &str,
        run: &Run<'_>,
        rounds: u32,
        worth: &Worth,
        measured: Estimate,
        windows: &[Measured],
    ) -> Self {
        ProgramResult {
            name: name.to_owned(),
            size: run.size,
            rounds,
            window_seconds: run.measured.as_secs_f64(),
            predicted: worth.saved_share,
            measured,
            touches_per_second: worth.touches_per_second,
            working_set: worth.working_set,
            pages_per_line: worth.pages_per_line,
            saved_ns: worth.saved_ns,
            windows: windows.to_vec(),
        }
    }

    /// The share of its memory that was huge while it was to be, at least.
    pub(super) fn least_huge(&self) -> f64 {
        let huge = self.windows.iter().filter(|window| window.huge);
        huge.map(|window| window.huge_share).fold(1.0, f64::min)
    }
}

impl Results {
    pub(super) fn of(machine: Machine, mut programs: Vec<ProgramResult>) -> Self {
        programs.sort_by(|one, other| other.measured.value.total_cmp(&one.measured.value));
        let pair = |program: &ProgramResult| Pair {
            predicted: program.predicted.value,
            measured: program.measured.value,
        };
        let pairs: Vec<Pair> = programs.iter().map(pair).collect();
        Results {
            version: VERSION,
            machine,
            bars: judge(&pairs),
            programs,
        }
    }

    /// These, and those programs of `earlier` that are not among them.
    pub(super) fn with(self, earlier: Results) -> Self {
        let mut programs = self.programs;
        for program in earlier.programs {
            if programs.iter().all(|other| other.name != program.name) {
                programs.push(program);
            }
        }
        Results::of(self.machine, programs)
    }

    pub(super) fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|e| Error::Failed(format!("writing JSON: {e}")))
    }
}
