//! `mega lab live worth`: what mega says huge pages would save each program, against what they then save it.
//!
//! A program runs on base pages. mega measures how often it touches pages and predicts from that what huge pages would
//! save. Then all of its memory is made huge and broken up again, several times, while it runs on: its CPU time for each
//! operation with huge pages against that with base pages right before and after is the truth.
//!
//! What was broken up lies in neighbouring frames, which at first a program's memory does in part only. So mega predicts twice: as it finds the program,
//! against which stands one pair of windows, and once it was broken up, for the turns.

mod asked;
mod duckdb;
mod judge;
mod mariadb;
mod program;
mod report;
mod results;
mod running;
mod scatter;
mod sqlite;
mod truth;
mod turns;
mod twins;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mega_core::bytes;
use mega_core::worth::{Calibration, Estimate, Worth, predict};
use mega_linux::kernel::LiveKernel;
use mega_linux::touches::Effort;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, calibrate, process};

use super::cpus::Placement;
use super::globals::Globals;
use super::machine::Machine;
use super::mode::Mode;
use super::run::Run;
use super::runner::scratch;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::warm_up::warm_up;
use program::Program;
use results::{AsFound, ProgramResult, Results};
use running::Running;
use turns::Window;

/// What the command line calls it.
pub(super) const NAME: &str = "worth";
/// What it asks, in one line.
pub(super) const TITLE: &str = "what mega says huge pages would save, against what they save";

/// How hard mega tries: longer than by default, as other programs keep the lab's CPU busy.
const EFFORT: Effort = Effort {
    at_most: Duration::from_secs(8),
    precision: 0.05,
    share: 0.01,
    seed: 1,
};
/// How long a program works before it is measured.
const WARM_UP: Duration = Duration::from_secs(2);

/// What is asked for.
pub(super) struct Wishes {
    /// Names of programs; all where there are none.
    pub(super) programs: Vec<String>,
    /// Bytes of memory of each program.
    pub(super) size: u64,
    /// How often each program gets huge pages.
    pub(super) rounds: u32,
    /// How long each state is measured.
    pub(super) measured: Duration,
    /// The folder in which the results' own folder lies.
    pub(super) out: PathBuf,
}

/// The names of all programs.
pub(super) fn names() -> Vec<&'static str> {
    Program::ALL.iter().map(|program| program.name).collect()
}

/// Runs it, writes the results, and returns them as text, or as JSON.
///
/// # Errors
/// When a program is missing, fails or finds its data wrong, when mega cannot measure, or when interrupted.
pub(super) fn run(
    wishes: &Wishes,
    json: bool,
    globals: &Globals,
    interrupt: &Interrupt,
) -> Result<String, Error> {
    let chosen: Vec<&Program> = Program::ALL
        .iter()
        .filter(|program| {
            wishes.programs.is_empty() || wishes.programs.iter().any(|name| name == program.name)
        })
        .collect();
    for needed in chosen.iter().flat_map(|program| program.needs()) {
        needed.find()?;
    }
    let measuring = Measuring::open()?;
    let mut found = Vec::new();
    for program in chosen {
        eprintln!("mega lab: {NAME}: {}", program.name);
        // Base pages at every fault, and no khugepaged, whatever the program asks for.
        let held = globals.set(&Mode::Base)?;
        let result = one(program, wishes, &measuring, interrupt);
        held.put_back()?;
        interrupt.check()?;
        found.push(result.map_err(|error| in_program(program, error))?);
        // Each as soon as it is there: the others may take long.
        report::write(&wishes.out, measuring.results(found.clone()))?;
    }
    let all = report::read(&wishes.out)?.unwrap_or_else(|| measuring.results(found));
    if json {
        return all.to_json();
    }
    Ok(report::in_words(&all))
}

fn in_program(program: &Program, error: Error) -> Error {
    let text = format!("{NAME}, {}: {error}", program.name);
    match error {
        Error::Missing(_) => Error::Missing(text),
        Error::Failed(_) | Error::Io { .. } => Error::Failed(text),
    }
}

fn one(
    program: &Program,
    wishes: &Wishes,
    measuring: &Measuring,
    interrupt: &Interrupt,
) -> Result<ProgramResult, Error> {
    warm_up(2 * wishes.size)?;
    let scratch = scratch()?;
    let run = Run {
        mode: &Mode::Base,
        placement: Placement::Apart,
        size: wishes.size,
        measured: wishes.measured.max(program.least_window(wishes.size)),
        interval: Duration::from_secs(1),
        seed: 1,
        scratch: scratch.path(),
        interrupt,
    };
    let running = Running::start(program, &run)?;
    run.sleep(WARM_UP)?;
    let looked = look(&run, &running, wishes.rounds, measuring);
    let looked = match looked {
        Ok(looked) => looked,
        // A program that has failed says why.
        Err(error) => return Err(running.finish(&run, &[]).err().unwrap_or(error)),
    };
    let measured = running.finish(&run, &looked.windows)?;
    let (first, turns) = measured.split_at(turns::PAIR);
    let saved = truth::saved(turns).ok_or_else(|| {
        Error::Failed("it did nothing while it was measured; give it more --seconds".to_owned())
    })?;
    let result = ProgramResult::new(
        program.name,
        &run,
        wishes.rounds,
        &looked.broken_up,
        &measuring.calibration,
        saved,
        turns,
    );
    Ok(ProgramResult {
        as_found: Some(AsFound::new(&looked.as_found, first)),
        ..result
    })
}

/// What was seen of a program.
struct Looked {
    /// The prediction for it as it was found.
    as_found: Worth,
    /// The one once its memory had been huge.
    broken_up: Worth,
    /// The first [`turns::PAIR`] windows, and those of the turns.
    windows: Vec<Window>,
}

fn look(
    run: &Run<'_>,
    running: &Running,
    rounds: u32,
    measuring: &Measuring,
) -> Result<Looked, Error> {
    let as_found = measuring.predict(running.pid())?;
    let mut windows = Vec::from(turns::pair(run, running)?);
    let broken_up = measuring.predict(running.pid())?;
    windows.extend(turns::take(run, running, rounds)?);
    Ok(Looked {
        as_found,
        broken_up,
        windows,
    })
}

/// What a prediction takes.
struct Measuring {
    host: Arc<Host>,
    calibration: Calibration,
}

impl Measuring {
    fn open() -> Result<Self, Error> {
        let failed = |error: &mega_linux::Error| {
            Error::from_linux(error, "this experiment looks at programs' Accessed bits")
        };
        let host = Host::open(HostOptions::default()).map_err(|error| failed(&error))?;
        let (calibration, origin) =
            calibrate::load_or_measure(&LiveKernel, &mut |_| ()).map_err(|error| failed(&error))?;
        if let calibrate::Origin::Measured { why, .. } = origin {
            eprintln!("mega lab: measured what touches cost on this machine, as {why}");
        }
        Ok(Measuring {
            host: Arc::new(host),
            calibration,
        })
    }

    fn predict(&self, pid: u32) -> Result<Worth, Error> {
        let failed = |error: mega_linux::Error| Error::Failed(error.to_string());
        let process = process::identify(&LiveKernel, pid).map_err(failed)?;
        let mut machine = LinuxMachine::new(Arc::clone(&self.host), MachineOptions::default());
        machine.set_targets(vec![process]);
        let touches = machine.measure_touches(process, EFFORT).map_err(failed)?;
        Ok(predict(&touches, &self.calibration))
    }

    fn results(&self, programs: Vec<ProgramResult>) -> Results {
        Results::of(Machine::this(), programs, vec![self.calibration.clone()])
    }
}

/// The size by default: a sixteenth of what is available, as of the other experiments, and at least 1 GiB where a
/// quarter of it is that much.
///
/// # Errors
/// When `/proc` cannot be read.
pub(super) fn default_size() -> Result<u64, Error> {
    let available = crate::meminfo::available()?;
    let size = (available / 16).max((available / 4).min(1 << 30));
    Ok(size / mega_core::HUGE_PAGE_SIZE * mega_core::HUGE_PAGE_SIZE)
}

/// A number of bytes in words.
fn in_bytes(size: u64) -> String {
    bytes::format(size)
}

/// A share in per cent, with its interval.
fn percent(share: Estimate) -> String {
    let Estimate { value, low, high } = share.scaled(100.0);
    format!("{value:.1} % ({low:.1} to {high:.1})")
}
