//! `mega lab replay-error`: how far replays are from the truth.
//!
//! Each program is recorded on base pages. A replay of the recording predicts what each policy does with it. Then the program
//! runs under each policy, and is compared after the same time: how much of it is in huge pages, how much is resident, and
//! which regions were promoted. Programs say where their memory lies, so that regions of two runs are told to be the same.

mod compare;
mod outcome;
mod recorded;
mod running;
mod text;

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use mega_core::promotion::{self, Parameters};
use mega_core::{HUGE_PAGE_SIZE, bytes};

use crate::Error;
use crate::interrupt::Interrupt;
use compare::Findings;
use running::Setting;

/// Workloads that differ in what of their memory they use: all of it, half of it, a page in eight, a piece in six; one that
/// grows.
const PROGRAMS: [&str; 5] = ["random", "hot-cold", "sparse", "chunks", "mixed"];

/// `mega lab replay-error`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A program to try; may be given several times [default: all of them]
    #[arg(long = "program", value_name = "NAME", value_parser = PossibleValuesParser::new(PROGRAMS))]
    programs: Vec<String>,
    /// The policies, with commas between them
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "adaptive,mega,ingens,hawkeye,base"
    )]
    policy: Vec<String>,
    /// Bytes of memory that each program uses
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes::parse)]
    size: u64,
    /// Seconds that each program runs once its memory is touched, before it is compared
    #[arg(long, value_name = "SECONDS", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Milliseconds between two looks, of the recorder and of the managers alike
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    interval: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs everything; returns what it prints.
///
/// # Errors
/// [`Error::Missing`] without mega or a privilege; where a program or mega fails, or a signal came.
pub fn run(args: &Args) -> Result<String, Error> {
    for policy in &args.policy {
        promotion::build(policy, &Parameters::new())
            .map_err(|error| Error::Failed(error.to_string()))?;
    }
    let interrupt = Interrupt::catch()?;
    let setting = Setting::new(
        args.size.next_multiple_of(HUGE_PAGE_SIZE),
        Duration::from_secs(args.seconds),
        Duration::from_millis(args.interval),
    )?;
    let mut findings = Findings::new(&setting);
    for program in PROGRAMS {
        if args.programs.is_empty() || args.programs.iter().any(|chosen| chosen == program) {
            one(program, args, &setting, &interrupt, &mut findings)?;
        }
    }
    findings.judge();
    if args.json {
        let json = serde_json::to_string_pretty(&findings);
        return json
            .map(|text| text + "\n")
            .map_err(|error| Error::Failed(format!("cannot write JSON: {error}")));
    }
    Ok(text::in_words(&findings))
}

fn one(
    program: &str,
    args: &Args,
    setting: &Setting,
    interrupt: &Interrupt,
    findings: &mut Findings,
) -> Result<(), Error> {
    eprintln!("mega lab: {program}, recorded");
    let recording = setting.record(program)?;
    interrupt.check()?;
    for policy in &args.policy {
        let predicted = recording.replay(policy, setting.interval)?;
        eprintln!("mega lab: {program}, under {policy}");
        let live = setting.run(program, policy)?;
        findings.add(program, policy, &predicted, &live);
        interrupt.check()?;
    }
    Ok(())
}
