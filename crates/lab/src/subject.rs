//! A running workload, as an experiment or a test drives it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::error::Error;
use crate::terminate::terminate;
use crate::workload::report::{Done, Event, Ready};

/// A command whose standard output are a workload's events: the workload alone, or under `mega run`. With
/// `--until-eof` it runs until [`Subject::end`].
#[derive(Debug)]
pub struct Subject {
    /// The process started.
    pub child: Child,
    input: Option<ChildStdin>,
    events: BufReader<ChildStdout>,
}

impl Subject {
    /// Starts it.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, Error> {
        let attempted = format!("starting {}", command.get_program().to_string_lossy());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io(&*attempted, e))?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        let events = BufReader::new(output.ok_or(Error::Failed(attempted))?);
        Ok(Subject {
            child,
            input,
            events,
        })
    }

    /// Its next event.
    ///
    /// # Errors
    /// When it ended before, or prints something else.
    pub fn event(&mut self) -> Result<Event, Error> {
        let mut line = String::new();
        self.events
            .read_line(&mut line)
            .map_err(|e| Error::io("reading a workload's events", e))?;
        serde_json::from_str(&line)
            .map_err(|e| Error::Failed(format!("a workload printed `{}`: {e}", line.trim())))
    }

    /// Its next event, which says that its memory is as it tells.
    ///
    /// # Errors
    /// As [`Subject::event`], and when it is the last one.
    pub fn ready(&mut self) -> Result<Ready, Error> {
        match self.event()? {
            Event::Ready(ready) => Ok(ready),
            event => Err(Error::Failed(format!(
                "a workload said `{event:?}` before it was ready"
            ))),
        }
    }

    /// Tells it a line on its standard input, such as `rest` or `work`.
    ///
    /// # Errors
    /// When it reads none any more, or was told to end.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        let told = match &mut self.input {
            Some(input) => input.write_all(format!("{line}\n").as_bytes()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        told.map_err(|e| Error::io(format!("telling a workload to {line}"), e))
    }

    /// Tells it to end.
    pub fn end(&mut self) {
        drop(self.input.take());
    }

    /// Tells it to end, and waits for what it came to.
    ///
    /// # Errors
    /// When it, or the mega it runs under, failed, or its data was lost.
    pub fn finish(mut self) -> Result<Done, Error> {
        self.end();
        self.wait()
    }

    /// Waits for its own end.
    ///
    /// # Errors
    /// As [`Subject::finish`].
    pub fn wait(mut self) -> Result<Done, Error> {
        let done = loop {
            if let Event::Done(done) = self.event()? {
                break done;
            }
        };
        let status = self
            .child
            .wait()
            .map_err(|e| Error::io("waiting for a workload", e))?;
        if !status.success() || !done.verified {
            return Err(Error::Failed(format!(
                "a workload failed, {status}: {done:?}"
            )));
        }
        Ok(done)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // A workload that runs until its input ends does so now; any other is not worth waiting for.
        drop(self.input.take());
        terminate(&mut self.child);
    }
}
