//! One run of an experiment in one mode: starts its programs, and waits for them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mega_core::bytes;
use mega_linux::calibrate::Place;

use super::cpus::{self, Placement};
use super::manager_report;
use super::mode::Mode;
use super::process::Process;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::programs;
use crate::resident;
use crate::workload::report::{Done, Ready};

/// How long huge memory must stay as it is to count as settled: two observations of the manager and more.
const QUIET_INTERVALS: u32 = 3;
/// Observations after which a policy that is to promote at all has begun to: MEGA averages over ten.
const PATIENCE_INTERVALS: u32 = 13;
/// Seconds that promoting takes at most, per GiB: 512 regions of some 1.5 ms in a quarter of a core, three times over.
const SETTLE_SECONDS_PER_GIB: f64 = 10.0;
/// How long khugepaged may stand still: its priority is the lowest, and beside threads on every CPU it gets on only now and
/// then. In turns nothing is made huge any more once it is taken for settled.
const KHUGEPAGED_PAUSE: Duration = Duration::from_secs(3);
/// The time between two looks at how much is huge: each takes the program's mmap lock for a walk.
const LOOK: Duration = Duration::from_millis(250);
/// The time between two looks for a signal.
const NAP: Duration = Duration::from_millis(20);

/// One run of an experiment.
pub(crate) struct Run<'a> {
    pub(crate) mode: &'a Mode,
    pub(crate) placement: Placement,
    /// Bytes of memory that the experiment's program uses, a multiple of 2 MiB.
    pub(crate) size: u64,
    /// How long the steady part is measured.
    pub(crate) measured: Duration,
    /// Time between two observations of the manager.
    pub(crate) interval: Duration,
    /// Where random sequences start; the same in every mode, another in every round.
    pub(crate) seed: u64,
    /// An empty folder for this run's files; whoever started the run removes it.
    pub(crate) scratch: &'a Path,
    pub(crate) interrupt: &'a Interrupt,
}

impl Run<'_> {
    /// A command that runs `program` as the mode says, beside whatever the mode changes globally, on all CPUs but the
    /// lab's own. What it starts ends when the lab does, however that ends: it is to be started from the main thread.
    ///
    /// # Errors
    /// When this program's own file cannot be found.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        self.command_on(
            &self.placement.of_program(),
            program,
            AtTheLabsEnd::Terminate,
        )
    }

    /// The same for a server of one thread, on the CPU of its clients ([`Placement::Apart`]).
    ///
    /// # Errors
    /// As [`Run::command`].
    pub(crate) fn command_beside_clients(
        &self,
        program: impl AsRef<OsStr>,
    ) -> Result<Command, Error> {
        self.command_on(
            &self.placement.of_server(),
            program,
            AtTheLabsEnd::Terminate,
        )
    }

    fn command_on(
        &self,
        cpus: &str,
        program: impl AsRef<OsStr>,
        end: AtTheLabsEnd,
    ) -> Result<Command, Error> {
        let mut command = ending_with_the_lab(end);
        if let Mode::Mega(policy) = self.mode {
            command
                .arg(programs::mega()?)
                .args(["run", "--quiet", "--fault", "base", "--policy", policy])
                .arg("--interval")
                .arg(format!("{}ms", self.interval.as_millis()))
                .arg("--report")
                .arg(self.manager_report())
                .arg("--");
        }
        command.args(["taskset", "--cpu-list", cpus]).arg(program);
        Ok(command)
    }

    /// A command that runs `program` as a user would: as the mode says, on every CPU, and where a manager belongs to it, that
    /// too on every CPU and with every option left at its default. Its state directory is the run's own, so that it knows no
    /// program, but has the calibration of this machine if there is one.
    ///
    /// # Errors
    /// When mega cannot be found, or the calibration not be copied.
    pub(crate) fn unpinned_command(&self, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let mut command = ending_with_the_lab(AtTheLabsEnd::Terminate);
        command.args(["taskset", "--cpu-list", &cpus::every()]);
        if let Mode::Mega(policy) = self.mode {
            let state = self.fresh_state()?;
            command
                .env("MEGA_STATE_DIR", state)
                .arg(programs::mega()?)
                .args(["run", "--quiet", "--policy", policy, "--report"])
                .arg(self.manager_report())
                .arg("--");
        }
        command.arg(program);
        Ok(command)
    }

    /// A state directory with nothing but the calibration of this machine.
    pub(super) fn fresh_state(&self) -> Result<PathBuf, Error> {
        let state = self.scratch.join("state");
        let place = Place::of_this_user().map_err(Error::Failed)?;
        let file = place.file();
        let failed = |e| {
            Error::io(
                format!("copying {} to {}", file.display(), state.display()),
                e,
            )
        };
        match std::fs::remove_dir_all(&state) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => std::fs::create_dir(&state).map_err(failed)?,
        }
        if file.is_file() {
            std::fs::copy(&file, Place::at(state.clone()).file()).map_err(failed)?;
        }
        Ok(state)
    }

    /// A command that runs `program` beside the one that is measured: under the same global modes, but without a
    /// manager, and where the lab runs. It ends when the lab does.
    pub(crate) fn beside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = ending_with_the_lab(AtTheLabsEnd::Terminate);
        command.arg(program);
        command
    }

    /// The same on every CPU.
    pub(crate) fn beside_on_every_cpu(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.beside("taskset");
        command.args(["--cpu-list", &cpus::every()]).arg(program);
        command
    }

    /// A command that runs one of the lab's own programs beside the one that is measured, until its standard input
    /// ends.
    ///
    /// # Errors
    /// As [`Run::command`].
    pub(crate) fn workload_beside(&self, name: &str) -> Result<Command, Error> {
        let mut command = self.beside(programs::own()?);
        command
            .args(["workload", name, "--json", "--until-eof", "--pin"])
            .arg(format!("--seed={}", self.seed));
        Ok(command)
    }

    /// A command that runs one of the lab's own programs (`mega workload`) until its standard input ends, as the
    /// mode says. It may use every CPU; its threads keep to the last ones.
    ///
    /// # Errors
    /// As [`Run::command`].
    pub(crate) fn workload(&self, name: &str) -> Result<Command, Error> {
        self.own_workload(name, AtTheLabsEnd::Terminate)
    }

    /// The same for a program that takes turns with others. A manager may be stopped when the lab ends, and a stopped
    /// process gets no other signal than SIGKILL; its program then ends as its standard input does.
    ///
    /// # Errors
    /// As [`Run::command`].
    pub(crate) fn workload_in_turns(&self, name: &str) -> Result<Command, Error> {
        let end = if self.mode.is_managed() {
            AtTheLabsEnd::Kill
        } else {
            AtTheLabsEnd::Terminate
        };
        self.own_workload(name, end)
    }

    fn own_workload(&self, name: &str, end: AtTheLabsEnd) -> Result<Command, Error> {
        let mut command = self.command_on(&cpus::every(), programs::own()?, end)?;
        command
            .args(["workload", name, "--json", "--until-eof", "--pin"])
            .arg(format!("--seed={}", self.seed));
        if self.mode.advises() {
            command.arg("--advise");
        }
        Ok(command)
    }

    /// Runs one of the lab's own programs: waits until its memory is there and has settled, lets it work for the time
    /// that is measured, and ends it.
    ///
    /// # Errors
    /// When it cannot be started, fails, finds its data wrong, or is interrupted.
    pub(crate) fn settled_workload(&self, command: Command) -> Result<Done, Error> {
        let (process, ready) = self.ready_workload(command)?;
        self.settle(ready.pid, self.size)?;
        self.sleep(self.measured)?;
        process.finish()
    }

    /// Starts one of the lab's own programs and waits until its memory is there.
    ///
    /// # Errors
    /// When it cannot be started, fails, or is interrupted.
    pub(crate) fn ready_workload(&self, command: Command) -> Result<(Process, Ready), Error> {
        let mut process = Process::start(command)?;
        let ready = self.await_ready(&mut process)?;
        Ok((process, ready))
    }

    /// Waits until one of a process's programs says that its memory is there.
    ///
    /// # Errors
    /// When it fails, or is interrupted.
    pub(crate) fn await_ready(&self, process: &mut Process) -> Result<Ready, Error> {
        loop {
            if let Some(ready) = process.ready()? {
                return Ok(ready);
            }
            self.nap()?;
        }
    }

    /// Waits until a process has `wanted` bytes in huge pages, or no more come.
    ///
    /// # Errors
    /// When interrupted.
    pub(crate) fn settle(&self, pid: u32, wanted: u64) -> Result<(), Error> {
        if !self.mode.promotes_later() {
            return Ok(());
        }
        let pause = match self.mode {
            Mode::Khugepaged => KHUGEPAGED_PAUSE,
            _ => Duration::ZERO,
        };
        let quiet = pause.max(self.interval * QUIET_INTERVALS);
        let patience = pause.max(self.interval * PATIENCE_INTERVALS);
        let longest = self.longest_settle(wanted) + 2 * pause;
        let started = Instant::now();
        let (mut huge, mut since) = (0, Instant::now());
        loop {
            // A program that is gone ends the run by itself.
            let now = resident::of(pid).map_or(0, |resident| resident.huge_bytes);
            if now != huge {
                (huge, since) = (now, Instant::now());
            }
            let still = if huge > 0 { quiet } else { patience };
            if huge >= wanted || since.elapsed() >= still || started.elapsed() >= longest {
                return Ok(());
            }
            self.sleep(LOOK)?;
        }
    }

    /// How long it takes at most until `wanted` bytes are in huge pages.
    pub(crate) fn longest_settle(&self, wanted: u64) -> Duration {
        let promoting = Duration::from_secs_f64(SETTLE_SECONDS_PER_GIB * gib(wanted));
        self.interval * PATIENCE_INTERVALS + promoting
    }

    /// Refuses to run with less memory than an experiment needs to measure anything.
    ///
    /// # Errors
    /// When [`Run::size`] is below `least` bytes.
    pub(crate) fn require(&self, least: u64) -> Result<(), Error> {
        if self.size >= least {
            return Ok(());
        }
        let least = bytes::format(least);
        Err(Error::Failed(format!(
            "{} of memory is too little for this experiment; give it at least {least} by --size",
            bytes::format(self.size)
        )))
    }

    /// Waits.
    ///
    /// # Errors
    /// When interrupted.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Error> {
        let started = Instant::now();
        while started.elapsed() < time {
            self.nap()?;
        }
        Ok(())
    }

    /// Waits for a moment.
    ///
    /// # Errors
    /// When interrupted.
    pub(crate) fn nap(&self) -> Result<(), Error> {
        self.interrupt.check()?;
        std::thread::sleep(NAP);
        Ok(())
    }

    /// CPU time that the manager has used from its start to its end, as a share of one core; 0 where there is none.
    /// To be asked once the program has ended.
    ///
    /// # Errors
    /// When its report cannot be read.
    pub(crate) fn manager_cpu_share(&self) -> Result<f64, Error> {
        self.manager_cpu_share_of_work(Duration::ZERO)
    }

    /// The same of a program that has rested for `rested` of that time, as a share of the time in which it did not.
    ///
    /// # Errors
    /// As [`Run::manager_cpu_share`].
    pub(crate) fn manager_cpu_share_of_work(&self, rested: Duration) -> Result<f64, Error> {
        if !self.mode.is_managed() {
            return Ok(0.0);
        }
        manager_report::cpu_share(&self.manager_report(), rested)
    }

    fn manager_report(&self) -> PathBuf {
        self.scratch.join("manager.json")
    }
}

/// How the kernel ends what the lab started when the lab itself ends.
#[derive(Clone, Copy)]
enum AtTheLabsEnd {
    Terminate,
    Kill,
}

/// The start of a command that gets a signal when the lab ends. The signal goes to the program, or to the `mega run`
/// that it is under, which forwards it if it can.
fn ending_with_the_lab(end: AtTheLabsEnd) -> Command {
    let signal = match end {
        AtTheLabsEnd::Terminate => "TERM",
        AtTheLabsEnd::Kill => "KILL",
    };
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal, "--"]);
    // Where memory runs out, an experiment is the first to go.
    command.args(["choom", "--adjust", "1000", "--"]);
    command
}

#[allow(clippy::cast_precision_loss)]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
