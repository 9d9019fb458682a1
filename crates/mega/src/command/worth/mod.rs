//! `mega worth`: what huge pages would gain a program.

mod measure;
mod obstacles;
mod program;
mod svg;
mod text;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use mega_core::worth::Calibration;
use mega_linux::calibrate::{self, Origin};
use mega_linux::kernel::LiveKernel;
use mega_linux::{Host, HostOptions, process};

use super::named_selection::NamedSelection;
use crate::cli::Worth;
use crate::exit::Failure;
use crate::output;
use crate::report::{SelectionWorthReport, VERSION, WorthReport};
use measure::Meter;
pub(super) use text::gain;

pub(super) fn run(args: &Worth) -> Result<ExitCode, Failure> {
    // A wrong name must not cost a calibration first.
    let select = args
        .select
        .as_deref()
        .map(|name| NamedSelection::load(&args.config, name))
        .transpose()?;
    let host = Arc::new(Host::open(HostOptions::default())?);
    let calibration = calibration()?;
    let meter = Meter::new(Arc::clone(&host), calibration, args.seconds);
    match (args.pid, select) {
        (Some(pid), _) => one(args, &measure_process(&meter, pid)?),
        (None, Some(select)) => selection(args, &host, &meter, select),
        (None, None) => {
            let (code, report) = program::run(&meter, &args.command)?;
            one(args, &report)?;
            Ok(code)
        }
    }
}

/// What touches cost here; measured now where nobody has yet.
fn calibration() -> Result<Calibration, Failure> {
    let progress = output::progress("calibrating", 100);
    let shown = progress.clone();
    let (calibration, origin) = calibrate::load_or_measure(&LiveKernel, &mut move |done| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 100"
        )]
        shown.set_position((done * 100.0) as u64);
    })?;
    progress.finish_and_clear();
    if let Origin::Measured { why, not_kept } = origin {
        output::say(&format!("measured what touches cost here, as {why}"));
        if let Some(why) = not_kept {
            output::say(&format!("the calibration is not kept: {why}"));
        }
    }
    Ok(calibration)
}

fn measure_process(meter: &Meter, pid: u32) -> Result<WorthReport, Failure> {
    let process = process::identify(&LiveKernel, pid)?;
    let _claim = meter.claim(process)?;
    let progress = output::progress("measuring", 1);
    let report = meter.measure(process);
    progress.finish_and_clear();
    report
}

fn one(args: &Worth, report: &WorthReport) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.svg {
        write_picture(file, std::slice::from_ref(report))?;
    }
    if args.json {
        output::print_json(report)?;
    } else {
        output::print(&text::in_words(report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures all processes that a selection of the daemon's configuration takes, one after the other.
fn selection(
    args: &Worth,
    host: &Host,
    meter: &Meter,
    mut select: NamedSelection,
) -> Result<ExitCode, Failure> {
    let name = select.name().to_owned();
    let mut processes = Vec::new();
    for process in select.members(host)? {
        match measure_process(meter, process.pid) {
            Ok(report) => processes.push(report),
            // One of many: the others are measured all the same.
            Err(Failure::Failed(why)) => output::say(&why),
            Err(other) => return Err(other),
        }
    }
    if processes.is_empty() {
        return Err(Failure::Failed(format!(
            "no process of the select '{name}' could be measured"
        )));
    }
    if let Some(file) = &args.svg {
        write_picture(file, &processes)?;
    }
    if args.json {
        output::print_json(&SelectionWorthReport {
            version: VERSION,
            select: name,
            processes,
        })?;
    } else {
        let texts: Vec<String> = processes.iter().map(text::in_words).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_picture(file: &Path, reports: &[WorthReport]) -> Result<(), Failure> {
    std::fs::write(file, svg::draw(reports)).map_err(|error| {
        Failure::Failed(format!(
            "cannot write the picture to {}: {error}",
            file.display()
        ))
    })
}
