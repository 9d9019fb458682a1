//! `mega-lab`: the experiments, the demo and the workloads. `mega lab`, `mega demo` and `mega workload` become this
//! program, so its lines on standard error begin with `mega: ` too.

mod generate;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mega_lab::{
    Error, calibration, damo, demo, live, replay_error, sim, trace_info, without_thp_disable,
    workload,
};

const EXIT_CODES: &str = "\
Exit codes: 0 done, whether goals were reached or not, 1 failed, 2 wrong usage, 3 a program, a kernel feature or \
a privilege is missing.";

const EXAMPLE: &str = "\
Exit codes: 0 done, whether goals were reached or not, 1 failed, 2 wrong usage, 3 a program, a kernel feature or \
a privilege is missing.

Example:
  mega lab live bloat --mode base --mode thp --mode mega:adaptive --rounds 5";

/// Runs the papers' experiments on this machine, every mode side by side
#[derive(Debug, Parser)]
#[command(version = env!("MEGA_VERSION"), after_help = EXAMPLE, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Lab(live::Command),
    /// Run one of the papers' experiments on a simulated machine, or all of them
    Sim(sim::Sim),
    /// Show what touches cost on a simulated processor, beside what was measured on a real one
    Calibration(calibration::Args),
    /// Show what a recording of `mega record` has, with a heat map of addresses against time
    TraceInfo(trace_info::Args),
    /// Turn a record of damo's into a recording, or a recording into a record that damo reads
    Damo(damo::Args),
    /// Record programs, predict by replays what policies do with them, run them under each, and show the error
    ReplayError(replay_error::Args),
    /// Compare one memory-hungry program with base pages, with THP always and under mega
    #[command(after_help = EXIT_CODES)]
    Demo(demo::Args),
    /// Run a program with known behaviour, for tests and experiments
    Workload(workload::Args),
    /// Run a program that cannot switch huge pages off for itself
    #[command(hide = true)]
    WithoutThpDisable(without_thp_disable::Args),
    /// Print a completion script of mega-lab for a shell
    Completions(generate::Completions),
    /// Write the man pages of mega-lab
    Man(generate::Man),
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            for line in error.to_string().lines() {
                eprintln!("mega: {line}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, Error> {
    match command {
        Command::Lab(command) => print(&live::run(command)?),
        Command::Sim(args) => print(&sim::run(args)?),
        Command::Calibration(args) => print(&calibration::run(args)?),
        Command::TraceInfo(args) => print(&trace_info::run(args)?),
        Command::Damo(args) => print(&damo::run(args)?),
        Command::ReplayError(args) => print(&replay_error::run(args)?),
        Command::Demo(args) => demo::run(args),
        Command::Workload(args) => workload::run(args),
        Command::WithoutThpDisable(args) => match without_thp_disable::run(args)? {},
        Command::Completions(args) => print(&generate::completions(args)),
        Command::Man(args) => generate::man(args),
    }
}

/// Prints data. A reader that has gone away is no failure: it has what it wanted.
fn print(text: &str) -> Result<ExitCode, Error> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("writing to standard output", error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
