//! The results of the runs: medians per mode, and their ratios to base pages.

use serde::Serialize;

use super::measure::Sample;
use super::mode::Mode;
use super::plan::Plan;
use crate::error::Error;
use crate::sim::demo::MACHINE;
use crate::statistics::median;

/// The demo's result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// Whether the machine was a simulated one.
    pub(super) simulated: bool,
    /// Bytes of the dense area, and of the sparse one.
    pub(super) size_bytes: u64,
    /// Runs of each mode.
    pub(super) rounds: u32,
    /// One for each mode.
    pub(super) modes: Vec<ModeSummary>,
}

/// Medians of one mode's runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ModeSummary {
    /// Which.
    pub(super) mode: Mode,
    /// Random updates per second once the program has settled.
    pub(super) updates_per_second: f64,
    /// Bytes resident at the end of the run.
    pub(super) resident_bytes: f64,
    /// Bytes in huge pages at the end of the run.
    pub(super) huge_bytes: f64,
    /// 99.9th percentile of first touches, in nanoseconds.
    pub(super) first_touch_p99_9_ns: f64,
    /// CPU time of the manager, as a share of one core over the run; 0 without a manager.
    pub(super) manager_cpu_share: f64,
    /// The lowest and highest updates per second of its runs.
    pub(super) updates_per_second_spread: (f64, f64),
    /// Against base pages in the same demo.
    pub(super) ratio_to_base: Ratios,
}

/// A mode's medians divided by those with base pages; 0 where those are 0.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Ratios {
    pub(super) updates_per_second: f64,
    pub(super) resident_bytes: f64,
    pub(super) first_touch_p99_9_ns: f64,
}

impl Summary {
    /// Sums up all samples.
    ///
    /// # Errors
    /// When a mode has none.
    pub(super) fn new(plan: &Plan, samples: &[(Mode, Sample)]) -> Result<Self, Error> {
        let mut modes = Mode::ALL
            .into_iter()
            .map(|mode| ModeSummary::new(mode, samples))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(base) = modes.first().cloned() {
            for mode in &mut modes {
                mode.ratio_to_base = mode.ratios(&base);
            }
        }
        Ok(Summary {
            simulated: plan.simulated,
            size_bytes: plan.size,
            rounds: plan.rounds,
            modes,
        })
    }

    /// What the numbers come from, in words.
    pub(super) fn runs(&self) -> String {
        if self.simulated {
            format!("on a simulated machine ({MACHINE})")
        } else {
            format!("medians of {} runs", self.rounds)
        }
    }
}

impl ModeSummary {
    #[allow(clippy::cast_precision_loss)]
    fn new(mode: Mode, samples: &[(Mode, Sample)]) -> Result<Self, Error> {
        let of_mode: Vec<&Sample> = samples
            .iter()
            .filter(|(of, _)| *of == mode)
            .map(|(_, sample)| sample)
            .collect();
        let median_of = |value: &dyn Fn(&Sample) -> f64| {
            let values: Vec<f64> = of_mode.iter().map(|sample| value(sample)).collect();
            median(&values)
                .ok_or_else(|| Error::Failed(format!("no run with {} was measured", mode.name())))
        };
        let rates = of_mode.iter().map(|s| s.updates_per_second);
        Ok(ModeSummary {
            mode,
            updates_per_second: median_of(&|s| s.updates_per_second)?,
            resident_bytes: median_of(&|s| s.resident_bytes as f64)?,
            huge_bytes: median_of(&|s| s.huge_bytes as f64)?,
            first_touch_p99_9_ns: median_of(&|s| {
                s.first_touch_p99_9_ns.map_or(f64::NAN, |time| time as f64)
            })?,
            manager_cpu_share: median_of(&|s| {
                s.manager_cpu_seconds.unwrap_or(0.0) / s.seconds.max(f64::MIN_POSITIVE)
            })?,
            updates_per_second_spread: (
                rates.clone().fold(f64::INFINITY, f64::min),
                rates.fold(0.0, f64::max),
            ),
            ratio_to_base: Ratios::default(),
        })
    }

    fn ratios(&self, base: &ModeSummary) -> Ratios {
        let ratio = |value: f64, base: f64| if base > 0.0 { value / base } else { 0.0 };
        Ratios {
            updates_per_second: ratio(self.updates_per_second, base.updates_per_second),
            resident_bytes: ratio(self.resident_bytes, base.resident_bytes),
            first_touch_p99_9_ns: ratio(self.first_touch_p99_9_ns, base.first_touch_p99_9_ns),
        }
    }
}
