//! A server while it runs: on loopback, with its files in the run's folder. It stops when it is dropped.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::live::run::Run;

/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long it may take to end once it is asked to.
const STOP_LIMIT: Duration = Duration::from_secs(120);
/// The time between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of its log that an error quotes.
const QUOTED_LINES: usize = 12;

/// A server that answers.
pub(crate) struct Server {
    /// The server, or the `mega run` it is under.
    child: Child,
    pid: u32,
    port: u16,
    name: &'static str,
    log: PathBuf,
}

impl Server {
    /// Starts a server and waits until it answers. `arguments` adds to the command whatever makes it listen on a
    /// port of loopback; `answers` says whether it does.
    ///
    /// # Errors
    /// When it is not installed, cannot be started, ends, or does not answer within 120 s.
    pub(crate) fn start(
        run: &Run<'_>,
        name: &'static str,
        mut command: Command,
        arguments: impl FnOnce(&mut Command, u16),
        answers: impl Fn(u16) -> bool,
    ) -> Result<Self, Error> {
        let port = free_port()?;
        arguments(&mut command, port);
        let log = run.scratch.join(format!("{name}.log"));
        let attempted = || format!("starting {name} with its log in {}", log.display());
        let output = File::create(&log).map_err(|e| Error::io(attempted(), e))?;
        let errors = output.try_clone().map_err(|e| Error::io(attempted(), e))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|e| Error::io(attempted(), e))?;
        let mut server = Server {
            pid: child.id(),
            child,
            port,
            name,
            log,
        };
        server.wait_for_answer(run, answers)?;
        if run.mode.is_managed() {
            server.pid = first_child(server.child.id())?;
        }
        Ok(server)
    }

    /// The server's own process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it listens on loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops it and waits for its end.
    ///
    /// # Errors
    /// When it did not end well: it was gone before, failed, or had to be killed after 20 s.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.failed(&format!("ended by itself, {status}")));
        }
        match self.end() {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failed(&format!("did not end well, {status}"))),
            None => Err(self.failed("could not be waited for")),
        }
    }

    fn wait_for_answer(
        &mut self,
        run: &Run<'_>,
        answers: impl Fn(u16) -> bool,
    ) -> Result<(), Error> {
        let started = Instant::now();
        while !answers(self.port) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("ended before it answered, {status}")));
            }
            if started.elapsed() >= START_LIMIT {
                let seconds = START_LIMIT.as_secs();
                return Err(self.failed(&format!("did not answer within {seconds} s")));
            }
            run.nap()?;
        }
        Ok(())
    }

    /// Asks it to end, kills it where it does not, and waits. A `mega run` forwards the signal that asks, and ends
    /// with the server.
    fn end(&mut self) -> Option<ExitStatus> {
        for (signal, pid) in [
            (Signal::TERM, self.child.id()),
            (Signal::KILL, self.pid),
            (Signal::KILL, self.child.id()),
        ] {
            // Not yet waited for, the process is still this one.
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
            let _ = kill_process(pid, signal);
            let started = Instant::now();
            while started.elapsed() < STOP_LIMIT {
                if let Some(status) = self.child.try_wait().ok()? {
                    return Some(status);
                }
                thread::sleep(LOOK);
            }
        }
        None
    }

    fn failed(&self, how: &str) -> Error {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
        Error::Failed(format!("{} {how}; the end of its log:\n{end}", self.name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}

/// A port of loopback that nobody listens on at this moment.
fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|e| Error::io("looking for a free port of loopback", e))
}

/// The oldest child of a process: of a `mega run`, the program it runs.
fn first_child(pid: u32) -> Result<u32, Error> {
    let path = format!("/proc/{pid}/task");
    let attempted = format!("finding the program below `mega run` in {path}");
    let threads = std::fs::read_dir(&path).map_err(|e| Error::io(&*attempted, e))?;
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .filter_map(|children| children.split_whitespace().next()?.parse().ok())
        .min()
        .ok_or_else(|| Error::Failed(format!("{attempted}: it has no child")))
}
