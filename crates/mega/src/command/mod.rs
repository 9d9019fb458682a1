//! One file for each command.

mod act;
mod compact;
mod coverage;
mod daemon;
mod doctor;
mod events;
mod first_steps;
mod frag;
mod generate;
mod hz;
mod init;
mod lab;
mod named_selection;
mod policies;
mod profiles;
mod record;
mod replay;
mod report;
mod run;
mod scan;
mod status;
mod top;
mod worth;
mod worth_doing;

use std::process::ExitCode;

use crate::cli::Command;
use crate::exit::Failure;

/// Runs a command; without one, says what to do next.
pub(crate) fn dispatch(command: Option<Command>) -> Result<ExitCode, Failure> {
    let Some(command) = command else {
        return first_steps::run();
    };
    match command {
        Command::Run(args) => run::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Worth(args) => worth::run(&args),
        Command::Promote(args) => act::promote(&args),
        Command::Demote(args) => act::demote(&args),
        Command::Frag(args) => frag::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Coverage(args) => coverage::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Hz(args) => hz::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Profiles(args) => profiles::run(&args),
        Command::Demo(args) => lab::demo(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Workload(args) => lab::workload(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
    }
}
