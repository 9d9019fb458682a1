//! `mega report`: the daemon's last day, or a recording, as one page.

mod chart;
mod page;
mod reasons;
mod recording;
mod summary;

use std::path::Path;
use std::process::ExitCode;

use crate::cli::Report;
use crate::control;
use crate::exit::Failure;
use crate::history::{DayReport, DaysReport};
use crate::output;
use crate::report::VERSION;

pub(super) fn run(args: &Report) -> Result<ExitCode, Failure> {
    let text = match &args.file {
        Some(file) => recorded(file, args.json)?,
        None => managed(args.json)?,
    };
    match &args.output {
        Some(path) => write(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn recorded(file: &Path, json: bool) -> Result<String, Failure> {
    let report = recording::read(file)?;
    match json {
        true => output::json(&report),
        false => Ok(recording::draw(&report)),
    }
}

fn managed(json: bool) -> Result<String, Failure> {
    let report = DaysReport {
        version: VERSION,
        days: days()?,
    };
    match json {
        true => output::json(&report),
        false => Ok(page::draw(&report.days)),
    }
}

/// The days of the running daemons. What one says that does not answer is passed on.
fn days() -> Result<Vec<DayReport>, Failure> {
    let managers = control::managers()?;
    let (mut days, failures) = control::ask_for_history(&managers);
    if days.is_empty() {
        let mut line = "no `mega daemon` is running that has a history".to_owned();
        failures
            .iter()
            .for_each(|failure| line += &format!("; {failure}"));
        return Err(Failure::Failed(line));
    }
    failures.iter().for_each(|failure| output::say(failure));
    days.sort_by_key(|day| day.pid);
    Ok(days)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
}
