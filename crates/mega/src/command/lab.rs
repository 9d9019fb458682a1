//! `mega lab`: the experiments.

use std::process::ExitCode;

use crate::exit::Failure;
use crate::output;

pub(super) fn run(args: &mega_lab::live::Args) -> Result<ExitCode, Failure> {
    output::print(&mega_lab::live::run(args)?)?;
    Ok(ExitCode::SUCCESS)
}
