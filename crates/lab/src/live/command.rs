//! `mega lab`: the command line of the experiments.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use mega_core::bytes;

use super::cpus;
use super::experiment::Experiment;
use super::experiments;
use super::globals::Globals;
use super::mode::Mode;
use super::package::Program;
use super::plan::{Plan, Wishes};
use super::progress::Progress;
use super::report;
use super::results::Results;
use super::runner::Runner;
use super::worth;
use crate::error::Error;
use crate::interrupt::Interrupt;

/// The name that stands for every experiment.
const ALL: &str = "all";

/// What to do with the experiments.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Run an experiment, or all of them, in every mode, interleaved
    Live(Live),
    /// Make the page on all results below a folder anew, and print its summary as Markdown
    Report {
        /// Where `mega lab live` has written results
        #[arg(value_name = "FOLDER", default_value = "mega-lab")]
        folder: PathBuf,
    },
    /// List the experiments
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

/// `mega lab live`
#[derive(Clone, Debug, clap::Args)]
pub struct Live {
    /// Which experiment, or `all`
    #[arg(value_parser = names())]
    experiment: String,
    /// A mode to run; may be given several times [default: those of the experiment: base, thp, khugepaged and
    /// mega:POLICY for each policy, but mega:trident and its ablations only where the kernel has giant
    /// pages]
    #[arg(long = "mode", value_name = "MODE")]
    modes: Vec<Mode>,
    /// Bytes of memory that the program uses [default: a sixteenth of what is available]
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    size: Option<u64>,
    /// How often every mode is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds for which the steady part of each run is measured; in turns, at least
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Seconds between two observations of the manager, which by default observes every 5; shorter here, so that a
    /// policy that averages over ten observations has decided before its program is measured
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    interval: Duration,
    /// The folder for what is written: a folder for each experiment, and index.html
    #[arg(long, value_name = "FOLDER", default_value = "mega-lab")]
    out: PathBuf,
    /// A program to run, of the experiment `worth` alone; may be given several times [default: all of them]
    #[arg(long = "program", value_name = "NAME", value_parser = PossibleValuesParser::new(worth::names()))]
    programs: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs a command; returns what it prints on standard output.
///
/// # Errors
/// [`Error::Missing`] when a program, a kernel feature or a privilege is missing, otherwise when a run failed or was
/// interrupted. What modes had changed globally is put back; after a crash, the next start of mega does it.
pub fn run(command: &Command) -> Result<String, Error> {
    match command {
        Command::Live(live) => run_live(live),
        Command::Report { folder } => report::renew(folder),
        Command::List { json } => list(*json),
    }
}

fn run_live(live: &Live) -> Result<String, Error> {
    if live.experiment == worth::NAME {
        return run_worth(live);
    }
    let interrupt = Interrupt::catch()?;
    let chosen = chosen(&live.experiment);
    require_programs(&chosen)?;
    let globals = Globals::open()?;
    cpus::keep_to_first()?;
    let plans = chosen
        .iter()
        .map(|experiment| Plan::new(experiment, &live.wishes()))
        .collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::new(plans.iter().map(Plan::steps).sum());
    let runner = Runner {
        globals: &globals,
        interrupt: &interrupt,
        progress: &progress,
    };
    let mut all = Vec::new();
    for (experiment, plan) in chosen.iter().zip(&plans) {
        let results = runner.run(experiment, plan)?;
        report::write(&live.out, &results)?;
        all.push(results);
    }
    progress.finish();
    if live.experiment == ALL {
        report::write_page(&live.out, &all)?;
    }
    eprintln!("mega lab: the results are in {}", live.out.display());
    in_words_or_json(&all, live)
}

/// Predictions against the truth: no modes are compared.
fn run_worth(live: &Live) -> Result<String, Error> {
    let interrupt = Interrupt::catch()?;
    let globals = Globals::open()?;
    cpus::keep_to_first()?;
    let size = match live.size {
        Some(size) => size.next_multiple_of(mega_core::HUGE_PAGE_SIZE),
        None => worth::default_size()?,
    };
    let wishes = worth::Wishes {
        programs: live.programs.clone(),
        size,
        rounds: live.rounds,
        measured: live.seconds,
        out: live.out.clone(),
    };
    worth::run(&wishes, live.json, &globals, &interrupt)
}

impl Live {
    fn wishes(&self) -> Wishes<'_> {
        Wishes {
            size: self.size,
            rounds: self.rounds,
            measured: self.seconds,
            interval: self.interval,
            modes: &self.modes,
        }
    }
}

fn chosen(name: &str) -> Vec<&'static Experiment> {
    experiments::ALL
        .into_iter()
        .filter(|experiment| name == ALL || experiment.name == name)
        .collect()
}

/// Sees that every program is there before hours are spent on the first ones.
fn require_programs(experiments: &[&Experiment]) -> Result<(), Error> {
    let missing: Vec<Program> = experiments
        .iter()
        .flat_map(|experiment| experiment.programs)
        .filter(|program| program.find().is_err())
        .copied()
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => one.find().map(|_| ()),
        several => {
            let names = |of: fn(&Program) -> &'static str| {
                let mut names: Vec<&str> = several.iter().map(of).collect();
                names.sort_unstable();
                names.dedup();
                names
            };
            Err(Error::Missing(format!(
                "{} are not installed; `apt-get install {}` installs them",
                names(|program| program.name).join(", "),
                names(|program| program.package.name()).join(" ")
            )))
        }
    }
}

fn in_words_or_json(all: &[Results], live: &Live) -> Result<String, Error> {
    if live.json {
        let text = match all {
            [one] if live.experiment != ALL => serde_json::to_string_pretty(one),
            several => serde_json::to_string_pretty(several),
        };
        return text
            .map(|text| text + "\n")
            .map_err(|e| Error::Failed(format!("writing JSON: {e}")));
    }
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let tables: Vec<String> = all
        .iter()
        .map(|results| report::terminal::draw(results, colours))
        .collect();
    Ok(tables.join("\n"))
}

fn list(json: bool) -> Result<String, Error> {
    if json {
        let all: Vec<_> = experiments::ALL
            .into_iter()
            .map(|experiment| {
                let modes: Vec<Mode> = (experiment.modes)();
                let packages: Vec<&str> = experiment
                    .programs
                    .iter()
                    .map(|p| p.package.name())
                    .collect();
                serde_json::json!({
                    "name": experiment.name,
                    "title": experiment.title,
                    "about": experiment.about,
                    "modes": modes,
                    "packages": packages,
                })
            })
            .collect();
        return serde_json::to_string_pretty(&all)
            .map(|text| text + "\n")
            .map_err(|e| Error::Failed(format!("writing JSON: {e}")));
    }
    let line = |experiment: &Experiment| format!("{:<14} {}\n", experiment.name, experiment.title);
    let worth = format!("{:<14} {}\n", worth::NAME, worth::TITLE);
    Ok(experiments::ALL
        .into_iter()
        .map(line)
        .chain([worth])
        .collect())
}

fn names() -> PossibleValuesParser {
    let names = experiments::ALL
        .into_iter()
        .map(|experiment| experiment.name);
    PossibleValuesParser::new(names.chain([worth::NAME, ALL]))
}

/// A hundredth of a second to an hour.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "`{text}` is not a number of seconds from 0.01 to 3600"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_what_they_are() {
        let mut names: Vec<&str> = experiments::ALL.iter().map(|e| e.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for experiment in experiments::ALL {
            assert!(!experiment.title.is_empty() && !experiment.about.is_empty());
            assert!(!experiment.metrics.is_empty(), "{}", experiment.name);
            for goal in experiment.goals {
                let known = experiment.metrics.iter().any(|m| m.id == goal.metric);
                assert!(known, "{}: no metric {}", experiment.name, goal.metric);
            }
            if let Some(paper) = experiment.paper {
                for (row, values) in paper.rows {
                    assert_eq!(
                        values.len(),
                        paper.systems.len(),
                        "{}: {row}",
                        experiment.name
                    );
                }
            }
        }
    }

    #[test]
    fn times_have_bounds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "NaN", "inf", "3601", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
