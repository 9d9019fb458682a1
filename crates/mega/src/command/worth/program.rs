//! `mega worth -- COMMAND`: starts a program on base pages and measures it until it ends.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::process;
use mega_linux::settings::fault::{FaultControl, FaultMode};
use mega_linux::settings::run_dir::RunDir;

use super::measure::Meter;
use crate::exit::Failure;
use crate::output;
use crate::report::WorthReport;
use crate::supervise::Supervisor;

/// Runs the program to its end. Returns its exit code, and what was seen in that part of its run in which huge pages would
/// have saved most.
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
    let (code, best) = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| best_of(meter, pid, &has_ended));
        let code = program.wait();
        has_ended.store(true, Ordering::Relaxed);
        let best = measuring
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (code, best)
    });
    Ok((ExitCode::from(code), best?))
}

/// Measures the program again and again until it ends.
fn best_of(meter: &Meter, pid: u32, has_ended: &AtomicBool) -> Result<WorthReport, Failure> {
    let mut best: Option<WorthReport> = None;
    let mut why = String::new();
    while !has_ended.load(Ordering::Relaxed) {
        let measured = process::identify(&LiveKernel, pid)
            .map_err(Failure::from)
            .and_then(|process| meter.measure(process));
        match measured {
            Ok(report) => {
                let saves_more = best
                    .as_ref()
                    .is_none_or(|best| saved(&report) > saved(best));
                if saves_more {
                    best = Some(report);
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
    best.ok_or_else(|| {
        Failure::Failed(format!(
            "the program ended before it was measured once; --seconds says how long that takes ({why})"
        ))
    })
}

/// CPU seconds saved in a second.
fn saved(report: &WorthReport) -> f64 {
    report.worth.saved_share.value * report.worth.cpu_share
}
