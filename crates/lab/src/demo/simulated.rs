//! The demo's runs on the simulated machine.

use super::measure::Sample;
use super::mode::Mode;
use super::plan::Plan;
use super::progress::Progress;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::sim::demo::{MEASURED, Pages, simulate};

/// Runs every mode once.
///
/// # Errors
/// When one fails, or the demo is interrupted.
pub(super) fn compare(plan: &Plan, interrupt: &Interrupt) -> Result<Vec<(Mode, Sample)>, Error> {
    let progress = Progress::new(plan);
    let mut samples = Vec::new();
    for mode in Mode::ALL {
        interrupt.check()?;
        progress.step(mode.name());
        samples.push((mode, sample(mode, plan.size)?));
    }
    progress.finish();
    Ok(samples)
}

fn sample(mode: Mode, size: u64) -> Result<Sample, Error> {
    let pages = match mode {
        Mode::Base => Pages::Base,
        Mode::ThpAlways => Pages::ThpAlways,
        Mode::Mega => Pages::Mega,
    };
    let run = simulate(pages, size, MEASURED)?;
    Ok(Sample {
        updates_per_second: run.updates_per_second,
        resident_bytes: run.resident_bytes,
        huge_bytes: run.huge_bytes,
        first_touch_p99_9_ns: Some(run.first_touch_p99_9_ns),
        seconds: run.seconds,
        manager_cpu_seconds: (mode == Mode::Mega).then_some(run.manager_cpu_seconds),
    })
}
