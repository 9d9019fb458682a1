//! The experiments of the Hzmem paper (section 5), scaled to a small machine. They compare hzmem with the alternatives:
//! the kernel's own huge pages (hugetlbfs), and transparent huge pages that swap to zram.
//!
//! One run measures one part for one kind of memory on a freshly booted machine. `report` prints all of them beside the
//! paper's numbers. On an emulated machine bytes and counts are exact. Times only compare with each other, and say
//! nothing about TLB misses, which emulation does not have.

mod content;
mod daemon;
mod effective;
mod faults;
mod kernels;
mod memory;
mod overhead;
mod state;
mod stream;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::columns::{Side, align};
use crate::error::Error;
use content::Content;
use memory::{Memory, Setup};

/// Measures a part, or reports measurements.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Measure one part on a freshly booted machine; prints one line of JSON
    Measure {
        /// Which part
        part: Part,
        /// Of which memory; hzmem stands for hzmem and hugetlbfs in `overhead`
        memory: Memory,
        #[command(flatten)]
        setup: Setup,
        /// Less of everything, to see that it works
        #[arg(long)]
        quick: bool,
    },
    /// Print measurements beside the paper's figures
    Report {
        /// Which part
        part: Part,
        /// Files with one measurement each
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Also write them as one JSON object
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Fill memory until it fails (what `effective` starts)
    #[command(hide = true)]
    Fill {
        memory: Memory,
        content: Content,
        most: u64,
    },
}

/// A part of the paper's section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Table 1 and figure 3: speed of a program that has its memory in hzmem, below the watermark
    Overhead,
    /// Figure 4: effective memory
    Effective,
    /// Figure 5: page fault throughput within and beyond the configured size
    Faults,
    /// Section 5.4: what the daemons use of a CPU
    Daemon,
}

/// Runs a command and returns what it prints on standard output.
///
/// # Errors
/// [`Error::Missing`] where the module, the privilege or the memory is missing.
pub fn run(args: &Args) -> Result<String, Error> {
    match &args.command {
        Command::Measure {
            part,
            memory,
            setup,
            quick,
        } => {
            let text = match part {
                Part::Overhead => line(&overhead::measure(setup, *quick)?),
                Part::Effective => line(&effective::measure(*memory, setup, *quick)?),
                Part::Faults => line(&faults::measure(*memory, setup, *quick)?),
                Part::Daemon => line(&daemon::measure(setup, *quick)?),
            }?;
            memory::take_down(*memory)?;
            Ok(text)
        }
        Command::Report { part, files, json } => match part {
            Part::Overhead => told(*part, files, json.as_ref(), overhead::report),
            Part::Effective => told(*part, files, json.as_ref(), effective::report),
            Part::Faults => told(*part, files, json.as_ref(), faults::report),
            Part::Daemon => told(*part, files, json.as_ref(), daemon::report),
        },
        Command::Fill {
            memory,
            content,
            most,
        } => effective::fill(*memory, *content, *most),
    }
}

fn line(measurement: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(measurement)
        .map(|line| line + "\n")
        .map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Error {
    Error::Failed(format!("cannot write JSON: {error}"))
}

/// What is written with `--json`.
#[derive(Serialize)]
struct Results<'m, M> {
    version: u32,
    part: Part,
    measurements: &'m [M],
}

fn told<M: Serialize + for<'de> Deserialize<'de>>(
    part: Part,
    files: &[PathBuf],
    json: Option<&PathBuf>,
    report: impl Fn(&[M]) -> String,
) -> Result<String, Error> {
    let mut measurements = Vec::with_capacity(files.len());
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::io(format!("read {}", file.display()), error))?;
        let measurement = serde_json::from_str(&text).map_err(|error| {
            Error::Failed(format!("{}: not a measurement: {error}", file.display()))
        })?;
        measurements.push(measurement);
    }
    if let Some(path) = json {
        let results = Results {
            version: 1,
            part,
            measurements: &measurements,
        };
        let text = serde_json::to_string_pretty(&results).map_err(not_json)?;
        std::fs::write(path, text + "\n")
            .map_err(|error| Error::io(format!("write {}", path.display()), error))?;
    }
    Ok(report(&measurements))
}

/// Rows in columns, the first aligned left.
fn table(rows: &[Vec<String>]) -> String {
    let lines = align(rows, &[Side::Left, Side::Right]);
    lines.iter().map(|line| format!("{line}\n")).collect()
}
