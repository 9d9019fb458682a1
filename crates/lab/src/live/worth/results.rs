//! What was predicted and what was measured.

use mega_core::worth::{Calibration, Estimate, Worth};
use serde::{Deserialize, Serialize};

use super::judge::{Bar, Pair, judge};
use super::truth::Measured;
use super::twins::{self, Twins};
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
    /// What no prediction can tell; `None` where it was not measured.
    #[serde(default)]
    pub(super) twins: Option<Twins>,
    /// Those saving most first.
    pub(super) programs: Vec<ProgramResult>,
    /// What touches cost when they were predicted, each once, so that another prediction can be held against the same truth. Older
    /// results have none.
    #[serde(default)]
    pub(super) calibrations: Vec<Calibration>,
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
    /// 0 of older results.
    #[serde(default)]
    pub(super) touches_per_visit: f64,
    pub(super) saved_ns: Estimate,
    /// When its calibration was made, in seconds since 1970; `None` of older results.
    #[serde(default)]
    pub(super) calibrated: Option<u64>,
    /// The same of the program as it was found, before its memory lay in neighbouring frames; `None` of older results.
    #[serde(default)]
    pub(super) as_found: Option<AsFound>,
    /// Every window of the turns.
    pub(super) windows: Vec<Measured>,
}

/// A prediction, and one pair of windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AsFound {
    /// The share of its CPU time that it was said to save.
    pub(super) predicted: Estimate,
    /// The share that it saved in the one window, against the one before; `None` where it did nothing in one of them.
    pub(super) measured: Option<f64>,
    /// The share of its neighbouring base pages whose frames were neighbours.
    pub(super) frames_together: Option<f64>,
}

impl AsFound {
    /// Of a window with base pages and one with huge pages.
    pub(super) fn new(worth: &Worth, windows: &[Measured]) -> Self {
        let measured = match windows {
            [base, huge] => Some(1.0 - huge.cpu_ns_per_operation / base.cpu_ns_per_operation),
            _ => None,
        };
        AsFound {
            predicted: worth.saved_share,
            measured: measured.filter(|saved| saved.is_finite()),
            frames_together: worth.frames_together,
        }
    }
}

impl ProgramResult {
    pub(super) fn new(
        name: &str,
        run: &Run<'_>,
        rounds: u32,
        worth: &Worth,
        calibration: &Calibration,
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
            pages_per_line: worth.locality.pages_per_line,
            touches_per_visit: worth.locality.touches_per_visit,
            saved_ns: worth.saved_ns,
            calibrated: Some(calibration.made),
            as_found: None,
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
    /// Of `calibrations` it keeps those that a program rests on, each once.
    pub(super) fn of(
        machine: Machine,
        mut programs: Vec<ProgramResult>,
        mut calibrations: Vec<Calibration>,
    ) -> Self {
        let is_used = |made: u64| {
            programs
                .iter()
                .any(|program| program.calibrated == Some(made))
        };
        calibrations.retain(|calibration| is_used(calibration.made));
        calibrations.sort_by_key(|calibration| calibration.made);
        calibrations.dedup_by_key(|calibration| calibration.made);
        programs.sort_by(|one, other| other.measured.value.total_cmp(&one.measured.value));
        let pair = |program: &ProgramResult| Pair {
            predicted: program.predicted.value,
            measured: program.measured.value,
        };
        let others = programs.iter().filter(|it| it.name != twins::PACED);
        let pairs: Vec<Pair> = others.map(pair).collect();
        Results {
            version: VERSION,
            machine,
            bars: judge(&pairs),
            twins: Twins::of(&programs),
            programs,
            calibrations,
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
        let mut calibrations = self.calibrations;
        calibrations.extend(earlier.calibrations);
        Results::of(self.machine, programs, calibrations)
    }

    pub(super) fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|e| Error::Failed(format!("writing JSON: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use mega_core::worth::Validity;

    use super::*;

    const PUBLISHED: &str = include_str!("../../../../../docs/results/worth/worth.json");

    fn published() -> Results {
        serde_json::from_str(PUBLISHED).expect("what is published is read")
    }

    fn calibration(made: u64) -> Calibration {
        Calibration {
            valid_for: Validity {
                processor: String::new(),
                kernel: String::new(),
                hypervisor: None,
                memory: 1,
                method: 1,
            },
            made,
            points: Vec::new(),
            apart: None,
            giant: None,
            promotion: Estimate::exact(0.002),
            copy: Estimate::exact(0.001),
        }
    }

    /// The published programs, those of them that `chosen` says, as predicted by that calibration.
    fn run(chosen: impl Fn(&str) -> bool, made: u64) -> Results {
        let published = published();
        let mut programs = published.programs;
        programs.retain(|program| chosen(&program.name));
        for program in &mut programs {
            program.calibrated = Some(made);
        }
        Results::of(published.machine, programs, vec![calibration(made)])
    }

    #[test]
    fn each_program_keeps_the_calibration_that_it_rests_on() {
        let made = |results: &Results| -> Vec<u64> {
            let all = results.calibrations.iter();
            all.map(|calibration| calibration.made).collect()
        };
        let first = run(|_| true, 1);
        let again = run(|name| name == "chase", 2).with(first.clone());
        assert_eq!(again.programs.len(), first.programs.len());
        assert_eq!(made(&again), [1, 2]);
        let all_again = run(|_| true, 2).with(again);
        assert_eq!(made(&all_again), [2]);
    }

    /// A program that looks like another, and gains nothing.
    #[test]
    fn twins_bound_what_can_be_said_and_no_bar_is_about_the_second() {
        let results = published();
        let chase = |it: &&ProgramResult| it.name == "chase";
        let chase = results.programs.iter().find(chase).expect("chase").clone();
        let mut programs = results.programs;
        programs.retain(|it| it.name != twins::PACED);
        let alone = Results::of(results.machine.clone(), programs.clone(), Vec::new());
        assert_eq!(alone.twins, None);
        let gained = chase.measured.value;
        programs.push(ProgramResult {
            name: twins::PACED.to_owned(),
            measured: Estimate::exact(0.0),
            ..chase
        });
        let both = Results::of(results.machine, programs, Vec::new());
        assert_eq!(both.bars, alone.bars);
        let least_off = both.twins.expect("twins").least_off;
        assert!((least_off - gained / 2.0).abs() < 1e-9);
    }

    /// Until a version they did not say which calibration they rest on.
    #[test]
    fn results_of_an_older_version_are_read() {
        let mut older: serde_json::Value = serde_json::from_str(PUBLISHED).expect("JSON");
        older.as_object_mut().unwrap().remove("calibrations");
        for program in older["programs"].as_array_mut().unwrap() {
            program.as_object_mut().unwrap().remove("calibrated");
        }
        let read: Results = serde_json::from_value(older).expect("they are read");
        assert!(read.calibrations.is_empty());
        assert!(read.programs.iter().all(|it| it.calibrated.is_none()));
        assert_eq!(read.programs.len(), published().programs.len());
    }
}
