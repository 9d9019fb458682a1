//! `mega status`: what every running manager sees and does, in ten lines or process by process.

mod processes;
mod summary;

use std::process::ExitCode;

use crate::cli::Status;
use crate::control;
use crate::exit::Failure;
use crate::output;
use crate::report::{StatusReport, VERSION};
use summary::Summary;

pub(super) fn run(args: &Status) -> Result<ExitCode, Failure> {
    let (managers, failures) = control::ask_everyone()?;
    for failure in &failures {
        output::say(failure);
    }
    if args.json {
        output::print_json(&StatusReport {
            version: VERSION,
            managers: managers.clone(),
        })?;
    } else if args.processes {
        output::print(&processes::in_words(&managers, args.sort, args.limit))?;
    } else if !managers.is_empty() {
        output::print(&Summary::of(&managers).in_words())?;
    }
    if managers.is_empty() {
        let line =
            "no `mega daemon` and no `mega run` is running; `mega top --observe` looks without one";
        return Err(Failure::Failed(line.to_owned()));
    }
    Ok(ExitCode::SUCCESS)
}
