//! `mega hz`: the memory of hzmem.ko.

mod grow;
mod shrink;
mod status;

use std::process::ExitCode;

use crate::cli::{Hz, HzCommand};
use crate::exit::Failure;

pub(super) fn run(args: &Hz) -> Result<ExitCode, Failure> {
    match &args.command {
        HzCommand::Status(args) => status::run(args),
        HzCommand::Grow(args) => grow::run(args),
        HzCommand::Shrink(args) => shrink::run(args),
    }
}
