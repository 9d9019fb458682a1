//! The findings for machines and people: files, a page on all experiments, a text for the terminal.

mod chart;
mod csv;
mod markdown;
mod sentences;
mod terminal;

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::best::standing;
use super::experiment::Experiment;
use super::experiments;
use super::findings::Findings;
use super::recording;
use crate::error::Error;
use crate::file;

pub(super) use sentences::significant;
pub(super) use terminal::draw as in_words;

/// The findings themselves.
const JSON: &str = "findings.json";
/// Every number.
const CSV: &str = "findings.csv";
/// For people.
const REPORT: &str = "report.md";
/// The tables as a picture.
const CHART: &str = "chart.svg";
/// The page on all experiments.
const PAGE: &str = "index.md";

/// What an experiment found, and under which settings.
#[derive(Serialize, Deserialize)]
pub(super) struct Report {
    experiment: String,
    title: String,
    source: String,
    about: String,
    /// The machine has one part in this many of the paper's memory.
    scale: u64,
    seed: u64,
    /// The command that gives the same bytes, where it is not that of an experiment with a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(flatten)]
    findings: Findings,
    /// Where the paper says something else, and what happened there.
    disagreements: Vec<String>,
    /// Numbers that could be compared, and those of them that agree.
    compared: usize,
    agreeing: usize,
    /// Rows with `adaptive` and a better, and those in which it is within 2 % of the best.
    with_adaptive: usize,
    near_the_best: usize,
    /// Where it is not, and what happened there.
    behind_the_best: Vec<String>,
    /// The tables that do not say how it stands, and why.
    not_judged: Vec<String>,
}

/// What a report says of itself.
pub(super) struct Heading {
    /// Its folder's name, too.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) source: String,
    pub(super) about: String,
    /// The command that gives the same bytes, where it is not that of an experiment with a name.
    pub(super) command: Option<String>,
}

impl Report {
    pub(super) fn new(experiment: &Experiment, scale: u64, seed: u64, findings: Findings) -> Self {
        let heading = Heading {
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            source: experiment.source.to_owned(),
            about: experiment.about.to_owned(),
            command: None,
        };
        Report::under(heading, scale, seed, findings)
    }

    /// A report of another heading than an experiment's.
    pub(super) fn under(heading: Heading, scale: u64, seed: u64, findings: Findings) -> Self {
        let (compared, agreeing) = sentences::count(&findings);
        let standing = standing(&findings);
        Report {
            experiment: heading.name,
            title: heading.title,
            source: heading.source,
            about: heading.about,
            scale,
            seed,
            command: heading.command,
            disagreements: sentences::disagreements(&findings),
            findings,
            compared,
            agreeing,
            with_adaptive: standing.rows,
            near_the_best: standing.near,
            behind_the_best: standing.behind,
            not_judged: standing.not_judged,
        }
    }

    /// The command that gives the same bytes.
    fn command(&self) -> String {
        if let Some(command) = &self.command {
            return command.clone();
        }
        format!(
            "mega lab sim {} --scale {} --seed {}",
            self.experiment, self.scale, self.seed
        )
    }

    /// How `adaptive` stands beside the best of the systems, in words. `None` where it is not there.
    fn standing(&self) -> Option<String> {
        let rows = self.with_adaptive;
        (rows > 0).then(|| {
            let near = self.near_the_best;
            format!("in {near} of {rows} rows adaptive is within 2 % of the best system beside it")
        })
    }

    /// What that does not judge, in words. `None` where it judges all.
    fn not_judged(&self) -> Option<String> {
        let tables = self.not_judged.join("; ");
        (!tables.is_empty()).then(|| format!("how adaptive stands is not judged of: {tables}"))
    }

    /// How much of the paper is met, in words.
    fn summary(&self) -> String {
        match self.compared {
            0 => "the paper has no number to compare with".to_owned(),
            compared => format!(
                "{} of {compared} comparisons agree with the paper (the same order, and about the same size)",
                self.agreeing
            ),
        }
    }
}

/// As JSON: one object for one report, else an array.
pub(super) fn as_json(reports: &[Report], is_one: bool) -> Result<String, Error> {
    let text = match reports {
        [one] if is_one => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    text.map(|text| text + "\n")
        .map_err(|error| Error::Failed(format!("writing JSON: {error}")))
}

/// Writes the files of one experiment into a folder of its name in `folder`.
///
/// # Errors
/// When the folder or a file cannot be written.
pub(super) fn write(folder: &Path, report: &Report) -> Result<(), Error> {
    let own = folder.join(&report.experiment);
    fs::create_dir_all(&own)
        .map_err(|error| Error::io(format!("making the folder {}", own.display()), error))?;
    file::write(&own, JSON, &as_json(std::slice::from_ref(report), true)?)?;
    file::write(&own, CSV, &csv::draw(report))?;
    file::write(&own, REPORT, &markdown::draw(report))?;
    file::write(&own, CHART, &chart::draw(report))
}

/// Writes the page on all experiments that a folder has, by this run and by those before.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_page(folder: &Path) -> Result<(), Error> {
    let names = experiments::ALL
        .into_iter()
        .map(|experiment| experiment.name);
    let reports: Vec<Report> = names
        .chain([recording::NAME])
        .filter_map(|name| read(&folder.join(name).join(JSON)))
        .collect();
    file::write(folder, PAGE, &markdown::page(&reports))
}

/// What an earlier run has written. `None` where there is none, and, having said so, where it cannot be read.
fn read(path: &Path) -> Option<Report> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        text => text.map_err(|error| error.to_string()),
    };
    let report = text.and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()));
    report
        .inspect_err(|error| {
            eprintln!(
                "mega lab: {PAGE} leaves out {}: {error}; run that experiment again",
                path.display()
            );
        })
        .ok()
}
