//! Base pages and huge pages in turns over one running program.

use std::process::Command;
use std::time::Duration;

use mega_linux::kernel::{Kernel, LiveKernel};

use super::running::Running;
use super::truth::Measured;
use crate::error::Error;
use crate::live::run::Run;
use crate::programs;
use crate::resident;

/// How long a program works on its new pages before it is measured.
const PAUSE: Duration = Duration::from_millis(300);

/// A while in which a program had all of its memory in one size of pages.
pub(super) struct Window {
    pub(super) huge: bool,
    /// Its ends, in seconds since the program was ready.
    pub(super) from: f64,
    pub(super) to: f64,
    /// CPU seconds that the program used.
    cpu: f64,
    /// Requests sent to it.
    requests: u64,
    /// The share of its resident memory that was in huge pages.
    huge_share: f64,
}

impl Window {
    /// What came of it at that many operations a second.
    pub(super) fn measured(&self, rate: f64) -> Measured {
        let cpus = self.cpu / (self.to - self.from);
        Measured {
            huge: self.huge,
            operations_per_second: rate,
            cpu_ns_per_operation: 1e9 * cpus / rate,
            huge_share: self.huge_share,
        }
    }

    /// Requests a second.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn request_rate(&self) -> f64 {
        self.requests as f64 / (self.to - self.from)
    }
}

/// Windows of a [`pair`].
pub(super) const PAIR: usize = 2;

/// A window with the base pages that the program has, and one with huge pages, which are broken up then.
///
/// # Errors
/// As [`take`].
pub(super) fn pair(run: &Run<'_>, running: &Running) -> Result<[Window; PAIR], Error> {
    let base = window(run, running, false)?;
    change(running.pid(), "promote")?;
    let huge = window(run, running, true)?;
    change(running.pid(), "demote")?;
    Ok([base, huge])
}

/// Gives the program huge pages so often, and base pages before and after each time.
///
/// # Errors
/// When its pages cannot be changed, it is gone, or when interrupted.
pub(super) fn take(run: &Run<'_>, running: &Running, rounds: u32) -> Result<Vec<Window>, Error> {
    let mut windows = Vec::new();
    for _ in 0..rounds {
        windows.extend(pair(run, running)?);
    }
    windows.push(window(run, running, false)?);
    Ok(windows)
}

#[allow(clippy::cast_precision_loss)]
fn window(run: &Run<'_>, running: &Running, huge: bool) -> Result<Window, Error> {
    run.sleep(PAUSE)?;
    let pid = running.pid();
    let cpu = || {
        let used = LiveKernel.cpu_time_of(pid);
        used.map_err(|e| Error::io(format!("reading the CPU time of process {pid}"), e))
    };
    let (from, cpu_before, requests_before) = (running.seconds(), cpu()?, running.requests());
    run.sleep(run.measured)?;
    let (to, cpu_after, requests_after) = (running.seconds(), cpu()?, running.requests());
    let resident = resident::of(pid)?;
    Ok(Window {
        huge,
        from,
        to,
        cpu: cpu_after.saturating_sub(cpu_before).as_secs_f64(),
        requests: requests_after - requests_before,
        huge_share: resident.huge_bytes as f64 / resident.resident_bytes.max(1) as f64,
    })
}

/// `mega promote` or `mega demote` of all that the process has.
fn change(pid: u32, command: &str) -> Result<(), Error> {
    let attempted = format!("running mega {command} {pid}");
    let output = Command::new(programs::mega()?)
        .args([command, &pid.to_string()])
        .output()
        .map_err(|e| Error::io(&*attempted, e))?;
    match output.status.code() {
        // 1: some regions are not as wanted, a stack's say. How much is huge is recorded.
        Some(0 | 1) => Ok(()),
        _ => Err(Error::Failed(format!(
            "{attempted}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
