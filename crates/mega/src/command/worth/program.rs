//! `mega worth -- COMMAND`: starts a program on base pages and measures it until it ends.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::process;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::{FaultControl, FaultMode};

use super::measure::Meter;
use crate::exit::Failure;
use crate::output;
use crate::report::WorthReport;
use crate::supervise::Supervisor;

/// Measurements of one run that are kept. Where there are more, every second one goes.
const MOST_KEPT: usize = 256;

/// Runs the program to its end. Returns its exit code, and of the measurements of its run the one nearest to their mean.
///
/// # Errors
/// Where it cannot be started, or ended before it was measured once.
pub(super) fn run(meter: &Meter, command: &[OsString]) -> Result<(ExitCode, WorthReport), Failure> {
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let fault = FaultControl::prepare(&kernel, &RunDir::open()?, FaultMode::Base)?;
    let supervisor = Supervisor::new()?;
    let program = supervisor.start(command, &fault)?;
    let pid = program.pid();
    let has_ended = AtomicBool::new(false);
    let (code, typical) = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| typical_of(meter, pid, &has_ended));
        let code = program.wait();
        has_ended.store(true, Ordering::Relaxed);
        let typical = measuring
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (code, typical)
    });
    Ok((ExitCode::from(code), typical?))
}

/// Measures the program again and again until it ends.
fn typical_of(meter: &Meter, pid: u32, has_ended: &AtomicBool) -> Result<WorthReport, Failure> {
    let mut reports = Vec::new();
    let mut why = String::new();
    while !has_ended.load(Ordering::Relaxed) {
        let measured = process::identify(&LiveKernel, pid)
            .map_err(Failure::from)
            .and_then(|process| meter.measure(process));
        match measured {
            Ok(report) => {
                reports.push(report);
                if reports.len() > MOST_KEPT {
                    let mut is_kept = false;
                    reports.retain(|_| {
                        is_kept = !is_kept;
                        is_kept
                    });
                }
            }
            Err(missing @ Failure::Missing(_)) => {
                // It will not be there later either; the program is left to end.
                output::say(&missing.to_string());
                return Err(missing);
            }
            Err(other) => {
                why = other.to_string();
                // It may have started another program, or have ended and not been waited for yet.
                LiveKernel.sleep(std::time::Duration::from_millis(50));
            }
        }
    }
    nearest_to_mean(reports).ok_or_else(|| {
        Failure::Failed(format!(
            "the program ended before it was measured once; --seconds says how long that takes ({why})"
        ))
    })
}

/// The mean is that over time: a program that has only just started is measured within milliseconds, as it has no memory yet.
/// Of those equally near it is the longest.
fn nearest_to_mean(reports: Vec<WorthReport>) -> Option<WorthReport> {
    let seconds: f64 = reports.iter().map(|report| report.seconds).sum();
    let whole: f64 = reports.iter().map(|one| saved(one) * one.seconds).sum();
    let off = |report: &WorthReport| (saved(report) - whole / seconds).abs();
    let nearer = |one: &WorthReport, other: &WorthReport| {
        let by_length = other.seconds.total_cmp(&one.seconds);
        off(one).total_cmp(&off(other)).then(by_length)
    };
    reports.into_iter().min_by(nearer)
}

/// CPU seconds saved in a second.
fn saved(report: &WorthReport) -> f64 {
    report.worth.saved_share.value * report.worth.cpu_share
}

#[cfg(test)]
mod tests {
    use super::super::obstacles::tests::worth;
    use super::super::text::tests::report;
    use super::*;
    use mega_core::worth::Estimate;

    fn measured(seconds: f64, saved: f64) -> WorthReport {
        let mut report = report(worth());
        report.worth.saved_share = Estimate::exact(saved);
        report.seconds = seconds;
        report
    }

    #[test]
    fn what_was_measured_before_it_had_memory_is_not_typical() {
        let typical = |all: &[(f64, f64)]| {
            let reports = all.iter().map(|&(seconds, saved)| measured(seconds, saved));
            nearest_to_mean(reports.collect()).map(|one| one.seconds)
        };
        assert_eq!(typical(&[(0.03, 0.0), (4.0, 0.0), (3.0, 0.0)]), Some(4.0));
        assert_eq!(typical(&[(0.03, 0.0), (0.03, 0.0), (4.0, 0.3)]), Some(4.0));
        assert_eq!(typical(&[]), None);
    }
}
