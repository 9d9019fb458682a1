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
use super::reason::Reason;
use super::recording;
use crate::error::Error;
use crate::file;

use sentences::Explained;
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
    /// Where the paper says something else, and why.
    disagreements: Vec<Explained>,
    /// Numbers that could be compared, and those of them that agree.
    compared: usize,
    agreeing: usize,
    /// Numbers of the paper that were put in, so that nothing is found by comparing them.
    inputs: Vec<Explained>,
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
        Report::under(heading, scale, seed, findings, experiment.reasons)
    }

    /// A report of another heading than an experiment's.
    pub(super) fn under(
        heading: Heading,
        scale: u64,
        seed: u64,
        findings: Findings,
        reasons: &[Reason],
    ) -> Self {
        let count = sentences::count(&findings, reasons);
        let standing = standing(&findings);
        Report {
            experiment: heading.name,
            title: heading.title,
            source: heading.source,
            about: heading.about,
            scale,
            seed,
            command: heading.command,
            disagreements: sentences::disagreements(&findings, reasons),
            inputs: sentences::inputs(&findings, reasons),
            findings,
            compared: count.compared,
            agreeing: count.agreeing,
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

/// What was found in an earlier run.
#[derive(Deserialize)]
struct Earlier {
    scale: u64,
    seed: u64,
    #[serde(flatten)]
    findings: Findings,
}

/// The report on what an earlier run wrote into a folder, by what is known now.
///
/// # Errors
/// When the folder has none, or it cannot be read.
pub(super) fn again(folder: &Path, experiment: &Experiment) -> Result<Report, Error> {
    let path = folder.join(experiment.name).join(JSON);
    let text =
        fs::read(&path).map_err(|error| Error::io(format!("reading {}", path.display()), error))?;
    let earlier: Earlier = serde_json::from_slice(&text)
        .map_err(|error| Error::Failed(format!("reading {}: {error}", path.display())))?;
    let Earlier {
        scale,
        seed,
        findings,
    } = earlier;
    Ok(Report::new(experiment, scale, seed, findings))
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

#[cfg(test)]
mod tests {
    use super::sentences::covering;
    use super::*;
    use crate::sim::verdict::{Verdict, comparisons};

    /// What was published of an experiment.
    fn published(experiment: &Experiment) -> Findings {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/sim");
        let path = Path::new(folder).join(experiment.name).join(JSON);
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// A reason for what does not disagree is wrong, or was once right.
    #[test]
    fn each_reason_is_one_of_a_published_disagreement_or_of_a_number_that_was_put_in() {
        for experiment in experiments::ALL {
            let findings = published(experiment);
            let mut used = vec![false; experiment.reasons.len()];
            for table in &findings.tables {
                for one in comparisons(table) {
                    if let Some((place, reason)) = covering(experiment.reasons, table, &one) {
                        used[place] |= reason.is_input() || one.verdict != Verdict::Agrees;
                    }
                }
            }
            let idle = experiment.reasons.iter().zip(used).find(|(_, used)| !used);
            assert!(idle.is_none(), "{}: {idle:?}", experiment.name);
        }
    }

    /// A number that a reason names is there, so that the report can print it.
    #[test]
    fn the_numbers_of_a_reason_are_numbers_of_the_run() {
        for experiment in experiments::ALL {
            let findings = published(experiment);
            for reason in experiment.reasons {
                for number in reason.numbers() {
                    let is_there = number.written(&findings).is_some();
                    assert!(is_there, "{}: {number:?}", experiment.name);
                }
            }
        }
    }

    /// Each published disagreement is said with why, or that this is not known.
    #[test]
    fn what_is_published_says_why_it_disagrees() {
        for experiment in experiments::ALL {
            let findings = published(experiment);
            let disagreeing = sentences::count(&findings, experiment.reasons);
            let report = Report::new(experiment, experiment.scale, 1, findings);
            assert_eq!(
                report.disagreements.is_empty(),
                disagreeing.compared == disagreeing.agreeing
            );
            let page = markdown::draw(&report);
            for one in report.disagreements.iter().chain(&report.inputs) {
                assert!(page.contains(&one.why), "{}: {}", experiment.name, one.why);
                let says = one.is_known != one.why.contains("Why is not known.");
                assert!(says, "{}: {}", experiment.name, one.why);
                for sentence in &one.comparisons {
                    assert!(page.contains(sentence), "{sentence}");
                }
            }
        }
    }
}
