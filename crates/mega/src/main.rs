//! `mega`: manages the huge pages of programs. This file parses, dispatches and exits; the rest is in
//! the modules.

mod calibrator;
mod cli;
mod command;
mod config;
mod control;
mod events;
mod exit;
mod guests;
mod history;
mod manager;
mod metrics;
mod node_features;
mod output;
mod processes;
mod profiling;
mod published;
#[cfg(test)]
mod recorded;
mod recording;
mod report;
mod selection;
mod share;
mod signals;
mod supervise;
mod top;
mod utc;
mod value;
mod worker;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::dispatch(cli::Cli::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            output::say(&failure.to_string());
            failure.code()
        }
    }
}
