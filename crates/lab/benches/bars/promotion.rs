//! Promotion within the lock bound and verified, against one `MADV_COLLAPSE` call over the same amount of memory.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::{Action, ActionKind, Cause, Machine, Outcome, ProcessId, Region, RegionRef};
use mega_lab::Error;
use mega_lab::subject::Subject;
use mega_linux::kernel::{Advice, Kernel};
use mega_linux::process;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, failed, median};

/// Memory that one of the two promotes before it is the other's turn. What a page costs changes from moment to moment with
/// what the hypervisor does, so they take turns in the same memory, and neighbours are compared.
const TURN: u64 = 32 << 20;
/// Tries for what the kernel says is in use for the moment (a page on its way to a list of the kernel's).
const TRIES: usize = 3;

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let host = Arc::new(Host::open(HostOptions::default()).map_err(failed)?);
    let mut ratios = Vec::new();
    for _ in 0..setting.repetitions {
        let these = in_turns(setting, &host)?;
        eprintln!(
            "bars: the median of {} pairs of turns is {:.3}",
            these.len(),
            median(&these)?
        );
        ratios.extend(these);
    }
    Ok(vec![Bar {
        name: "promotion in the lock bound, of one MADV_COLLAPSE's speed",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtLeast(0.9),
    }])
}

/// Promotes the memory of a program that has just touched all of it and idles, by one call a turn and by the machine.
/// Returns the machine's speed for each pair of turns, of the call's.
fn in_turns(setting: &Setting, host: &Arc<Host>) -> Result<Vec<f64>, Error> {
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
    let mut machine = LinuxMachine::new(Arc::clone(host), MachineOptions::default());
    machine.set_targets(vec![process]);
    let pairs = area.bytes / (2 * TURN);
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let first = area.start + pair * 2 * TURN;
        let (first, second) = (first..first + TURN, first + TURN..first + 2 * TURN);
        let kernel = host.kernel().as_ref();
        // Each is first as often as the other.
        let (call, bounded) = if pair % 2 == 0 {
            let call = by_call(kernel, process, &first)?;
            (call, by_machine(&mut machine, process, &second)?)
        } else {
            let bounded = by_machine(&mut machine, process, &first)?;
            (by_call(kernel, process, &second)?, bounded)
        };
        ratios.push(call.div_duration_f64(bounded));
    }
    let wanted = pairs * 2 * TURN;
    let huge = mega_lab::resident::of(ready.pid)?.huge_bytes;
    if huge < wanted {
        return Err(Error::Failed(format!(
            "only {huge} of {wanted} bytes were promoted"
        )));
    }
    subject.finish()?;
    Ok(ratios)
}

/// As [`collapse`], again where something was in use.
fn by_call(kernel: &dyn Kernel, process: ProcessId, range: &Range<u64>) -> Result<Duration, Error> {
    let started = Instant::now();
    for _ in 1..TRIES {
        match collapse(kernel, process, range.clone()) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::WouldBlock => {}
            result => return result.map(|_| started.elapsed()),
        }
    }
    collapse(kernel, process, range.clone()).map(|_| started.elapsed())
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

/// The machine's own promotion, with its lock bound and its look afterwards; again where something was in use.
fn by_machine(
    machine: &mut LinuxMachine,
    process: ProcessId,
    range: &Range<u64>,
) -> Result<Duration, Error> {
    let mut left: Vec<Action> = Region::wholly_inside(range.start, range.end)
        .map(|region| Action {
            kind: ActionKind::Promote,
            target: RegionRef { process, region },
        })
        .collect();
    let started = Instant::now();
    for _ in 0..TRIES {
        let outcomes = machine.act(&left);
        let outcomes = left.into_iter().zip(outcomes);
        let not_done = outcomes.filter(|(_, outcome)| !matches!(outcome, Outcome::Done { .. }));
        let not_done: Vec<(Action, Outcome)> = not_done.collect();
        let other = not_done
            .iter()
            .find(|(_, outcome)| !matches!(outcome, Outcome::Failed(Cause::Busy)));
        if let Some((_, outcome)) = other {
            return Err(Error::Failed(format!(
                "a region was not promoted: {outcome:?}"
            )));
        }
        left = not_done.into_iter().map(|(action, _)| action).collect();
        if left.is_empty() {
            return Ok(started.elapsed());
        }
    }
    let left = left.len();
    Err(Error::Failed(format!(
        "{left} regions were in use at each of {TRIES} tries"
    )))
}
