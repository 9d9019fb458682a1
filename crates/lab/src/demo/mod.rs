//! `mega demo`: the same program with base pages, with THP always and under mega, side by side.

mod chart;
mod course;
mod measure;
mod mode;
mod picture;
mod plan;
mod progress;
mod settle;
mod simulated;
mod summary;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use mega_core::bytes;
use mega_linux::doctor;
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::stale;
use mega_linux::settings::thp_mode::{Guard, ThpMode};

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::sim::demo::{MACHINE, MEMORY};
use crate::warm_up::warm_up;
use measure::Sample;
use mode::Mode;
use picture::PictureFile;
use plan::Plan;
use progress::Progress;
use summary::Summary;

/// Compares one memory-hungry program with base pages, with THP always and under mega
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Bytes that the program uses at random; it touches another area of this size sparsely [default: an
    /// eighth of available memory, at most 1GiB]
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    size: Option<u64>,
    /// Seconds for the whole comparison, about
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=3600))]
    seconds: u32,
    /// Where to write the picture
    #[arg(long, value_name = "FILE", default_value = "mega-demo.svg")]
    svg: PathBuf,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the demo. The THP mode of huge pages is `always` while the program runs with it, and as before afterwards,
/// also after Ctrl-C; after a crash, the next start of mega puts it back. Where the kernel or the privileges do not allow it, it
/// says so and runs the same program on the simulated machine.
///
/// # Errors
/// [`Error::Failed`] when the memory is too small or a run failed.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let interrupt = Interrupt::catch()?;
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let live = match require(&kernel) {
        Ok(run_dir) => Some(run_dir),
        Err(Error::Missing(missing)) => {
            eprintln!("mega demo: programs cannot be managed here: {missing}");
            eprintln!("mega demo: what follows is from a simulated machine ({MACHINE})");
            None
        }
        Err(other) => return Err(other),
    };
    let plan = match live {
        Some(_) => Plan::new(args.size, args.seconds)?,
        None => Plan::simulated(MEMORY, args.size)?,
    };
    let mut picture = PictureFile::open(&args.svg)?;
    let samples = match &live {
        Some(run_dir) => compare(&plan, &kernel, run_dir, &interrupt)?,
        None => simulated::compare(&plan, &interrupt)?,
    };
    let summary = Summary::new(&plan, &samples)?;
    picture.write(&chart::draw(&summary))?;
    let output = if args.json {
        serde_json::to_string_pretty(&summary).map_err(|e| Error::Failed(e.to_string()))?
    } else {
        table::draw(&summary)
    };
    println!("{output}");
    eprintln!("mega demo: the picture is in {}", args.svg.display());
    Ok(ExitCode::SUCCESS)
}

/// Sees whether the live runs are possible here.
fn require(kernel: &Arc<dyn Kernel>) -> Result<RunDir, Error> {
    doctor::require(kernel).map_err(from_linux)?;
    let run_dir = RunDir::open().map_err(from_linux)?;
    require_global_mode(kernel, &run_dir)?;
    Ok(run_dir)
}

/// Puts the global mode back if a killed mega left it changed, and sees whether it may be changed: by doing it, for
/// a moment.
fn require_global_mode(kernel: &Arc<dyn Kernel>, run_dir: &RunDir) -> Result<(), Error> {
    stale::put_back(kernel.as_ref(), run_dir).map_err(from_linux)?;
    let guard = Guard::set(Arc::clone(kernel), run_dir, ThpMode::Always).map_err(from_linux)?;
    guard.restore().map_err(from_linux)
}

/// Runs every mode in turn, round after round.
fn compare(
    plan: &Plan,
    kernel: &Arc<dyn Kernel>,
    run_dir: &RunDir,
    interrupt: &Interrupt,
) -> Result<Vec<(Mode, Sample)>, Error> {
    let progress = Progress::new(plan);
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        for mode in Mode::ALL {
            progress.step(&format!(
                "round {round} of {}: {}",
                plan.rounds,
                mode.name()
            ));
            warm_up(plan.most_resident_bytes())?;
            let guard = match mode {
                Mode::ThpAlways => Some(
                    Guard::set(Arc::clone(kernel), run_dir, ThpMode::Always).map_err(from_linux)?,
                ),
                Mode::Base | Mode::Mega => None,
            };
            let sample = measure::measure(mode, plan, interrupt, &progress)?;
            if let Some(guard) = guard {
                guard.restore().map_err(from_linux)?;
            }
            samples.push((mode, sample));
        }
    }
    progress.finish();
    Ok(samples)
}

// An error by value, as `map_err` has it.
#[allow(clippy::needless_pass_by_value)]
fn from_linux(error: mega_linux::Error) -> Error {
    let why = "the demo changes the THP mode of huge pages for a while and manages a program";
    Error::from_linux(&error, why)
}
