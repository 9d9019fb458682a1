//! `mega demo`: the same program with base pages, with THP always and under mega, side by side.

mod chart;
mod measure;
mod mode;
mod plan;
mod progress;
mod summary;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use mega_linux::doctor;
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::run_dir::RunDir;
use mega_linux::thp_mode::{self, Guard, ThpMode};

use crate::bytes;
use crate::error::Error;
use crate::mapping::{Area, WORDS_PER_PAGE};
use measure::{Interrupt, Sample};
use mode::Mode;
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

/// Runs the demo. The global THP mode is `always` while the program runs with it, and as before afterwards,
/// also after Ctrl-C; after a crash, the next start of mega puts it back.
///
/// # Errors
/// [`Error::Missing`] when the kernel or the privileges do not allow it, [`Error::Failed`] when the memory
/// is too small or a run failed.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let interrupt = Interrupt::catch()?;
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let run_dir = RunDir::open().map_err(from_linux)?;
    require(&kernel, &run_dir)?;
    let plan = Plan::new(args.size, args.seconds)?;

    let samples = compare(&plan, &kernel, &run_dir, &interrupt)?;
    let summary = Summary::new(&plan, &samples)?;
    std::fs::write(&args.svg, chart::draw(&summary))
        .map_err(|e| Error::io(format!("writing {}", args.svg.display()), e))?;
    let output = if args.json {
        serde_json::to_string_pretty(&summary).map_err(|e| Error::Failed(e.to_string()))?
    } else {
        table::draw(&summary)
    };
    println!("{output}");
    eprintln!("mega demo: the picture is in {}", args.svg.display());
    Ok(ExitCode::SUCCESS)
}

/// Says what is missing, before anything is measured.
fn require(kernel: &Arc<dyn Kernel>, run_dir: &RunDir) -> Result<(), Error> {
    thp_mode::restore_stale(kernel.as_ref(), run_dir).map_err(from_linux)?;
    doctor::examine(kernel).require().map_err(from_linux)?;
    // Whether the global mode may be changed is best seen by doing it, for a moment.
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
            warm_up(plan)?;
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

/// Touches as much memory as the program will at most have. A hypervisor backs memory at its first touch, and may
/// take it back seconds after it was freed: every run is to start from the same.
fn warm_up(plan: &Plan) -> Result<(), Error> {
    let bytes = usize::try_from(plan.most_resident_bytes()).unwrap_or(usize::MAX);
    let mut area =
        Area::map(bytes).map_err(|e| Error::io(format!("mapping {bytes} bytes of memory"), e))?;
    for page in area.words_mut().chunks_mut(WORDS_PER_PAGE) {
        page[0] = 1;
    }
    Ok(())
}

/// An error of the live machine as one of ours: what needs a privilege is missing, not failed.
fn from_linux(error: mega_linux::Error) -> Error {
    let refused = match &error {
        mega_linux::Error::Io { source, .. } => matches!(
            source.kind(),
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
        ),
        _ => false,
    };
    if refused || error.exit_kind() == mega_linux::error::ExitKind::Missing {
        return Error::Missing(format!(
            "{error} (the demo changes the global THP mode for a while and manages a program: run it as root; `mega doctor` shows all it needs)"
        ));
    }
    Error::Failed(error.to_string())
}
