//! A program that counts its touches, seen from the benchmark.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A running program.
pub(crate) struct Subject {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What it did so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    touches: f64,
    cpu_seconds: f64,
}

impl Counts {
    /// Touches a second of CPU time since then.
    pub(crate) fn rate_since(&self, before: &Counts) -> f64 {
        (self.touches - before.touches) / (self.cpu_seconds - before.cpu_seconds)
    }
}

impl Subject {
    /// Starts one, and waits until its memory is touched.
    pub(crate) fn start(kind: &str, bytes: usize, threads: usize) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["program", kind, &bytes.to_string(), &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let closed = || io::Error::other("the program has no pipes");
        let input = child.stdin.take().ok_or_else(closed)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(closed)?);
        let mut subject = Subject {
            child,
            input,
            output,
        };
        subject.counts()?;
        std::thread::sleep(Duration::from_millis(200));
        Ok(subject)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn counts(&mut self) -> io::Result<Counts> {
        self.input.write_all(b"\n")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
        let mut next = || {
            numbers
                .next()
                .ok_or_else(|| io::Error::other("the program said nothing"))
        };
        Ok(Counts {
            touches: next()?,
            cpu_seconds: next()?,
        })
    }

    /// Touches a second of CPU time over the next while.
    pub(crate) fn rate_over(&mut self, time: Duration) -> io::Result<f64> {
        let before = self.counts()?;
        std::thread::sleep(time);
        Ok(self.counts()?.rate_since(&before))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
