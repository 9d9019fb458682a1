//! Holds predictions against the truth.

use mega_linux::calibrate;
use mega_linux::kernel::LiveKernel;
use serde::Serialize;

use super::outcome::Outcome;
use super::running::Setting;
use crate::live::machine::Machine;

/// The most that coverage, as a part of 1, and resident memory, as a part of it, may be off.
const NEAR: f64 = 0.02;
/// The least that predicted and promoted regions must have in common, of all that are either.
const OVERLAP: f64 = 0.9;

/// All that was found.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    version: u32,
    machine: Machine,
    /// Whether the machine was calibrated, so that `adaptive` asks what a program gains.
    calibrated: bool,
    pub(super) size: u64,
    pub(super) seconds: f64,
    pub(super) interval_seconds: f64,
    pub(super) comparisons: Vec<Comparison>,
    /// Programs whose policies come in another order than predicted, though further apart than [`NEAR`].
    pub(super) other_order: Vec<String>,
}

/// One program under one policy.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) program: String,
    pub(super) policy: String,
    pub(super) predicted_coverage: f64,
    pub(super) coverage: f64,
    pub(super) predicted_resident: u64,
    pub(super) resident: u64,
    pub(super) predicted_regions: usize,
    pub(super) regions: usize,
    /// Of the regions that are predicted or promoted, the part that is both; 1 where none is either.
    pub(super) overlap: f64,
    /// Whether all of it is near enough.
    pub(super) holds: bool,
}

impl Findings {
    pub(super) fn new(setting: &Setting) -> Self {
        Findings {
            version: 2,
            machine: Machine::this(),
            calibrated: calibrate::kept(&LiveKernel).is_some(),
            size: setting.size,
            seconds: setting.time.as_secs_f64(),
            interval_seconds: setting.interval.as_secs_f64(),
            comparisons: Vec::new(),
            other_order: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, program: &str, policy: &str, predicted: &Outcome, live: &Outcome) {
        self.comparisons
            .push(Comparison::new(program, policy, predicted, live));
    }

    /// Finds out where the order of policies is not as predicted.
    pub(super) fn judge(&mut self) {
        let all = &self.comparisons;
        self.other_order = all
            .chunk_by(|one, next| one.program == next.program)
            .filter(|of_program| differs(of_program))
            .filter_map(|of_program| Some(of_program.first()?.program.clone()))
            .collect();
    }
}

/// Whether two policies that are apart, predicted and live, are so in other orders.
fn differs(comparisons: &[Comparison]) -> bool {
    comparisons.iter().any(|one| {
        comparisons.iter().any(|other| {
            let predicted = one.predicted_coverage - other.predicted_coverage;
            let live = one.coverage - other.coverage;
            predicted > NEAR && live < -NEAR
        })
    })
}

impl Comparison {
    fn new(program: &str, policy: &str, predicted: &Outcome, live: &Outcome) -> Self {
        let (predicted_coverage, coverage) = (predicted.coverage(), live.coverage());
        let overlap = overlap(predicted, live);
        let off = bytes(predicted.resident.abs_diff(live.resident)) / bytes(live.resident.max(1));
        Comparison {
            program: program.to_owned(),
            policy: policy.to_owned(),
            predicted_coverage,
            coverage,
            predicted_resident: predicted.resident,
            resident: live.resident,
            predicted_regions: predicted.regions.len(),
            regions: live.regions.len(),
            overlap,
            holds: (predicted_coverage - coverage).abs() <= NEAR
                && off <= NEAR
                && overlap >= OVERLAP,
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "some thousand regions")]
fn overlap(predicted: &Outcome, live: &Outcome) -> f64 {
    let either = predicted.regions.union(&live.regions).count();
    let both = predicted.regions.intersection(&live.regions).count();
    if either == 0 {
        return 1.0;
    }
    both as f64 / either as f64
}

#[allow(clippy::cast_precision_loss, reason = "a share of some bytes")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(resident: u64, regions: std::ops::Range<u64>) -> Outcome {
        Outcome {
            resident: resident << 20,
            huge: (regions.end - regions.start) << 21,
            regions: regions.map(|number| (0, number)).collect(),
        }
    }

    fn compared(predicted: &Outcome, live: &Outcome) -> Comparison {
        Comparison::new("p", "x", predicted, live)
    }

    #[test]
    fn a_prediction_holds_where_memory_and_regions_are_the_same() {
        let live = outcome(200, 0..50);
        assert!(compared(&outcome(202, 0..50), &live).holds);
        assert!(
            !compared(&outcome(210, 0..50), &live).holds,
            "more resident"
        );
        assert!(!compared(&outcome(200, 0..40), &live).holds, "less covered");
        let others = compared(&outcome(200, 10..60), &live);
        assert!(!others.holds, "as much, and elsewhere");
        assert!((others.overlap - 40.0 / 60.0).abs() < 1e-9);
        assert!(compared(&outcome(200, 0..0), &outcome(200, 0..0)).holds);
    }

    #[test]
    fn only_policies_that_are_apart_have_an_order() {
        let comparison = |predicted_coverage, coverage| Comparison {
            predicted_coverage,
            coverage,
            ..compared(&Outcome::default(), &Outcome::default())
        };
        assert!(!differs(&[comparison(0.5, 0.5), comparison(0.51, 0.49)]));
        assert!(!differs(&[comparison(0.5, 0.4), comparison(0.9, 0.8)]));
        assert!(differs(&[comparison(0.5, 0.9), comparison(0.9, 0.5)]));
    }
}
