//! Reading accessed and mapped counts with the BPF tracker, against reading the same range of pagemap.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_lab::Error;
use mega_lab::subject::Subject;
use mega_linux::kernel::Kernel;
use mega_linux::observe::tracker::BpfTracker;

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, median};
use crate::timed_scan::{milliseconds_per_gib, timed_scan};

/// Bytes of one read of pagemap: a GiB of memory has 2 MiB of entries.
const READ: usize = 128 << 10;

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let mut subject =
        Subject::start(&mut setting.workload(&["grow", "--no-huge-pages", "--until-eof"]))?;
    let ready = subject.ready()?;
    let area = ready
        .areas
        .first()
        .ok_or_else(|| Error::Failed("the workload told no area".into()))?;
    let range = area.start..area.start + area.bytes;
    let mut tracker =
        BpfTracker::open(Arc::clone(&setting.kernel)).map_err(|e| Error::Missing(e.to_string()))?;
    let (mut ratios, mut per_gib) = (Vec::new(), Vec::new());
    for _ in 0..setting.repetitions {
        let pagemap = read_pagemap(setting.kernel.as_ref(), ready.pid, &range)?;
        let walk = scan(setting.kernel.as_ref(), &mut tracker, ready.pid, &range)?;
        ratios.push(pagemap.as_secs_f64() / walk.as_secs_f64());
        per_gib.push(milliseconds_per_gib(walk, area.bytes));
    }
    subject.finish()?;
    Ok(vec![
        Bar {
            name: "BPF read, times faster than pagemap",
            unit: "x",
            measured: median(&ratios)?,
            wanted: Wanted::AtLeast(8.0),
        },
        Bar {
            name: "BPF read of a GiB of base pages",
            unit: "ms",
            measured: median(&per_gib)?,
            wanted: Wanted::AtMost(1.0),
        },
    ])
}

/// One scan of the range, whose every base page must be found.
fn scan(
    kernel: &dyn Kernel,
    tracker: &mut BpfTracker,
    pid: u32,
    range: &Range<u64>,
) -> Result<Duration, Error> {
    let (regions, elapsed) = timed_scan(kernel, tracker, pid, range)?;
    let mapped: u64 = regions.iter().map(|region| region.resident_bytes()).sum();
    if mapped != range.end - range.start {
        return Err(Error::Failed(format!(
            "the tracker found {mapped} bytes mapped of {}",
            range.end - range.start
        )));
    }
    Ok(elapsed)
}

/// One read of all entries of the range, counting those present.
fn read_pagemap(kernel: &dyn Kernel, pid: u32, range: &Range<u64>) -> Result<Duration, Error> {
    let path = format!("/proc/{pid}/pagemap");
    let io = |e| Error::io(format!("reading {path}"), e);
    let file = kernel.open(Path::new(&path)).map_err(io)?;
    let mut buffer = vec![0; READ];
    let (mut offset, end) = (range.start / 4096 * 8, range.end / 4096 * 8);
    let mut present = 0;
    let started = Instant::now();
    while offset < end {
        let read = kernel.read_at(&file, &mut buffer, offset).map_err(io)?;
        if read == 0 {
            return Err(Error::Failed(format!("{path} ended early")));
        }
        // The top bit of each 64-bit entry says whether the page is present.
        present += buffer[..read]
            .chunks_exact(8)
            .filter(|entry| entry[7] >> 7 == 1)
            .count() as u64;
        offset += read as u64;
    }
    let elapsed = started.elapsed();
    if present * 4096 < range.end - range.start {
        return Err(Error::Failed(format!(
            "{path} shows {present} pages present only"
        )));
    }
    Ok(elapsed)
}
