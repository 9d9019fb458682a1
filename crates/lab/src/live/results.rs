//! The results of an experiment. The lab writes them to `results.json` and makes every report from them. They are an
//! interface: `docs/interfaces.md` describes it.

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::metric::{Better, Sample, Unit};
use super::mode::Mode;

/// The version of every structure here. It changes when a field changes its meaning or goes away, not when one is
/// added.
pub(crate) const VERSION: u32 = 1;

/// One experiment, run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) version: u32,
    /// The experiment's name.
    pub(crate) experiment: String,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    /// In the order in which they were run.
    pub(crate) modes: Vec<Mode>,
    /// The experiment's metrics, the most important one first.
    pub(crate) metrics: Vec<MetricResult>,
    pub(crate) goals: Vec<GoalResult>,
    pub(crate) paper: Option<Paper>,
    /// Every run, in order.
    pub(crate) runs: Vec<RunRecord>,
}

/// How it was run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Bytes of memory that the program used.
    pub(crate) size_bytes: u64,
    /// Every mode was run this often, interleaved.
    pub(crate) rounds: u32,
    /// How long the steady part of a run was measured; in turns, the least that was asked for.
    pub(crate) measured_seconds: f64,
    /// Time between two observations of the manager.
    pub(crate) interval_seconds: f64,
    /// Whether the modes' programs existed at once and worked in turn, rather than one after the other.
    #[serde(default)]
    pub(crate) in_turns: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// From 1 on.
    pub(crate) round: u32,
    pub(crate) mode: Mode,
    pub(crate) values: Sample,
}

/// One metric in all modes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MetricResult {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// One for each mode that told it, in the order of [`Results::modes`].
    pub(crate) modes: Vec<ModeResult>,
}

/// One metric in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModeResult {
    pub(crate) mode: Mode,
    /// Over the rounds.
    pub(crate) value: Spread,
    /// Against base pages, round by round; `None` for base pages themselves, and where there is none to compare.
    pub(crate) ratio_to_base: Option<Spread>,
}

/// What the rounds came to: their median, the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// One goal, and whether it was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GoalResult {
    /// The metric's id.
    pub(crate) metric: String,
    /// In words: "random updates per second: mega:adaptive at least 0.97x of thp".
    pub(crate) text: String,
    /// The ratio, or the value, that the goal bounds; `None` where a mode it needs was not run.
    pub(crate) found: Option<Spread>,
    /// Whether it is a ratio, rather than a value in the metric's unit.
    pub(crate) is_ratio: bool,
    pub(crate) verdict: Verdict,
    /// Whether every round alone gives the same verdict as the median.
    pub(crate) every_round_agrees: bool,
}

/// Whether a goal was reached, by the median.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// A mode that it needs was not run.
    NotMeasured,
}

/// What a paper found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paper {
    /// Which table or figure of which paper.
    pub(crate) source: String,
    /// What it compares.
    pub(crate) systems: Vec<String>,
    pub(crate) rows: Vec<PaperRow>,
}

/// One quantity, as the paper prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PaperRow {
    pub(crate) name: String,
    /// One for each of [`Paper::systems`].
    pub(crate) values: Vec<String>,
}

impl Spread {
    /// Of some rounds; `None` of none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        Some(Spread {
            median: crate::statistics::median(values)?,
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Whether this, a ratio, says more than that the rounds differ: its distance from 1 is at least as large as the
    /// distance of its lowest from its highest.
    pub(crate) fn tells(&self) -> bool {
        (self.median - 1.0).abs() >= self.high - self.low
    }
}

impl MetricResult {
    /// What it is in a mode.
    pub(crate) fn of(&self, mode: &Mode) -> Option<&ModeResult> {
        self.modes.iter().find(|result| result.mode == *mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_tells_when_its_effect_is_larger_than_its_spread() {
        let spread = |values: &[f64]| Spread::of(values).unwrap();
        assert!(spread(&[1.2, 1.25, 1.3]).tells());
        assert!(!spread(&[0.97, 1.02, 1.06]).tells());
        assert!(spread(&[1.4]).tells());
        assert_eq!(Spread::of(&[]), None);
    }
}
