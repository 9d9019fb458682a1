//! Data on standard output, talk on standard error. Neither panics when nobody listens.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Failure;

/// Prints data. A reader that has gone away is no failure: it has what it wanted.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Failed(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Prints one JSON object.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}

/// One JSON object as text, indented, with a newline at its end.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::Failed(format!("cannot write JSON: {error}")))
}

/// Says one line, or a few, on standard error, each with the program's name.
pub(crate) fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    for line in text.lines() {
        // Nothing is left to tell it to.
        let _ = writeln!(stderr, "mega: {line}");
    }
}

/// A bar on standard error that counts to `length`; nothing where that is not a terminal.
pub(crate) fn progress(what: &'static str, length: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent} %")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    ProgressBar::new(length)
        .with_style(style)
        .with_message(what)
}

/// Whether data on standard output may be coloured: a terminal, and `NO_COLOR` unset or empty.
pub(crate) fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A number of bytes, or a dash where it is not known.
pub(crate) fn bytes_or_dash(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), mega_core::bytes::format)
}
