//! Looks at processes at equal intervals, and writes down what it saw.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mega_core::engine::{Interval, after_a_moment};
use mega_core::{Machine, ProcessId};
use mega_linux::guest::Vmms;
use mega_linux::process::claim::{Claim, Claims};
use mega_linux::run_dir::RunDir;
use mega_linux::{Host, LinuxMachine, MachineOptions};
use mega_record::{Header, Look, Writer};

use super::subject::Subject;
use super::touches::TouchMeter;
use crate::exit::Failure;
use crate::output;
use crate::recording::{self, Heard, Shared, Told, free_lists};
use crate::report::{HostPage, RecordReport, VERSION};

/// When looks are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    /// The time between two.
    pub(super) interval: Duration,
    /// When it is over, since the beginning; `None` for never.
    pub(super) end: Option<Duration>,
}

impl Rhythm {
    /// When the next look is due, after one that was due at `due` and done at `done`; and how many were due and are missed.
    fn next(&self, due: Duration, done: Duration) -> (Duration, u32) {
        let late = done.saturating_sub(due).as_nanos() / self.interval.as_nanos().max(1);
        let missed = u32::try_from(late).unwrap_or(u32::MAX);
        (
            due + self.interval.saturating_mul(missed.saturating_add(1)),
            missed,
        )
    }
}

/// A recording in the making.
pub(super) struct Recorder<W> {
    host: Arc<Host>,
    machine: LinuxMachine,
    subject: Subject,
    claims: Claims,
    /// `None` for a process that another mega manages, which is left out.
    claimed: BTreeMap<ProcessId, Option<Claim>>,
    /// Processes that could not be looked at. The user was told.
    refused: BTreeSet<ProcessId>,
    meter: TouchMeter,
    writer: Writer<W>,
    rhythm: Rhythm,
    began: Duration,
    cpu_at_begin: Duration,
    looking: Duration,
    measuring: Duration,
    last: Duration,
    missed: u64,
    told: Told,
    heard: Heard,
    /// Whether one of those that were recorded does.
    runs_guest: bool,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// Where nothing can be written to `out`.
    pub(super) fn begin(
        host: Arc<Host>,
        subject: Subject,
        out: W,
        rhythm: Rhythm,
        also_at_all_calls: bool,
    ) -> Result<Self, Failure> {
        let meter = TouchMeter::new(&host);
        let calls = Shared::open(&host, also_at_all_calls);
        let header = calls.in_header(header(&host, &subject, &meter, rhythm));
        let writer = Writer::new(out, &header)
            .map_err(|error| Failure::Failed(format!("cannot begin the recording: {error}")))?;
        let (began, cpu_at_begin) = (host.kernel().now(), host.kernel().cpu_time());
        Ok(Recorder {
            machine: LinuxMachine::new(Arc::clone(&host), MachineOptions::default()),
            claims: Claims::open(&RunDir::open()?)?,
            host,
            subject,
            claimed: BTreeMap::new(),
            refused: BTreeSet::new(),
            meter,
            writer,
            rhythm,
            began,
            cpu_at_begin,
            looking: Duration::ZERO,
            measuring: Duration::ZERO,
            last: Duration::ZERO,
            missed: 0,
            told: Told::default(),
            heard: calls.listen(),
            runs_guest: false,
        })
    }

    /// Records until it is over: its time has passed, its subject has ended, or `wait` says so. `wait` lets some time pass.
    ///
    /// # Errors
    /// Where nothing can be observed any more, or the file takes no more. What was written before is usable.
    pub(super) fn record(
        mut self,
        file: &Path,
        mut wait: impl FnMut(Duration) -> bool,
    ) -> Result<RecordReport, Failure> {
        let mut due = Duration::ZERO;
        let mut missed = 0;
        loop {
            let now = self.passed();
            if now < due && !wait(due - now) {
                break;
            }
            if self.rhythm.end.is_some_and(|end| self.passed() > end) {
                break;
            }
            if !self.find_targets()? {
                break;
            }
            self.look(missed, file)?;
            (due, missed) = self.rhythm.next(due, self.passed());
        }
        self.finish(file)
    }

    /// The time since it began.
    fn passed(&self) -> Duration {
        self.machine.now().saturating_sub(self.began)
    }

    /// Finds out whom to look at. False where nobody is left and nobody will come.
    fn find_targets(&mut self) -> Result<bool, Failure> {
        let wanted = self.subject.processes(&self.host)?;
        if wanted.is_empty() && self.subject.ends() {
            return Ok(false);
        }
        self.claimed.retain(|process, _| wanted.contains(process));
        self.refused.retain(|process| wanted.contains(process));
        for process in wanted {
            if self.claimed.contains_key(&process) {
                continue;
            }
            // If two megas cleared the same Accessed bits, both would see too few.
            let claim = match self.claims.take(process) {
                Ok(claim) => Some(claim),
                Err(error) if self.subject.ends() => return Err(error.into()),
                Err(error) => {
                    output::say(&format!("not recorded: {error}"));
                    None
                }
            };
            let vmms = Vmms::of(self.host.kernel().as_ref());
            self.runs_guest |= claim.is_some() && vmms.contain(process.pid);
            self.claimed.insert(process, claim);
        }
        let targets = self.claimed.iter().filter(|(_, claim)| claim.is_some());
        let targets = targets.map(|(process, _)| *process).collect();
        self.machine.set_targets(targets);
        Ok(true)
    }

    /// Looks once, and writes it down.
    fn look(&mut self, missed: u32, file: &Path) -> Result<(), Failure> {
        let at = self.passed();
        let cpu_before = self.machine.cpu_time();
        let mut observation = self.machine.observe()?;
        if !Interval::is_moment(observation.interval) {
            observation.glances = after_a_moment(&mut self.machine);
        }
        let cpu = self.machine.cpu_time().saturating_sub(cpu_before);
        observation.normalise();
        observation.counted.clear();
        for (process, error) in self.machine.take_refused() {
            if self.subject.ends() {
                return Err(error.into());
            }
            if self.refused.insert(process) {
                output::say(&format!("not recorded: {error}"));
            }
        }
        for process in self.machine.take_departed() {
            self.claimed.remove(&process);
        }
        let processes: BTreeSet<ProcessId> = observation
            .processes
            .iter()
            .map(|observed| observed.process)
            .collect();
        let claimed = &self.claimed;
        self.told.retain(|process| claimed.contains_key(process));
        let mut news = self.told.news(&self.host, &self.machine, &processes, at);
        let before = self.machine.cpu_time();
        let measured = self.meter.measure(&mut self.machine, &observation, at);
        self.measuring += self.machine.cpu_time().saturating_sub(before);
        news.touches.extend(measured);
        let (calls, calls_lost) = self.heard.take(&processes, self.began, at);
        let look = Look {
            at,
            cpu,
            missed,
            free_lists: free_lists(self.host.kernel().as_ref())?,
            news,
            observation,
            actions: Vec::new(),
            compacted: Vec::new(),
            calls,
            calls_lost,
        };
        self.writer.write(&look).map_err(|error| {
            let file = file.display();
            Failure::Failed(format!(
                "cannot write the recording to {file}: {error}; what it holds already can be used"
            ))
        })?;
        self.looking += cpu;
        self.last = at;
        self.missed += u64::from(missed);
        Ok(())
    }

    fn finish(self, file: &Path) -> Result<RecordReport, Failure> {
        let looks = self.writer.looks();
        let (_, bytes) = self.writer.finish().map_err(|error| {
            let file = file.display();
            Failure::Failed(format!("cannot end the recording in {file}: {error}"))
        })?;
        let kernel = self.host.kernel();
        let passed = kernel.now().saturating_sub(self.began).as_secs_f64();
        let used = kernel.cpu_time().saturating_sub(self.cpu_at_begin);
        let share = |time: Duration| {
            if passed > 0.0 {
                time.as_secs_f64() / passed
            } else {
                0.0
            }
        };
        Ok(RecordReport {
            version: VERSION,
            file: file.to_owned(),
            bytes,
            looks,
            missed: self.missed,
            seconds: self.last.as_secs_f64(),
            processes: self.told.seen(),
            tracker: self.host.tracker_kind().to_string(),
            looking_share: share(self.looking),
            measuring_share: share(self.measuring),
            recording_share: share(used.saturating_sub(self.looking + self.measuring)),
            host_page: HostPage::of(self.host.is_guest(), false),
            runs_guest: self.runs_guest,
        })
    }
}

fn header(host: &Host, subject: &Subject, meter: &TouchMeter, rhythm: Rhythm) -> Header {
    Header {
        touches: meter.can_measure(),
        calibrated: meter.is_calibrated(),
        ..recording::header(host, &subject.in_words, Some(rhythm.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_cannot_be_made_in_time_are_missed_and_counted() {
        let rhythm = Rhythm {
            interval: Duration::from_millis(100),
            end: None,
        };
        let ms = Duration::from_millis;
        assert_eq!(rhythm.next(ms(0), ms(3)), (ms(100), 0));
        assert_eq!(rhythm.next(ms(100), ms(199)), (ms(200), 0));
        assert_eq!(rhythm.next(ms(100), ms(430)), (ms(500), 3));
    }
}
