//! `mega demo`: the README's first command.

use std::process::ExitCode;

use crate::exit::Failure;

pub(super) fn run(args: &mega_lab::demo::Args) -> Result<ExitCode, Failure> {
    Ok(mega_lab::demo::run(args)?)
}
