//! One run of the program in one mode.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::mode::Mode;
use super::plan::Plan;
use super::progress::Progress;
use crate::error::Error;
use crate::workload::report::{Done, Event};

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The signals that end the demo in good order.
const SIGNALS: [i32; 3] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
];

/// Whether a signal asked the demo to end.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub(super) fn catch() -> Result<Self, Error> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(|e| Error::io(format!("catching signal {signal}"), e))?;
        }
        Ok(Interrupt(flag))
    }

    /// Whether one came.
    fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one run came to.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// What the program says of itself.
    pub(super) done: Done,
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
    let program = std::env::current_exe()
        .map_err(|e| Error::io("finding this program, to start it as the measured one", e))?;
    let report = Scratch::new();
    let workload = [
        format!("--size={}", plan.size),
        format!("--seconds={:.2}", plan.run_seconds(mode)),
    ];
    let mut command = mode.command(&program, &report.0, &workload);
    let done = run_workload(&mut command, mode, interrupt, progress)?;
    let manager_cpu_seconds = match mode {
        Mode::Mega => Some(manager_cpu_seconds(&report.0)?),
        Mode::Base | Mode::ThpAlways => None,
    };
    Ok(Sample {
        done,
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
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Done, Error> {
    let attempted = || format!("running the program ({})", mode.name());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::io(attempted(), e))?;
    let talk = child
        .stderr
        .take()
        .map(|pipe| thread::spawn(move || std::io::read_to_string(pipe)));
    let events = child
        .stdout
        .take()
        .map(|pipe| thread::spawn(move || last_event(pipe)));
    let status = wait(&mut child, interrupt, progress).map_err(|e| Error::io(attempted(), e))?;
    let talk = talk
        .and_then(|reader| reader.join().ok())
        .and_then(Result::ok);
    let done = events.and_then(|reader| reader.join().ok()).flatten();
    if interrupt.came() {
        return Err(Error::Failed(
            "interrupted; the THP mode is as before".into(),
        ));
    }
    match (status.success(), done) {
        (true, Some(done)) => Ok(done),
        _ => Err(Error::Failed(format!(
            "{} failed, {status}: {}",
            attempted(),
            talk.unwrap_or_default().trim()
        ))),
    }
}

/// Waits for the end, which an interrupt hastens.
fn wait(
    child: &mut Child,
    interrupt: &Interrupt,
    progress: &Progress,
) -> std::io::Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
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

/// The `done` line, if the program came as far.
fn last_event(pipe: ChildStdout) -> Option<Done> {
    let mut done = None;
    for line in BufReader::new(pipe).lines() {
        if let Ok(Event::Done(event)) = serde_json::from_str(&line.ok()?) {
            done = Some(event);
        }
    }
    done
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
