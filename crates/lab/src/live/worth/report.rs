//! The results as files and as text. A run of some programs keeps what lies in the folder of the others.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::results::{ProgramResult, Results};
use super::{NAME, TITLE, in_bytes, percent, scatter, twins};
use crate::error::Error;

const JSON: &str = "worth.json";
const REPORT: &str = "report.md";
const SCATTER: &str = "scatter.svg";
/// The heads of the table, and the line below them.
const HEADS: &str = "| program | predicted | measured | off by | as found | touches a second | working set | pages a line | touches a visit | saved a touch | huge |\n\
                     | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";

/// Writes the files, with the programs that an earlier run left there.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write(out: &Path, results: Results) -> Result<(), Error> {
    let all = match read(out)? {
        Some(earlier) => results.with(earlier),
        None => results,
    };
    let folder = folder(out);
    std::fs::create_dir_all(&folder)
        .map_err(|e| Error::io(format!("making the folder {}", folder.display()), e))?;
    file(&folder, JSON, &all.to_json()?)?;
    file(&folder, REPORT, &in_words(&all))?;
    file(&folder, SCATTER, &scatter::draw(&all.programs))
}

/// What an earlier run left.
///
/// # Errors
/// When it cannot be read, or is no such result.
pub(super) fn read(out: &Path) -> Result<Option<Results>, Error> {
    let path = folder(out).join(JSON);
    let attempted = format!("reading {}", path.display());
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(attempted, error)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|e| Error::Failed(format!("{attempted}: {e}; remove it")))
}

fn folder(out: &Path) -> PathBuf {
    out.join(NAME)
}

fn file(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| Error::io(format!("writing {}", path.display()), e))
}

/// As Markdown, which a terminal shows well enough.
pub(super) fn in_words(results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "# {NAME}: {TITLE}\n\n{}, {}, {}\n\n{HEADS}",
        machine.cpu, machine.kernel, machine.commit
    );
    for program in &results.programs {
        text.push_str(&row(program));
    }
    text.push('\n');
    for bar in &results.bars {
        let verdict = if bar.met { "met" } else { "missed" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {}: {} ({verdict})", bar.bar, bar.found);
    }
    text.push_str(&twins::in_words(&results.programs));
    let _ = writeln!(
        text,
        "\nShares of CPU time, with the interval that holds the truth 95 times in 100. `huge`: the share of the program's \
         memory that was in huge pages while it was to be. `as found`: before its memory lay in neighbouring frames, what was said \
         and what one pair of windows measured."
    );
    text
}

fn as_found(program: &ProgramResult) -> String {
    let Some(found) = program.as_found else {
        return "-".to_owned();
    };
    let said = 100.0 * found.predicted.value;
    let measured = found
        .measured
        .map_or_else(|| "-".to_owned(), |saved| format!("{:.1}", 100.0 * saved));
    format!("{said:.1} / {measured} %")
}

fn row(program: &ProgramResult) -> String {
    let off = program.predicted.value - program.measured.value;
    format!(
        "| {} | {} | {} | {:+.1} | {} | {:.2} M | {} | {:.1} | {} | {:.1} ns | {:.0} % |\n",
        program.name,
        percent(program.predicted),
        percent(program.measured),
        100.0 * off,
        as_found(program),
        program.touches_per_second.value / 1e6,
        in_bytes(program.working_set),
        program.pages_per_line,
        visit(program.touches_per_visit),
        program.saved_ns.value,
        100.0 * program.least_huge(),
    )
}

fn visit(touches: f64) -> String {
    if touches > 0.0 {
        format!("{touches:.1}")
    } else {
        "-".to_owned()
    }
}
