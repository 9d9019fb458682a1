//! `mega top`: the live view, snapshots of it, and recordings played.

use std::process::ExitCode;

use crate::cli::Top;
use crate::control;
use crate::exit::Failure;
use crate::top::{self, Origin, Recording, SnapshotFile, Source};

pub(super) fn run(args: &Top) -> Result<ExitCode, Failure> {
    if let Some(path) = args.file.as_deref().filter(|path| Recording::is_one(path)) {
        top::play(Recording::open(path)?)?;
    } else if let Some(path) = &args.file {
        top::show_file(SnapshotFile::read(path)?, path)?;
    } else {
        top::show(args.interval, || source(args))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The running managers, if any answers and nobody asked to look by itself.
fn source(args: &Top) -> Result<(Source, Origin), Failure> {
    if args.observe {
        return observe(args, "--observe");
    }
    match control::ask_everyone() {
        Ok((managers, failures)) if managers.is_empty() && failures.is_empty() => {
            observe(args, "no manager runs")
        }
        Ok(_) => Ok((Source::Managers, Origin::Managers)),
        // One's own processes can be looked at all the same.
        Err(Failure::Missing(_)) => observe(args, "may not ask (status_group)"),
        Err(failure) => Err(failure),
    }
}

fn observe(args: &Top, why: &'static str) -> Result<(Source, Origin), Failure> {
    let source = top::observe(args.tracker.kind(), args.interval)?;
    Ok((source, Origin::Observer(why)))
}
