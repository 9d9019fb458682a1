//! Data on standard output, talk on standard error. Neither panics when nobody listens.

use std::io::{self, IsTerminal, Write};

use comfy_table::CellAlignment;
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

/// A table in plain text: the first column is aligned left, the others right, with two spaces between them.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_header(headings);
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if number > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Table(table)
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.0.add_row(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.0.trim_fmt())
    }
}

/// A number of bytes, or a dash where it is not known.
pub(crate) fn bytes_or_dash(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), mega_core::bytes::format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_right() {
        let mut table = Table::new(&["policy", "n"]);
        table.row(vec!["mega".into(), "10".into()]);
        assert_eq!(table.to_string(), "policy   n\nmega    10\n");
        let mut table = Table::new(&["a", "b", "c"]);
        table.row(vec![String::new(), "1 MiB".into(), String::new()]);
        assert_eq!(table.to_string(), "a      b  c\n   1 MiB\n");
    }
}
