//! Promotion within the lock bound and verified, against one `MADV_COLLAPSE` call over the whole range.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::{Action, ActionKind, Machine, Outcome, ProcessId, Region, RegionRef};
use mega_lab::Error;
use mega_lab::subject::Subject;
use mega_linux::kernel::{Advice, Kernel};
use mega_linux::process;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, failed, median};

/// One call moves at most 2 GiB minus one page (see `process_madvise(2)`); this leaves a whole region.
pub(crate) const LONGEST_CALL: u64 = (2 << 30) - (2 << 20);

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let host = Arc::new(Host::open(HostOptions::default()).map_err(failed)?);
    let mut ratios = Vec::new();
    for _ in 0..setting.repetitions {
        // CPU time is for whoever reads a figure taken on a busy machine: the bar is on time that passed.
        let start = own_cpu_time()?;
        let one_call = on_fresh_memory(setting, |process, range| {
            collapse(host.kernel().as_ref(), process, range)
        })?;
        let between = own_cpu_time()?;
        let bounded = on_fresh_memory(setting, |process, range| promote(&host, process, range))?;
        let end = own_cpu_time()?;
        eprintln!(
            "bars: one call {one_call:.1?} ({:.1?} CPU), within the lock bound {bounded:.1?} ({:.1?} CPU)",
            between.saturating_sub(start),
            end.saturating_sub(between)
        );
        ratios.push(one_call.as_secs_f64() / bounded.as_secs_f64());
    }
    Ok(vec![Bar {
        name: "promotion in the lock bound, of one MADV_COLLAPSE's speed",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtLeast(0.9),
    }])
}

/// CPU time of this benchmark, in whose name the kernel copies.
fn own_cpu_time() -> Result<Duration, Error> {
    mega_lab::mapping::cpu_time_of(std::process::id())
        .map_err(|e| Error::io("reading our own CPU time", e))
}

/// Times `promote` over the memory of a program that has just touched all of it and idles.
fn on_fresh_memory(
    setting: &Setting,
    promote: impl FnOnce(ProcessId, Range<u64>) -> Result<Duration, Error>,
) -> Result<Duration, Error> {
    let mut subject = Subject::start(&mut setting.workload(&["grow", "--until-eof"]))?;
    let ready = subject.ready()?;
    let area = ready
        .areas
        .first()
        .ok_or_else(|| Error::Failed("the workload told no area".into()))?;
    if mega_lab::resident::of(ready.pid)?.huge_bytes > 0 {
        return Err(Error::Missing(
            "the program has huge pages from the start: set /sys/kernel/mm/transparent_hugepage/enabled to madvise for this benchmark".into(),
        ));
    }
    let process = process::identify(setting.kernel.as_ref(), ready.pid).map_err(failed)?;
    // A hypervisor that is told of free memory takes it back within seconds; the first touch of it then costs more
    // than the copy that is timed here.
    setting.warm_up()?;
    let range = area.start..area.start + area.bytes.min(LONGEST_CALL);
    let elapsed = promote(process, range.clone())?;
    let huge = mega_lab::resident::of(ready.pid)?.huge_bytes;
    if huge < range.end - range.start {
        return Err(Error::Failed(format!(
            "only {huge} of {} bytes were promoted",
            range.end - range.start
        )));
    }
    subject.finish()?;
    Ok(elapsed)
}

/// One call over all of it.
pub(crate) fn collapse(
    kernel: &dyn Kernel,
    process: ProcessId,
    range: Range<u64>,
) -> Result<Duration, Error> {
    let io = |attempted: &str| {
        let attempted = format!("{attempted} process {process}");
        move |e| Error::io(attempted, e)
    };
    let handle = kernel.open_process(process.pid).map_err(io("opening"))?;
    let started = Instant::now();
    let advised = kernel
        .advise(&handle, std::slice::from_ref(&range), Advice::Collapse)
        .map_err(io("collapsing memory of"))?;
    if advised != range.end - range.start {
        return Err(Error::Failed(format!(
            "one call collapsed {advised} bytes only"
        )));
    }
    Ok(started.elapsed())
}

/// The machine's own promotion, with its lock bound and its look afterwards.
fn promote(host: &Arc<Host>, process: ProcessId, range: Range<u64>) -> Result<Duration, Error> {
    let mut machine = LinuxMachine::new(Arc::clone(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    let actions: Vec<Action> = Region::wholly_inside(range.start, range.end)
        .map(|region| Action {
            kind: ActionKind::Promote,
            target: RegionRef { process, region },
        })
        .collect();
    let started = Instant::now();
    let outcomes = machine.act(&actions);
    let elapsed = started.elapsed();
    match outcomes
        .iter()
        .find(|outcome| !matches!(outcome, Outcome::Done { .. }))
    {
        None => Ok(elapsed),
        Some(outcome) => Err(Error::Failed(format!(
            "a region was not promoted: {outcome:?}"
        ))),
    }
}
