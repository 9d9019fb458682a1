//! The papers' experiments with fragmented physical memory, scaled to the memory of the machine.
//!
//! One run measures one figure under one policy, on a freshly booted machine, because fragmentation outlives the
//! program that made it. `report` prints the measurements of all policies beside the paper's numbers. The experiments
//! count pages and blocks and time nothing, so an emulated machine suffices.
//!
//! All policies see the same programs with the same random numbers. If an experiment compares only compaction, all
//! programs fault memory in as base pages.

mod contents;
mod fragment;
mod giant_settings;
mod mega_figure_1;
mod mega_figure_2;
mod period;
mod shape;
mod trident_figure_7;
mod trident_paper;
mod trident_report;
mod trident_tables;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use shape::Shape;

/// Measures a figure about fragmentation, or reports measurements.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Which of the two.
#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Measure under one policy, on a freshly booted machine with the kernel module; prints one line of JSON
    Measure {
        /// Which figure
        figure: Figure,
        /// A compaction policy, or `none`; for the tables a policy, or `fault-only`
        policy: String,
    },
    /// Print measurements beside the paper's figures
    Report {
        /// Which figure
        figure: Figure,
        /// Files with one measurement each
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print the policies that a figure compares
    Policies {
        /// Which figure
        figure: Figure,
    },
    /// Be a program that the tables measure: get memory, and wait for the end of the input
    Program {
        /// How its memory comes about
        shape: Shape,
    },
}

/// A figure of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// MEGA figure 1: contiguity after allocate and free rounds of growing object size
    #[value(name = "mega-figure-1")]
    MegaFigure1,
    /// MEGA figure 2 and table 7: blocks recovered from half-freed memory, and what that took
    #[value(name = "mega-figure-2")]
    MegaFigure2,
    /// Trident figure 7: pages moved per chunk by smart and by sequential compaction
    #[value(name = "trident-figure-7")]
    TridentFigure7,
    /// Trident tables 3 and 4, on the patched kernel: memory mapped by 1 GiB and 2 MiB pages, and failed attempts at it; and
    /// figure 7 of the kernel's own compaction
    #[value(name = "trident-tables")]
    TridentTables,
}

impl Figure {
    /// The policies it compares.
    #[must_use]
    pub const fn policies(self) -> &'static [&'static str] {
        match self {
            Figure::MegaFigure1 | Figure::MegaFigure2 => {
                &["none", "linux", "ingens", "mega", "trident"]
            }
            Figure::TridentFigure7 => &["sequential", "trident"],
            Figure::TridentTables => trident_tables::MECHANISMS,
        }
    }
}

/// Runs a command and returns what it prints on standard output.
///
/// # Errors
/// [`Error::Missing`] where the module, the privilege or the memory is missing.
pub fn run(args: &Args) -> Result<String, Error> {
    match &args.command {
        Command::Measure { figure, policy } => match figure {
            Figure::MegaFigure1 => line(&mega_figure_1::measure(policy)?),
            Figure::MegaFigure2 => line(&mega_figure_2::measure(policy)?),
            Figure::TridentFigure7 => line(&trident_figure_7::measure(policy)?),
            Figure::TridentTables => line(&trident_tables::measure(policy)?),
        },
        Command::Report { figure, files } => match figure {
            Figure::MegaFigure1 => Ok(mega_figure_1::report(&read(files)?)),
            Figure::MegaFigure2 => Ok(mega_figure_2::report(&read(files)?)),
            Figure::TridentFigure7 => Ok(trident_figure_7::report(&read(files)?)),
            Figure::TridentTables => Ok(trident_report::report(&read(files)?)),
        },
        Command::Policies { figure } => Ok(figure.policies().join("\n") + "\n"),
        Command::Program { shape } => shape::be(*shape).map(|()| String::new()),
    }
}

fn line(measurement: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(measurement)
        .map(|line| line + "\n")
        .map_err(|error| Error::Failed(format!("cannot write JSON: {error}")))
}

fn read<M: for<'de> Deserialize<'de>>(files: &[PathBuf]) -> Result<Vec<M>, Error> {
    files
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Error::io(format!("read {}", file.display()), error))?;
            serde_json::from_str(&text).map_err(|error| {
                Error::Failed(format!("{}: not a measurement: {error}", file.display()))
            })
        })
        .collect()
}
