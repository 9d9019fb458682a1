//! A program that answers each line on its standard input by a line on its standard output: a database's shell or client. It is asked
//! without end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::Error;
use crate::terminate::terminate;

/// Questions that it is asked ahead: enough that it never waits for one, and few enough to be answered soon at the end.
const AHEAD: usize = 8;

/// A program that is asked the same kind of question again and again. It ends when it is dropped.
pub(super) struct Asked {
    child: Child,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    asking: Option<JoinHandle<()>>,
    hearing: Option<JoinHandle<Result<(), Error>>>,
}

impl Asked {
    /// Starts it, tells it `first` if there is anything to be told, waits for a line from it, and asks on from then on. Each question has
    /// the same right answer.
    ///
    /// # Errors
    /// When it cannot be started, or ends before.
    pub(super) fn start(
        mut command: Command,
        first: Option<&str>,
        questions: impl Iterator<Item = String> + Send + 'static,
        right: &'static str,
    ) -> Result<Self, Error> {
        let attempted = format!("starting {command:?}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io(&*attempted, e))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let mut asked = Asked {
            child,
            stop: Arc::default(),
            answers: Arc::default(),
            asking: None,
            hearing: None,
        };
        let Some((mut input, output)) = pipes else {
            return Err(Error::Failed(format!("{attempted}: it has no pipes")));
        };
        let mut output = BufReader::new(output);
        let told = first.map_or(Ok(()), |first| writeln!(input, "{first}"));
        let heard = told.and_then(|()| output.read_line(&mut String::new()));
        if heard.map_err(|e| Error::io(&*attempted, e))? == 0 {
            return Err(Error::Failed(format!("{attempted}: it ended at once")));
        }
        let stop = Arc::clone(&asked.stop);
        let (ahead, answered) = sync_channel(AHEAD);
        asked.asking = Some(thread::spawn(move || ask(input, questions, &ahead, &stop)));
        let answers = Arc::clone(&asked.answers);
        asked.hearing = Some(thread::spawn(move || {
            hear(output, right, &answered, &answers)
        }));
        Ok(asked)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Questions that it has answered.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Asks no more, and waits until it has answered what it was asked.
    ///
    /// # Errors
    /// When it failed, or an answer was wrong.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Error::Failed("asking a program panicked".to_owned());
        if let Some(asking) = self.asking.take() {
            asking.join().map_err(panicked)?;
        }
        if let Some(hearing) = self.hearing.take() {
            hearing.join().map_err(panicked)??;
        }
        let status = self.child.wait();
        let status = status.map_err(|e| Error::io("waiting for a program that was asked", e))?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::Failed(format!("a program that was asked: {status}"))),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        terminate(&mut self.child);
    }
}

/// Its standard input is closed at the end: then the program ends, too.
fn ask(
    mut input: ChildStdin,
    questions: impl Iterator<Item = String>,
    ahead: &SyncSender<()>,
    stop: &AtomicBool,
) {
    for question in questions {
        // A program that hears no more has ended: its status says why.
        let told = ahead.send(()).is_ok() && writeln!(input, "{question}").is_ok();
        if !told || stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

fn hear(
    output: BufReader<ChildStdout>,
    right: &str,
    answered: &Receiver<()>,
    answers: &AtomicU64,
) -> Result<(), Error> {
    for line in output.lines() {
        let line = line.map_err(|e| Error::io("hearing what a program answers", e))?;
        if line != right {
            return Err(Error::Failed(format!(
                "a program answered `{line}`; `{right}` would have been right"
            )));
        }
        answers.fetch_add(1, Ordering::Relaxed);
        // What answered without being asked makes no room.
        let _ = answered.try_recv();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn endless() -> impl Iterator<Item = String> {
        std::iter::repeat_with(|| "question".to_owned())
    }

    #[test]
    fn each_right_answer_counts_and_what_was_asked_is_answered() {
        let asked = Asked::start(
            shell("sed -u 's/.*/answer/'"),
            Some("first"),
            endless(),
            "answer",
        );
        let asked = asked.unwrap();
        while asked.answers() < 100 {
            thread::yield_now();
        }
        asked.finish().unwrap();
    }

    #[test]
    fn a_wrong_answer_a_failure_and_an_early_end_are_told() {
        let wrong = Asked::start(
            shell("sed -u 's/question/no/'"),
            Some(""),
            endless(),
            "answer",
        );
        let wrong = wrong.unwrap().finish().unwrap_err().to_string();
        assert!(wrong.contains("answered `no`"), "{wrong}");
        let failed = Asked::start(shell("echo; exit 3"), None, endless(), "answer");
        let failed = failed.unwrap().finish().unwrap_err().to_string();
        assert!(failed.contains("exit status: 3"), "{failed}");
        assert!(Asked::start(shell("true"), None, endless(), "answer").is_err());
    }
}
