//! `probe`: works as `random` while another thread maps and unmaps memory every millisecond and times that. What it
//! waits for is whoever holds the process's mmap lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::access::{map, ready, touch};
use super::arguments::Common;
use super::random::update;
use super::report::{Done, FirstTouch, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE};

/// The time between two probes.
const PERIOD: Duration = Duration::from_millis(1);

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(common.size())?;
    touch(&mut area, 1, common.seed);
    ready("probed", &area, common, reporter)?;
    let over = AtomicBool::new(false);
    let (done, times) = thread::scope(|scope| {
        let prober = scope.spawn(|| probe_until(&over));
        let done = update(&mut area, 1, common.seed, reporter, stop);
        over.store(true, Ordering::Relaxed);
        (done, prober.join())
    });
    let times =
        times.map_err(|_| Error::Failed("the thread that probes the lock panicked".into()))??;
    let mut done = done?;
    done.map_time = Some(FirstTouch::of(&times));
    Ok(done)
}

/// Maps and unmaps memory, untouched, until `over`; in nanoseconds.
fn probe_until(over: &AtomicBool) -> Result<Histogram<u64>, Error> {
    let failed = |e: String| Error::Failed(format!("recording how long mapping memory took: {e}"));
    let mut times = Histogram::new(3).map_err(|e| failed(e.to_string()))?;
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        let area = Area::map(HUGE_PAGE).map_err(|e| Error::io("mapping 2 MiB of memory", e))?;
        drop(area);
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        times
            .record(nanoseconds)
            .map_err(|e| failed(e.to_string()))?;
        thread::sleep(PERIOD);
    }
    Ok(times)
}
