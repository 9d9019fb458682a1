//! Programs whose memory grows as that of the Trident paper's programs does (section 5.1.2, table 3).
//!
//! A page fault can take a giant page only if all of a span is accessible at its first touch. So the pieces in which a
//! program's memory grows matter; what it does with the memory later does not.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::contents::stamp;
use crate::error::Error;
use crate::mapping::{Area, WORDS_PER_PAGE};
use crate::terminate::terminate;

/// What each program has: two spans and a part of one.
const BYTES: usize = 9 << 28;
/// What a program by arrays asks for at a time: 256 MiB.
const ARRAY: usize = 256 << 20;
/// By how much glibc's heap grows (`M_TOP_PAD`): 128 KiB.
const STEP: usize = 128 << 10;
/// What the program says once it has touched all.
const READY: &str = "ready";

/// How a program's memory comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Shape {
    /// All at once: XSBench, GUPS, Graph500, SVM
    AtOnce,
    /// In arrays of middling size, one beside the other: Memcached, Canneal
    ByArrays,
    /// By the small steps of a heap: Redis, Btree
    BySteps,
}

impl Shape {
    pub(super) const ALL: [Shape; 3] = [Shape::AtOnce, Shape::ByArrays, Shape::BySteps];

    /// As it is named on a command line and in a table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Shape::AtOnce => "at-once",
            Shape::ByArrays => "by-arrays",
            Shape::BySteps => "by-steps",
        }
    }

    const fn piece(self) -> usize {
        match self {
            Shape::AtOnce => BYTES,
            Shape::ByArrays => ARRAY,
            Shape::BySteps => STEP,
        }
    }
}

/// Is such a program: gets its memory, says so, waits for the end of its input, and fails where a page does not hold
/// what was written to it.
pub(super) fn be(shape: Shape) -> Result<(), Error> {
    let mut pages = 0..;
    let area = Area::map_in_pieces(BYTES, shape.piece(), |words| {
        for (words, page) in words.chunks_mut(WORDS_PER_PAGE).zip(&mut pages) {
            words[0] = stamp(page);
        }
    });
    let area = area.map_err(|error| Error::io(format!("map {BYTES} bytes"), error))?;
    let mut output = std::io::stdout();
    writeln!(output, "{READY}")
        .and_then(|()| output.flush())
        .map_err(|error| Error::io("say that all is touched", error))?;
    let wait = std::io::stdin().read_to_end(&mut Vec::new());
    wait.map_err(|error| Error::io("wait for the end", error))?;
    let mut words = area.words().chunks(WORDS_PER_PAGE).enumerate();
    match words.find(|(page, words)| words[0] != stamp(*page)) {
        Some((page, _)) => Err(Error::Failed(format!(
            "page {page} of the program {} lost its contents",
            shape.name()
        ))),
        None => Ok(()),
    }
}

/// Such a program under way, as a process of its own; ended when dropped.
pub(super) struct Program {
    child: Child,
    input: Option<ChildStdin>,
}

impl Program {
    /// Starts it, and waits until it has touched all its memory.
    pub(super) fn start(shape: Shape) -> Result<Self, Error> {
        let attempted = || format!("start the program {}", shape.name());
        let own = std::env::current_exe().map_err(|error| Error::io(attempted(), error))?;
        let mut child = Command::new(own)
            .args(["program", shape.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io(attempted(), error))?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        let program = Program { child, input };
        let mut line = String::new();
        output
            .map(|output| BufReader::new(output).read_line(&mut line))
            .transpose()
            .map_err(|error| Error::io(attempted(), error))?;
        if line.trim() == READY {
            Ok(program)
        } else {
            Err(Error::Failed(format!("{}: {line:?}", attempted())))
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it check its memory and end.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        drop(self.input.take());
        let status = self
            .child
            .wait()
            .map_err(|error| Error::io("wait for a program", error))?;
        if status.success() {
            Ok(())
        } else {
            Err(Error::Failed(format!("a program ended with {status}")))
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}
