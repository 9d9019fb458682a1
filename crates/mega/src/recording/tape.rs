//! Records what a manager sees and does: each step's observation, and its actions with what came of them. A tape with a bound starts
//! anew when it is half full, and keeps what was before.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::Emptied;
use mega_core::{Action, Glance, Observation, Outcome, ProcessId, RegionRef};
use mega_linux::{Host, LinuxMachine};
use mega_record::{Acted, Compacted, Header, Look, News, TouchRate, Writer};

use super::{Heard, Shared, Told, began_now, free_lists};
use crate::report::TapeReport;

/// How the name of the recording ends that a tape with a bound keeps beside the one that it writes.
const OLDER: &str = "older.rec";

/// A recording of one manager, or of one of its groups.
pub(crate) struct Tape {
    host: Arc<Host>,
    path: PathBuf,
    header: Header,
    /// Bytes that the recording and the older one may have together; `None` for any.
    most: Option<u64>,
    writer: Writer<BufWriter<File>>,
    began: Duration,
    told: Told,
    heard: Heard,
    /// The step that is taken.
    look: Option<Look>,
    /// When the last one was.
    last: Option<Duration>,
    /// CPU time that recording took, beyond the manager's own.
    cpu: Duration,
}

impl Tape {
    /// Begins one.
    ///
    /// # Errors
    /// Where nothing can be written to `file`.
    pub(crate) fn begin(
        host: Arc<Host>,
        path: &Path,
        file: BufWriter<File>,
        header: Header,
        calls: &Shared,
    ) -> io::Result<Self> {
        let header = calls.in_header(header);
        Ok(Tape {
            began: host.kernel().now(),
            writer: Writer::new(file, &header)?,
            host,
            path: path.to_owned(),
            header,
            most: None,
            told: Told::default(),
            heard: calls.listen(),
            look: None,
            last: None,
            cpu: Duration::ZERO,
        })
    }

    /// Begins one that takes so many bytes at most, with the older one. What lies at `path` becomes the older one.
    ///
    /// # Errors
    /// Where nothing can be written there.
    pub(crate) fn begin_bounded(
        host: Arc<Host>,
        path: &Path,
        header: Header,
        calls: &Shared,
        most: u64,
    ) -> io::Result<Self> {
        let file = begin_file(path)?;
        let tape = Tape::begin(host, path, file, header, calls)?;
        Ok(Tape {
            most: Some(most),
            ..tape
        })
    }

    /// Where it is written.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it has, and what it cost.
    pub(crate) fn report(&self) -> TapeReport {
        TapeReport {
            file: self.path.clone(),
            looks: self.writer.looks(),
            bytes: self.writer.bytes(),
            cpu_seconds: self.cpu.as_secs_f64(),
        }
    }

    /// Does something, and counts what it costs.
    fn charged<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.host.kernel().cpu_time();
        let result = what(self);
        self.cpu += self.host.kernel().cpu_time().saturating_sub(before);
        result
    }

    fn passed(&self) -> Duration {
        self.host.kernel().now().saturating_sub(self.began)
    }

    /// What the step saw, and the CPU time that looking took.
    pub(crate) fn saw(&mut self, observation: &Observation, cpu: Duration) {
        self.charged(|tape| {
            let mut observation = observation.clone();
            observation.normalise();
            observation.counted.clear();
            let at = tape.passed();
            let interval = Duration::from_millis(tape.header.interval_ms);
            let missed = tape.last.map_or(0, |last| missed(last, at, interval));
            tape.last = Some(at);
            tape.look = Some(Look {
                at,
                cpu,
                missed,
                observation,
                ..Look::default()
            });
        });
    }

    /// What the step found to be accessed in a moment, and the CPU time that this look took.
    pub(crate) fn glanced(&mut self, glances: &[Glance], cpu: Duration) {
        if let Some(look) = &mut self.look {
            look.observation.glances = glances.to_vec();
            look.observation.normalise();
            look.cpu += cpu;
        }
    }

    /// The zero-filled base pages of a region, which the step counted.
    pub(crate) fn counted(&mut self, target: RegionRef, zero_filled: u16) {
        let processes = self.look.iter_mut();
        let mut processes = processes.flat_map(|look| &mut look.observation.processes);
        if let Some(seen) = processes.find(|seen| seen.process == target.process)
            && let Ok(place) = seen
                .regions
                .binary_search_by_key(&target.region, |region| region.region)
            && let Some(region) = seen.regions.get_mut(place)
        {
            region.zero_filled = Some(zero_filled.min(region.mapped));
        }
    }

    /// How often the step found that a process touches its memory.
    pub(crate) fn touched(&mut self, process: ProcessId, rate: TouchRate) {
        if let Some(look) = &mut self.look {
            look.news.touches.insert(process, rate);
        }
    }

    /// What the step did, and what came of it.
    pub(crate) fn did(&mut self, actions: &[Action], outcomes: &[Outcome]) {
        self.charged(|tape| {
            let at = tape.passed();
            let acted = |(action, outcome): (&Action, &Outcome)| Acted {
                at,
                action: *action,
                outcome: *outcome,
            };
            if let Some(look) = &mut tape.look {
                look.actions.extend(actions.iter().zip(outcomes).map(acted));
            }
        });
    }

    /// What was emptied for what the step lacked.
    pub(crate) fn emptied(&mut self, emptied: &[Emptied]) {
        let at = self.passed();
        let compacted = |emptied: &Emptied| Compacted {
            at,
            emptied: *emptied,
        };
        if let Some(look) = &mut self.look {
            look.compacted.extend(emptied.iter().map(compacted));
        }
    }

    /// Adds what is to be said of the step besides, if one was taken: it is over.
    ///
    /// # Errors
    /// Where the free lists cannot be read.
    pub(crate) fn complete(&mut self, machine: &LinuxMachine) -> io::Result<()> {
        self.charged(|tape| tape.complete_step(machine))
    }

    /// Writes the step down, if one was taken.
    ///
    /// # Errors
    /// Where the file takes no more.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        self.charged(|tape| {
            if let Some(look) = tape.look.take() {
                tape.writer.write(&look)?;
            }
            let is_full = |most| tape.writer.bytes() >= most / 2;
            match tape.most.is_some_and(is_full) {
                true => tape.start_anew(),
                false => Ok(()),
            }
        })
    }

    fn complete_step(&mut self, machine: &LinuxMachine) -> io::Result<()> {
        let Some(look) = &mut self.look else {
            return Ok(());
        };
        let processes = look.observation.processes.iter();
        let processes: BTreeSet<_> = processes.map(|seen| seen.process).collect();
        self.told.retain(|process| processes.contains(process));
        let news = self.told.news(&self.host, machine, &processes, look.at);
        let touches = std::mem::take(&mut look.news.touches);
        look.news = News { touches, ..news };
        (look.calls, look.calls_lost) = self.heard.take(&processes, self.began, look.at);
        look.free_lists = free_lists(self.host.kernel().as_ref()).map_err(io::Error::other)?;
        Ok(())
    }

    /// Ends the recording, keeps it as the older one, and begins another, which says all that changes seldom once more.
    fn start_anew(&mut self) -> io::Result<()> {
        self.header.began = began_now();
        let file = begin_file(&self.path)?;
        let next = Writer::new(file, &self.header)?;
        std::mem::replace(&mut self.writer, next).finish()?;
        self.began = self.host.kernel().now();
        self.told = Told::default();
        self.last = None;
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// Where the rest cannot be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.writer.finish().map(drop)
    }
}

/// Steps that were due between two at an equal `interval`, and were not taken. None where a manager chooses it from step to step.
fn missed(last: Duration, at: Duration, interval: Duration) -> u32 {
    let passed = at.saturating_sub(last).as_nanos();
    let due = passed.checked_div(interval.as_nanos()).unwrap_or(0);
    u32::try_from(due.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// Makes what lies at `path` the older recording, and an empty file in its place, which only its owner may read: it says where in a
/// process's addresses what lies.
fn begin_file(path: &Path) -> io::Result<BufWriter<File>> {
    match std::fs::rename(path, path.with_extension(OLDER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.map(BufWriter::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_came_late_are_missed_where_they_had_a_time() {
        let ms = Duration::from_millis;
        let missed_by = |at| missed(ms(1000), ms(at), ms(100));
        assert_eq!([1100, 1199, 1200, 1530].map(missed_by), [0, 0, 1, 4]);
        assert_eq!(missed(ms(1000), ms(9000), Duration::ZERO), 0);
    }
}
