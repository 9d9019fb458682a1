//! `mega doctor`: what this kernel and these privileges allow, and what touches cost on this machine.

mod calibration;
mod picture;

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use mega_core::worth::Calibration;
use mega_linux::doctor::{self, Examination, State};
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::stale;
use serde::Serialize;

use super::worth_doing::{Situation, worth_doing};
use crate::cli::Doctor;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;

/// What puts back what a killed mega left changed.
const PUTS_BACK: &str =
    "the next `mega run`, `mega daemon` or `mega doctor --restore` puts it back";

/// What `mega doctor --json` prints.
#[derive(Serialize)]
struct Report<'e> {
    version: u32,
    /// Whether mega can manage programs here.
    usable: bool,
    #[serde(flatten)]
    examination: &'e Examination,
    /// What touches cost on this machine; `null` where that was not measured yet.
    calibration: Option<&'e Calibration>,
    /// Why there is none.
    calibration_unknown: Option<&'e str>,
    /// The three things worth doing here, the most important first.
    worth_doing: Vec<String>,
}

pub(super) fn run(args: &Doctor) -> Result<ExitCode, Failure> {
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    if args.restore {
        let put_back = stale::put_back(kernel.as_ref(), &RunDir::open()?)?;
        if put_back.is_empty() {
            output::say("nothing to put back");
        }
        for what in put_back {
            output::say(&format!("put back {what}"));
        }
    }
    let examination = doctor::examine(&kernel);
    let verdict = examination.require();
    let calibration = if args.calibrate {
        Ok(calibration::make(kernel.as_ref())?)
    } else {
        calibration::kept(kernel.as_ref())?
    };
    if let Some(file) = &args.svg {
        calibration::draw(&calibration, file)?;
    }
    let worth_doing = worth_doing(&examination, &Situation::look(kernel.as_ref()));
    if args.json {
        let usable = verdict.is_ok();
        output::print_json(&Report {
            version: VERSION,
            usable,
            examination: &examination,
            calibration: calibration.as_ref().ok(),
            calibration_unknown: calibration.as_ref().err().map(String::as_str),
            worth_doing,
        })?;
    } else {
        let parts = [
            in_words(&examination),
            calibration::in_words(&calibration),
            list(&worth_doing),
        ];
        output::print(&parts.join("\n"))?;
    }
    verdict?;
    Ok(ExitCode::SUCCESS)
}

/// The things worth doing, numbered.
fn list(things: &[String]) -> String {
    let mut text = String::from("Worth doing here, in this order:\n");
    for (thing, number) in things.iter().zip(1..) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {number}. {thing}.");
    }
    text
}

fn in_words(examination: &Examination) -> String {
    let mut text = format!("Linux {}\n\n", examination.kernel_release);
    for feature in &examination.features {
        let state = match feature.state {
            State::Available => "available",
            State::Missing => "missing",
            State::Unknown => "unknown",
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{state:<10} {}: {}", feature.name, feature.seen);
        if feature.state != State::Available {
            let weight = if feature.required {
                "Required for"
            } else {
                "Used for"
            };
            let _ = writeln!(text, "{:11}{weight} {}.", "", feature.needed_for);
            let _ = writeln!(text, "{:11}Without it: {}.", "", feature.cost_if_missing);
            let _ = writeln!(text, "{:11}To get it: {}.", "", feature.remedy);
        }
    }
    let tracker = examination
        .tracker
        .chosen
        .map_or("none", |kind| kind.name());
    let _ = writeln!(text, "\ntracker: {tracker} ({})", examination.tracker.why);
    if let Some(faults) = &examination.faults {
        let _ = writeln!(
            text,
            "faults take {} (`{}` in {})",
            faults.take,
            faults.thp_mode,
            faults.setting.display()
        );
        if let Some(advice) = &faults.advice {
            let _ = writeln!(text, "{:11}For base pages: {advice}.", "");
        }
    }
    for consumer in &examination.other_consumers {
        let _ = writeln!(text, "also at work: {consumer}");
    }
    if let Some(stale) = &examination.stale_state {
        let _ = writeln!(
            text,
            "left by a killed mega: the THP mode is {}, it was {}; {PUTS_BACK}",
            stale.set, stale.original
        );
    }
    for stale in &examination.stale_settings {
        let path = stale.path.display();
        let _ = writeln!(
            text,
            "left by a killed mega: {path} is {}, it was {}; {PUTS_BACK}",
            stale.set, stale.original
        );
    }
    if let Some(why) = &examination.stale_unknown {
        let _ = writeln!(text, "what killed megas left changed is not known: {why}");
    }
    text
}
