//! The reports on an experiment: files for machines and people, a page on all experiments, a text for the terminal.

mod cell;
mod chart;
mod csv;
#[cfg(test)]
mod example;
mod goal;
mod html;
mod machine;
mod markdown;
mod panel;
mod ratio;
mod read;
mod settings;
pub(super) mod terminal;
#[cfg(test)]
mod well_formed;

use std::fs;
use std::path::{Path, PathBuf};

use super::results::Results;
use crate::error::Error;
use crate::file;
use read::read;

/// The results themselves.
const JSON: &str = "results.json";
/// Every run and metric.
const CSV: &str = "results.csv";
/// For people.
const REPORT: &str = "report.md";
/// The metrics as bars.
const CHART: &str = "chart.svg";
/// The page on all experiments.
const PAGE: &str = "index.html";

/// Writes the files of one experiment into a folder of its name in `folder`.
///
/// # Errors
/// When the folder or a file cannot be written.
pub(super) fn write(folder: &Path, results: &Results) -> Result<(), Error> {
    let own = own_folder(folder, results)?;
    fs::create_dir_all(&own)
        .map_err(|e| Error::io(format!("making the folder {}", own.display()), e))?;
    let json = serde_json::to_string_pretty(results)
        .map_err(|e| Error::Failed(format!("writing {JSON}: {e}")))?;
    file::write(&own, JSON, &(json + "\n"))?;
    write_for_people(&own, results)
}

/// Writes the page on all experiments.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_page(folder: &Path, all: &[Results]) -> Result<(), Error> {
    file::write(folder, PAGE, &html::draw(all))
}

/// Makes everything anew from the results that lie in a folder, but those results; returns the summary as Markdown.
///
/// # Errors
/// As [`read()`], and when a file cannot be written.
pub(super) fn renew(folder: &Path) -> Result<String, Error> {
    let all = read(folder)?;
    for results in &all {
        write_for_people(&own_folder(folder, results)?, results)?;
    }
    write_page(folder, &all)?;
    Ok(markdown::summary(&all))
}

fn write_for_people(own: &Path, results: &Results) -> Result<(), Error> {
    file::write(own, CSV, &csv::draw(results))?;
    file::write(own, REPORT, &markdown::draw(results))?;
    file::write(own, CHART, &chart::draw(results))
}

/// The experiment's folder. Its name may come from a file, and is not to lead elsewhere.
fn own_folder(folder: &Path, results: &Results) -> Result<PathBuf, Error> {
    let name = &results.experiment;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Error::Failed(format!(
            "writing the results of `{name}` into {}: a folder of this name is not made; the names of experiments have letters, digits, _ and - only",
            folder.display()
        )));
    }
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut later = example::one_round();
        later.experiment = "earlier-in-the-alphabet".into();
        later.machine.began = "2027-01-01T00:00:00Z".into();
        let all = [example::three_rounds(), later];
        for results in &all {
            write(folder.path(), results).unwrap();
        }
        assert_eq!(read(folder.path()).unwrap(), all);
        let summary = renew(folder.path()).unwrap();
        assert!(summary.contains("| gups |"), "{summary}");
        assert_eq!(read(folder.path()).unwrap(), all);
        for name in [JSON, CSV, REPORT, CHART] {
            assert!(folder.path().join("gups").join(name).is_file(), "{name}");
        }
        assert!(folder.path().join(PAGE).is_file());
    }

    #[test]
    fn a_name_does_not_lead_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = example::one_round();
        for name in ["", "..", "../other", "/tmp/other", "a\nb"] {
            results.experiment = name.into();
            assert!(write(folder.path(), &results).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
