//! Options of the commands that help to set mega up.

use std::path::PathBuf;

use clap::Args;

use crate::value;

/// `mega doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// First put back what a killed mega left changed (`run` and `daemon` do so at every start)
    #[arg(long)]
    pub(crate) restore: bool,
    /// Measure anew what touches cost on this machine (some seconds), and keep it for `mega worth`
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Also draw what touches cost on this machine as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `mega init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write; mega overwrites none [default: /etc/mega/mega.toml or, if that exists,
    /// /etc/mega/mega.toml.d/init.toml, which mega reads after it]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Name the processes that have at least this much resident
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = value::some_bytes)]
    pub(crate) min_resident: u64,
    /// Print the configuration, and write no file
    #[arg(long, conflicts_with = "config")]
    pub(crate) print: bool,
}

/// `mega policies`
#[derive(Debug, Args)]
pub(crate) struct Policies {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `mega man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder to write mega.1, mega-run.1 and so on to
    pub(crate) folder: PathBuf,
}
