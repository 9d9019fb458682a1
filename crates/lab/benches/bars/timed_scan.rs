//! One scan of a range by a tracker, timed.

use std::ops::Range;
use std::time::{Duration, Instant};

use mega_core::RegionObservation;
use mega_lab::Error;
use mega_linux::kernel::Kernel;
use mega_linux::observe::tracker::{TrackedProcess, Tracker};
use mega_linux::process;

use crate::setting::failed;

/// Scans a range of process `pid`: what was found, and how long that took.
pub(crate) fn timed_scan(
    kernel: &dyn Kernel,
    tracker: &mut dyn Tracker,
    pid: u32,
    range: &Range<u64>,
) -> Result<(Vec<RegionObservation>, Duration), Error> {
    let process = process::identify(kernel, pid).map_err(failed)?;
    let handle = kernel
        .open_process(pid)
        .map_err(|e| Error::io(format!("opening process {pid}"), e))?;
    let target = TrackedProcess {
        process,
        handle: &handle,
    };
    let mut regions = Vec::new();
    let started = Instant::now();
    tracker
        .scan(&target, std::slice::from_ref(range), &mut regions)
        .map_err(|e| Error::Failed(e.to_string()))?;
    Ok((regions, started.elapsed()))
}

/// Milliseconds for a GiB where `bytes` took `time`.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn milliseconds_per_gib(time: Duration, bytes: u64) -> f64 {
    time.as_secs_f64() * 1e3 * f64::from(1 << 30) / bytes as f64
}
