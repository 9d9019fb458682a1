//! One of the lab's own programs while it runs, and what it says about itself.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::terminate::terminate;
use crate::workload::report::{self, Done, Event, Ready, Resting};

/// A `mega workload`, alone or under `mega run`.
pub(crate) struct Process {
    child: Child,
    /// Whether the process started is stopped: then it gets no signal that it could act on.
    stopped: bool,
    /// Its end is the program's.
    input: Option<ChildStdin>,
    events: Receiver<Event>,
    reader: Option<JoinHandle<()>>,
    /// What it says on standard error.
    talk: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(mut command: Command) -> Result<Self, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io(format!("starting {command:?}"), e))?;
        let (sender, events) = mpsc::channel();
        let input = child.stdin.take();
        let reader = child
            .stdout
            .take()
            .map(|pipe| thread::spawn(move || report::forward_events(pipe, &sender)));
        let talk = child
            .stderr
            .take()
            .map(|pipe| thread::spawn(move || std::io::read_to_string(pipe).unwrap_or_default()));
        Ok(Process {
            child,
            stopped: false,
            input,
            events,
            reader,
            talk,
        })
    }

    /// The process started: the manager's, where there is one.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it says once its memory is there; `None` before.
    ///
    /// # Errors
    /// When it ended before.
    pub(crate) fn ready(&mut self) -> Result<Option<Ready>, Error> {
        match self.event()? {
            Some(Event::Ready(ready)) => Ok(Some(ready)),
            Some(event) => Err(out_of_place(&event, "before it was ready")),
            None => Ok(None),
        }
    }

    /// What it says once it rests; `None` before.
    ///
    /// # Errors
    /// When it ended before.
    pub(crate) fn resting(&mut self) -> Result<Option<Resting>, Error> {
        match self.event()? {
            Some(Event::Resting(resting)) => Ok(Some(resting)),
            Some(event) => Err(out_of_place(&event, "when it was to rest")),
            None => Ok(None),
        }
    }

    fn event(&mut self) -> Result<Option<Event>, Error> {
        match self.events.try_recv() {
            Ok(event) => Ok(Some(event)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.failed()),
        }
    }

    /// Tells it a line on its standard input.
    ///
    /// # Errors
    /// When it reads none any more.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Error> {
        let told = match &mut self.input {
            Some(input) => input.write_all(format!("{line}\n").as_bytes()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        match told {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(self.failed()),
            Err(e) => Err(Error::io(format!("telling a program to {line}"), e)),
        }
    }

    /// Stops the process started, as it stands. It goes on at its end at the latest.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.signal(Signal::STOP, "stopping")?;
        self.stopped = true;
        Ok(())
    }

    /// Lets the process started go on, where it is stopped.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn go_on(&mut self) -> Result<(), Error> {
        if self.stopped {
            self.signal(Signal::CONT, "continuing")?;
            self.stopped = false;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal, attempted: &str) -> Result<(), Error> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|e| Error::io(format!("{attempted} process {}", self.child.id()), e))
    }

    /// Ends it, and takes in what it came to.
    ///
    /// # Errors
    /// When it, or the `mega run` it is under, failed, or it found its data wrong.
    pub(crate) fn finish(mut self) -> Result<Done, Error> {
        drop(self.input.take());
        // A stopped manager would neither see its program's end nor let go of its output.
        self.go_on()?;
        let mut last = None;
        // The channel closes when the program's standard output does.
        while let Ok(event) = self.events.recv() {
            if let Event::Done(done) = event {
                last = Some(done);
            }
        }
        let status = self
            .child
            .wait()
            .map_err(|e| Error::io("waiting for a program", e))?;
        match last {
            Some(done) if status.success() && done.verified => Ok(done),
            _ => Err(self.failed()),
        }
    }

    fn failed(&mut self) -> Error {
        drop(self.input.take());
        // Where it cannot go on it is no more, and there is nothing to wait for.
        let _ = self.go_on();
        let status = self.child.wait();
        let status = status.map_or_else(|e| e.to_string(), |status| status.to_string());
        let talk = self.talk.take().and_then(|talk| talk.join().ok());
        Error::Failed(format!(
            "a program of the experiment failed, {status}: {}",
            talk.unwrap_or_default().trim()
        ))
    }
}

/// An error about an event that came at another time than it should.
fn out_of_place(event: &Event, when: &str) -> Error {
    let what = match event {
        Event::Ready(_) => "said that it was ready",
        Event::Resting(_) => "rested",
        Event::Done(_) => "ended",
    };
    Error::Failed(format!("a program of the experiment {what} {when}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.go_on();
        terminate(&mut self.child);
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
