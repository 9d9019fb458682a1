//! `mega workload`: programs with known behaviour.

use std::process::ExitCode;

use crate::exit::Failure;

pub(super) fn run(args: &mega_lab::workload::Args) -> Result<ExitCode, Failure> {
    Ok(mega_lab::workload::run(args)?)
}
