//! `mega lab sim`: the command line of the experiments on the simulated machine.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::experiment::{Experiment, Setting};
use super::experiments;
use super::recording;
use super::report::{self, Report};
use super::scale::Scale;
use super::side_by_side::side_by_side;
use crate::error::Error;

/// The name that stands for every experiment.
const ALL: &str = "all";

/// `mega lab sim`
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Sim {
    #[command(subcommand)]
    of_files: Option<OfFiles>,
    /// Which experiment, or `all`
    #[arg(value_parser = names(), required_unless_present = "list")]
    experiment: Option<String>,
    /// List the experiments
    #[arg(long, conflicts_with = "experiment")]
    list: bool,
    /// Simulate one part in N of the paper's memory, and programs of that size [default: by experiment; see --list]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    scale: Option<u64>,
    /// What random numbers come from: the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run nothing: write the reports on what that folder has anew, with the reasons that are known by now
    #[arg(long, conflicts_with_all = ["scale", "seed", "list"])]
    again: bool,
    /// The folder for what is written: a folder for each experiment, and index.md on all that are there
    #[arg(short, long, value_name = "FOLDER", default_value = "mega-sim")]
    out: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// What is simulated that no experiment has by itself.
#[derive(Clone, Debug, clap::Subcommand)]
enum OfFiles {
    /// Run recordings of `mega record` as programs of one simulated machine, alone or beside others, under each system in turn
    Recording(recording::Args),
}

/// Runs the command; returns what it prints on standard output.
///
/// # Errors
/// When there can be no machine of that size, or when a file cannot be written.
pub fn run(sim: &Sim) -> Result<String, Error> {
    if let Some(OfFiles::Recording(args)) = &sim.of_files {
        return recording::run(args);
    }
    let Some(name) = sim.experiment.as_deref() else {
        return list(sim.json);
    };
    let chosen: Vec<&Experiment> = experiments::ALL
        .iter()
        .copied()
        .filter(|experiment| name == ALL || experiment.name == name)
        .collect();
    let reports = side_by_side(&chosen, |experiment| {
        let report = if sim.again {
            report::again(&sim.out, experiment)?
        } else {
            one(experiment, sim.scale, sim.seed)?
        };
        report::write(&sim.out, &report)?;
        Ok::<Report, Error>(report)
    })?;
    report::write_page(&sim.out)?;
    eprintln!("mega lab: the results are in {}", sim.out.display());
    if sim.json {
        return report::as_json(&reports, name != ALL);
    }
    let texts: Vec<String> = reports.iter().map(report::in_words).collect();
    Ok(texts.join("\n"))
}

/// Runs one experiment, at its own scale where none is given.
fn one(experiment: &Experiment, scale: Option<u64>, seed: u64) -> Result<Report, Error> {
    let scale = scale.unwrap_or(experiment.scale);
    let progress = |system: &str| eprintln!("mega lab: {}, {system}", experiment.name);
    let setting = Setting {
        scale: Scale::new(scale),
        seed,
        progress: &progress,
    };
    let findings = (experiment.run)(&setting)?;
    Ok(Report::new(experiment, scale, seed, findings))
}

fn list(json: bool) -> Result<String, Error> {
    if json {
        let all: Vec<_> = experiments::ALL
            .into_iter()
            .map(|experiment| {
                serde_json::json!({
                    "name": experiment.name,
                    "title": experiment.title,
                    "source": experiment.source,
                    "about": experiment.about,
                    "memory_bytes": experiment.memory,
                    "scale": experiment.scale,
                })
            })
            .collect();
        return serde_json::to_string_pretty(&all)
            .map(|text| text + "\n")
            .map_err(|error| Error::Failed(format!("writing JSON: {error}")));
    }
    let line = |experiment: &Experiment| {
        format!(
            "{:<18} {} ({}; 1/{})\n",
            experiment.name, experiment.title, experiment.source, experiment.scale
        )
    };
    Ok(experiments::ALL.into_iter().map(line).collect())
}

fn names() -> PossibleValuesParser {
    let names = experiments::ALL
        .into_iter()
        .map(|experiment| experiment.name);
    PossibleValuesParser::new(names.chain([ALL]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of the machines that the tests simulate: so little, since with debug assertions each operation is checked.
    const SMALL: u64 = 32 << 20;

    #[test]
    fn names_are_unique_and_plain() {
        let mut names: Vec<&str> = experiments::ALL.iter().map(|e| e.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(is_plain)));
    }

    /// What it writes at a small scale: its own files, and the page.
    fn written(experiment: &Experiment) -> Vec<(String, Vec<u8>)> {
        let folder = tempfile::tempdir().unwrap();
        let report = one(experiment, Some((experiment.memory / SMALL).min(4096)), 3).unwrap();
        report::write(folder.path(), &report).unwrap();
        report::write_page(folder.path()).unwrap();
        let own = ["findings.json", "findings.csv", "report.md", "chart.svg"]
            .map(|name| format!("{}/{name}", experiment.name));
        let read = |name: String| {
            let bytes = std::fs::read(folder.path().join(&name)).unwrap();
            (name, bytes)
        };
        own.into_iter()
            .chain(["index.md".to_owned()])
            .map(read)
            .collect()
    }

    /// Every experiment runs at a small scale, says something of each system, and says the same when it runs again.
    #[test]
    #[ignore = "takes minutes: make test-long"]
    fn the_same_seed_gives_the_same_bytes() {
        for experiment in experiments::ALL {
            let [first, second] = std::thread::scope(|scope| {
                [(); 2]
                    .map(|()| scope.spawn(|| written(experiment)))
                    .map(|run| run.join().unwrap())
            });
            for ((name, first), (_, second)) in first.iter().zip(&second) {
                assert!(first == second, "{name}");
                assert!(!first.is_empty(), "{name}");
            }
        }
    }

    /// The reasons may be others by now, but the numbers are the same.
    #[test]
    fn a_report_is_written_anew_without_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = experiments::ALL
            .into_iter()
            .find(|experiment| experiment.name == "mega-faults")
            .unwrap();
        let own = folder.path().join("mega-faults");
        let [findings, text] = ["findings.json", "report.md"].map(|name| own.join(name));
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
        assert!(report::again(folder.path(), experiment).is_err());
        let first = one(experiment, Some(1024), 7).unwrap();
        report::write(folder.path(), &first).unwrap();
        let before = read(&text);
        let stale = read(&findings).replace("Its kernel", "Nobody");
        assert_ne!(stale, read(&findings));
        std::fs::write(&findings, stale).unwrap();
        let anew = report::again(folder.path(), experiment).unwrap();
        report::write(folder.path(), &anew).unwrap();
        assert_eq!(read(&text), before);
        assert!(read(&findings).contains("Its kernel"));
    }

    #[test]
    fn the_page_has_what_earlier_runs_found_and_leaves_out_what_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let page = || std::fs::read_to_string(folder.path().join("index.md")).unwrap();
        let ran = |name: &str| {
            let experiment = experiments::ALL.into_iter().find(|e| e.name == name);
            let report = one(experiment.unwrap(), Some(1024), 1).unwrap();
            report::write(folder.path(), &report).unwrap();
            report::write_page(folder.path()).unwrap();
            page()
        };
        let first = ran("mega-faults");
        let both = ran("trident-figure-3");
        for section in first.split("\n## ").skip(1) {
            assert!(both.contains(section.trim_end()), "{both}");
        }
        assert!(both.contains("(#trident-figure-3)"));
        std::fs::write(folder.path().join("mega-faults/findings.json"), "{").unwrap();
        report::write_page(folder.path()).unwrap();
        assert!(!page().contains("(#mega-faults)") && page().contains("(#trident-figure-3)"));
    }
}
