//! One file for each command.

mod act;
mod compact;
mod daemon;
mod doctor;
mod frag;
mod generate;
mod hz;
mod lab;
mod policies;
mod run;
mod scan;
mod status;
mod worth;

use std::process::ExitCode;

use crate::cli::Command;
use crate::exit::Failure;

/// Runs a command.
pub(crate) fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Worth(args) => worth::run(&args),
        Command::Promote(args) => act::promote(&args),
        Command::Demote(args) => act::demote(&args),
        Command::Frag(args) => frag::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Hz(args) => hz::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Demo(args) => lab::demo(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Workload(args) => lab::workload(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
    }
}
