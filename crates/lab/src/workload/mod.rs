//! `mega workload`: programs with known behaviour, which say what they do.
//!
//! With `--json` each prints JSON lines on standard output: first `ready` once its memory is as it says
//! ([`report::Ready`]), at the end `done` ([`report::Done`]).

mod access;
mod churn;
mod fork;
mod grow;
mod hot_cold;
mod mixed;
mod random;
pub mod report;
mod small;
mod sparse;
mod stop;
mod zeros;

use std::process::ExitCode;

use clap::Subcommand;

use crate::bytes;
use crate::error::Error;
use report::{Done, Reporter};
use stop::Stop;

/// Runs a program with known behaviour, for tests and experiments
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    workload: Workload,
}

/// Which program.
#[derive(Clone, Debug, Subcommand)]
enum Workload {
    /// Updates random words all over its memory; the sum of all words shows whether any was lost
    Random(Common),
    /// Touches one page in eight once, never again, then idles
    Sparse(Common),
    /// Uses every page of the first half of its memory again and again, the second half only once
    HotCold(Common),
    /// Asks for huge pages and leaves three in four of their base pages zero
    Zeros(Common),
    /// Touches page by page and times each first touch
    Grow(Common),
    /// Updates random words of memory within the TLB's reach
    Small(Common),
    /// Maps, fills, checks and unmaps pieces of memory again and again
    Churn(Common),
    /// Grows as `grow`, touches another area of the same size as `sparse`, then works as `random`
    Mixed(Common),
    /// Starts children that each work as `random` on a part of the memory
    Fork {
        #[command(flatten)]
        common: Common,
        /// Number of children
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
        children: u32,
    },
}

/// What every workload is told.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// Bytes of memory, rounded up to whole huge pages [default: 256MiB; 4MiB for `small`]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: Option<usize>,
    /// Seconds to run, after its memory is touched [default: 10 without --until-eof]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Run until standard input ends
    #[arg(long)]
    until_eof: bool,
    /// Where the random sequence starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    /// Take base pages only, whatever the machine's THP mode (`prctl(PR_SET_THP_DISABLE)`)
    #[arg(long)]
    no_huge_pages: bool,
}

impl Common {
    fn size_or(&self, default: usize) -> usize {
        self.size.unwrap_or(default)
    }

    fn size(&self) -> usize {
        self.size_or(256 << 20)
    }
}

/// Runs the workload; fails when its memory does not hold at the end what it wrote there.
///
/// # Errors
/// When memory cannot be mapped, standard output cannot be written, or data was lost.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let (common, name) = match &args.workload {
        Workload::Random(common) => (common, "random"),
        Workload::Sparse(common) => (common, "sparse"),
        Workload::HotCold(common) => (common, "hot-cold"),
        Workload::Zeros(common) => (common, "zeros"),
        Workload::Grow(common) => (common, "grow"),
        Workload::Small(common) => (common, "small"),
        Workload::Churn(common) => (common, "churn"),
        Workload::Mixed(common) => (common, "mixed"),
        Workload::Fork { common, .. } => (common, "fork"),
    };
    if common.no_huge_pages {
        rustix::thread::disable_transparent_huge_pages(true)
            .map_err(|e| Error::io("disabling huge pages for this process by prctl", e))?;
    }
    let mut reporter = Reporter::new(name, common.seed, common.json);
    let mut stop = Stop::new(common.seconds, common.until_eof);
    let done = match &args.workload {
        Workload::Random(common) => random::run(common, &mut reporter, &mut stop),
        Workload::Sparse(common) => sparse::run(common, &mut reporter, &mut stop),
        Workload::HotCold(common) => hot_cold::run(common, &mut reporter, &mut stop),
        Workload::Zeros(common) => zeros::run(common, &mut reporter, &mut stop),
        Workload::Grow(common) => grow::run(common, &mut reporter, &mut stop),
        Workload::Small(common) => small::run(common, &mut reporter, &mut stop),
        Workload::Churn(common) => churn::run(common, &mut reporter, &mut stop),
        Workload::Mixed(common) => mixed::run(common, &mut reporter, &mut stop),
        Workload::Fork { common, children } => {
            fork::run(common, *children, &mut reporter, &mut stop)
        }
    }?;
    finish(&mut reporter, done)
}

fn finish(reporter: &mut Reporter, done: Done) -> Result<ExitCode, Error> {
    let verified = done.verified;
    reporter.done(done)?;
    if verified {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Error::Failed(
        "the memory does not hold what was written there: data was lost".into(),
    ))
}

fn size(text: &str) -> Result<usize, String> {
    let bytes = bytes::parse(text)?;
    if bytes == 0 {
        return Err("a workload needs at least one byte of memory".into());
    }
    usize::try_from(bytes).map_err(|e| e.to_string())
}

fn seconds(text: &str) -> Result<f64, String> {
    let day = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=day).contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "`{text}` is not a number of seconds from 0 to {day}"
        )),
    }
}
