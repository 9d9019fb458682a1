//! One run of the program in one mode.

use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::course::Course;
use super::mode::Mode;
use super::plan::Plan;
use super::progress::Progress;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::workload::report::{self, Done, Event};

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What one run came to.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Updates per second once the program had settled.
    pub(super) updates_per_second: f64,
    /// Bytes resident at its end.
    pub(super) resident_bytes: u64,
    /// Of those, bytes in huge pages.
    pub(super) huge_bytes: u64,
    /// 99.9th percentile of its first touches, in nanoseconds; `None` where it timed none.
    pub(super) first_touch_p99_9_ns: Option<u64>,
    /// Seconds that it took.
    pub(super) seconds: f64,
    /// CPU time of the manager, in seconds; `None` where there is no manager.
    pub(super) manager_cpu_seconds: Option<f64>,
}

/// Runs the program in `mode` to its end.
///
/// # Errors
/// When it cannot be started, fails, or is interrupted.
pub(super) fn measure(
    mode: Mode,
    plan: &Plan,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Sample, Error> {
    let report = Scratch::new();
    let workload = [format!("--size={}", plan.size), "--until-eof".to_owned()];
    let mut command = mode.command(&report.0, &workload)?;
    let course = Course::new(mode, plan);
    let done = run_workload(&mut command, mode, course, interrupt, progress)?;
    let manager_cpu_seconds = match mode {
        Mode::Mega => Some(manager_cpu_seconds(&report.0)?),
        Mode::Base | Mode::ThpAlways => None,
    };
    Ok(Sample {
        updates_per_second: done.rate_over_last(plan.measured),
        resident_bytes: done.resident_bytes,
        huge_bytes: done.huge_bytes,
        first_touch_p99_9_ns: done.first_touch.map(|touch| touch.p99_9_ns),
        seconds: done.seconds,
        manager_cpu_seconds,
    })
}

/// A file of our own for the manager's report, removed when dropped.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("mega-demo-{}.json", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is gone already when the manager did not get as far as writing it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run_workload(
    command: &mut Command,
    mode: Mode,
    mut course: Course,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Done, Error> {
    let attempted = || format!("running the program ({})", mode.name());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::io(attempted(), e))?;
    let input = child.stdin.take();
    let talk = child
        .stderr
        .take()
        .map(|pipe| thread::spawn(move || std::io::read_to_string(pipe)));
    let (sender, events) = mpsc::channel();
    let reader = child
        .stdout
        .take()
        .map(|pipe| thread::spawn(move || report::forward_events(pipe, &sender)));
    let status = follow(&mut child, input, &mut course, &events, interrupt, progress)
        .map_err(|e| Error::io(attempted(), e))?;
    let talk = talk
        .and_then(|reader| reader.join().ok())
        .and_then(Result::ok);
    // A reader that failed has sent no last event, which is said below.
    let _ = reader.map(thread::JoinHandle::join);
    interrupt.check()?;
    match (status.success(), course.finish(&events)) {
        (true, Some(done)) => Ok(done),
        _ => Err(Error::Failed(format!(
            "{} failed, {status}: {}",
            attempted(),
            talk.unwrap_or_default().trim()
        ))),
    }
}

/// Waits for the end, which the end of the program's input or an interrupt brings about.
fn follow(
    child: &mut Child,
    mut input: Option<ChildStdin>,
    course: &mut Course,
    events: &Receiver<Event>,
    interrupt: &Interrupt,
    progress: &Progress,
) -> std::io::Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if course.advance(events) {
            drop(input.take());
        }
        if interrupt.came() && !told {
            told = true;
            // The manager forwards it to the program. It may have ended by itself in between.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        progress.tick();
        thread::sleep(LOOK);
    }
}

/// CPU time that the manager's report says it used.
fn manager_cpu_seconds(report: &Path) -> Result<f64, Error> {
    let text = std::fs::read_to_string(report).map_err(|e| {
        Error::io(
            format!("reading the manager's report {}", report.display()),
            e,
        )
    })?;
    serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|report| report.pointer("/manager/cpu_seconds")?.as_f64())
        .ok_or_else(|| Error::Failed("the manager's report tells no CPU time".into()))
}
