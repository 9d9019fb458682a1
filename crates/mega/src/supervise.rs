//! Starts a program, passes signals on to it and waits for its end.
//!
//! A signal is passed on unless the program has it already: a terminal signals the whole foreground process group, and
//! a signal that the program or a descendant sends to its own group reaches the program directly.
//! Where job control stops the program, this process stops too, so that a shell sees the job stopped. This
//! process is the subreaper of the program's descendants, so that those whose parent ends are still known.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use mega_linux::kernel::LiveKernel;
use mega_linux::process;
use mega_linux::settings::fault::FaultControl;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};
use rustix::event::{PollFd, PollFlags, poll};

use crate::exit::Failure;
use crate::signals::{Received, Signals};

/// The signals a program may be sent through this process. SIGTTIN and SIGTTOU are left alone: they stop
/// both as they should.
const FORWARDED: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Stands ready to start one program.
pub(crate) struct Supervisor {
    signals: Signals,
}

/// A program that was started.
pub(crate) struct Program {
    signals: Signals,
    pid: Pid,
    /// Whether SIGTSTP came and no SIGCONT since: the program may answer it with a SIGSTOP to itself.
    asked_to_stop: Cell<bool>,
}

impl Supervisor {
    /// Receives signals from now on and adopts orphaned descendants. To be called before the first thread
    /// is started.
    ///
    /// # Errors
    /// Where the kernel refuses either.
    pub(crate) fn new() -> Result<Self, Failure> {
        let signals: Vec<Signal> = FORWARDED.into_iter().chain([Signal::SIGCHLD]).collect();
        nix::sys::prctl::set_child_subreaper(true).map_err(|error| {
            Failure::Failed(format!("cannot adopt orphaned processes: {error}"))
        })?;
        Ok(Supervisor {
            signals: Signals::block(&signals)?,
        })
    }

    /// Starts the program with this process's standard streams and its original signal mask.
    ///
    /// # Errors
    /// [`Failure::NotFound`] and [`Failure::NotExecutable`].
    pub(crate) fn start(
        self,
        command: &[OsString],
        fault: &FaultControl,
    ) -> Result<Program, Failure> {
        let Some((name, arguments)) = command.split_first() else {
            return Err(Failure::Usage("no command to run".to_owned()));
        };
        let mut command = Command::new(name);
        command.args(arguments);
        fault.apply(&mut command);
        let original = self.signals.original();
        // SAFETY: between fork and exec the closure makes one system call, on memory of its own, and
        // allocates nothing: setting a signal mask is async-signal-safe.
        unsafe {
            command.pre_exec(move || original.thread_set_mask().map_err(Into::into));
        }
        match command.spawn() {
            Ok(child) => Ok(Program {
                signals: self.signals,
                pid: Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)),
                asked_to_stop: Cell::new(false),
            }),
            Err(error) => {
                let line = format!("cannot run {}: {error}", name.to_string_lossy());
                Err(match error.kind() {
                    std::io::ErrorKind::NotFound => Failure::NotFound(line),
                    _ => Failure::NotExecutable(line),
                })
            }
        }
    }
}

impl Program {
    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        u32::try_from(self.pid.as_raw()).unwrap_or_default()
    }

    /// Waits until the program has ended, passing on signals meanwhile. Returns its exit code, 128 + n when
    /// signal n ended it.
    pub(crate) fn wait(&self) -> u8 {
        loop {
            if let Some(code) = self.reap() {
                return code;
            }
            let mut fds = [PollFd::new(&self.signals, PollFlags::IN)];
            // An interrupted wait is simply tried again.
            let _ = poll(&mut fds, None);
            while let Some(received) = self.signals.next() {
                self.handle(received);
            }
        }
    }

    /// Waits for every descendant that has ended, and stops with the program. Returns the program's exit code if
    /// it is among those that ended.
    fn reap(&self) -> Option<u8> {
        let mut ended = None;
        loop {
            match waitpid(
                None::<Pid>,
                Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED),
            ) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.pid => {
                    ended = Some(u8::try_from(code & 0xff).unwrap_or(u8::MAX));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.pid => {
                    ended = Some(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
                }
                Ok(WaitStatus::Stopped(pid, signal)) if pid == self.pid => self.stop_with(signal),
                Ok(WaitStatus::StillAlive) => return ended,
                Ok(_) | Err(nix::Error::EINTR) => {}
                // No child is left: the program's end was seen, or it never will be.
                Err(_) => return ended.or(Some(1)),
            }
        }
    }

    fn handle(&self, received: Received) {
        if received.signal == Signal::SIGCHLD {
            return;
        }
        if !self.has_it_already(received) {
            // The program may have ended; then there is nobody to tell.
            let _ = kill(self.pid, received.signal);
        }
        match received.signal {
            Signal::SIGTSTP => self.asked_to_stop.set(true),
            Signal::SIGCONT => self.asked_to_stop.set(false),
            _ => {}
        }
    }

    /// `signal` stopped the program: stops here too, until SIGCONT comes, which is then read like any other
    /// signal. It does not stop for a SIGSTOP that somebody sent to the program alone: the sender will continue the
    /// program alone, too.
    fn stop_with(&self, signal: Signal) {
        let by_job_control = matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU);
        if by_job_control || self.asked_to_stop.get() {
            let _ = raise(Signal::SIGSTOP);
        }
    }

    fn has_it_already(&self, received: Received) -> bool {
        match received.sender {
            // From the terminal, to everyone in its foreground process group.
            None => getpgid(Some(self.pid)) == Ok(getpgrp()),
            Some(sender) => self.is_descendant(sender),
        }
    }

    /// Whether `pid` is the program or descends from it.
    fn is_descendant(&self, pid: u32) -> bool {
        let Ok(program) = u32::try_from(self.pid.as_raw()) else {
            return false;
        };
        let mut pid = pid;
        // As many generations as anyone has; a pid used again could close a circle.
        for _ in 0..1024 {
            if pid == program {
                return true;
            }
            match process::stat(&LiveKernel, pid) {
                Ok(stat) if stat.parent > 1 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    }
}
