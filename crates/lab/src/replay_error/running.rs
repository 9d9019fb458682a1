//! Runs a program: to be recorded, or under a policy.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mega_core::HUGE_PAGE_SIZE;
use serde_json::Value;

use super::outcome::{Outcome, place};
use super::recorded::Recording;
use crate::subject::Subject;
use crate::workload::report::Ready;
use crate::{Error, programs};

/// How programs are run.
pub(super) struct Setting {
    mega: PathBuf,
    lab: PathBuf,
    pub(super) size: u64,
    /// How long a program runs once its memory is touched.
    pub(super) time: Duration,
    /// Between two looks.
    pub(super) interval: Duration,
}

impl Setting {
    /// # Errors
    /// [`Error::Missing`] where mega is not found.
    pub(super) fn new(size: u64, time: Duration, interval: Duration) -> Result<Self, Error> {
        Ok(Setting {
            mega: programs::mega()?,
            lab: programs::own()?,
            size,
            time,
            interval,
        })
    }

    /// A command of mega's, with the program to run under it.
    fn under(&self, options: &[&str], program: &str) -> Command {
        let mut command = Command::new(&self.mega);
        command
            .args(options)
            .arg(format!("--interval={}ms", self.interval.as_millis()))
            .arg("--")
            .arg(&self.lab)
            .args(["workload", program, "--json", "--until-eof"])
            .arg(format!("--size={}", self.size))
            // Between the second look and the third: what is used once, at the start, is seen in each run, and not by chance.
            .arg(format!("--delay={}", (self.interval * 3 / 2).as_millis()))
            // What mega says at the end of each run is not for the reader of this experiment.
            .stderr(Stdio::null());
        command
    }

    /// Starts it, and lets it run for its time.
    fn start(&self, command: &mut Command) -> Result<(Subject, Ready), Error> {
        let mut subject = Subject::start(command)?;
        let ready = subject.ready()?;
        std::thread::sleep(self.time);
        Ok((subject, ready))
    }

    /// Records a program on base pages.
    pub(super) fn record(&self, program: &str) -> Result<Recording, Error> {
        let folder = tempfile::tempdir()
            .map_err(|error| Error::io("make a folder for a recording", error))?;
        let file = folder.path().join(Recording::FILE);
        let output = format!("--output={}", file.display());
        let (subject, ready) = self.start(&mut self.under(&["record", &output], program))?;
        let told = Instant::now();
        subject.finish()?;
        Ok(Recording {
            folder,
            ready,
            ending: told.elapsed(),
        })
    }

    /// Runs a program under a policy, and looks at it in the end.
    pub(super) fn run(&self, program: &str, policy: &str) -> Result<Outcome, Error> {
        let policy = format!("--policy={policy}");
        let (subject, ready) =
            self.start(&mut self.under(&["run", "--quiet", "--fault", "base", &policy], program))?;
        let outcome = self.scan(&ready)?;
        subject.finish()?;
        Ok(outcome)
    }

    /// Looks at a program without disturbing its manager.
    fn scan(&self, ready: &Ready) -> Result<Outcome, Error> {
        let attempted = format!("scanning process {}", ready.pid);
        let output = Command::new(&self.mega)
            .args(["scan", "--dry-run", "--json", &ready.pid.to_string()])
            .output()
            .map_err(|error| Error::io(&*attempted, error))?;
        let failed = |why: &str| Error::Failed(format!("{attempted}: {why}"));
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
        }
        let scan: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(&error.to_string()))?;
        seen_in(&scan, ready).ok_or_else(|| failed("it has no regions"))
    }
}

/// What a scan saw of a program.
fn seen_in(scan: &Value, ready: &Ready) -> Option<Outcome> {
    let totals = |field| scan.pointer(field)?.as_u64();
    let regions = scan.get("regions")?.as_array()?.iter();
    let huge = regions.filter(|region| {
        let size = region.get("page_size").and_then(Value::as_u64);
        size.is_some_and(|size| size >= HUGE_PAGE_SIZE)
    });
    Some(Outcome {
        resident: totals("/totals/mapped")?,
        huge: totals("/totals/huge")?,
        regions: huge
            .filter_map(|region| place(ready, region.get("start")?.as_u64()?))
            .collect(),
    })
}
