//! Short jobs, one after the other.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::live::experiments::lines::{GZIP, SORT};
use crate::live::output::output_of;
use crate::live::run::Run;

/// What the jobs read, as a part of a program's memory.
const PART: u64 = 32;

/// Jobs that were done.
pub(super) struct Jobs {
    pub(super) done: u32,
    pub(super) longest: Duration,
    pub(super) elapsed: Duration,
}

/// Runs jobs until the time that is measured is over; the last ends by itself.
///
/// # Errors
/// When one fails, or when interrupted.
pub(super) fn run_jobs(run: &Run<'_>, text: &Path) -> Result<Jobs, Error> {
    let mut jobs = Jobs {
        done: 0,
        longest: Duration::ZERO,
        elapsed: Duration::ZERO,
    };
    let started = Instant::now();
    while jobs.elapsed < run.measured {
        run.interrupt.check()?;
        let began = Instant::now();
        output_of(&mut job(run, text, jobs.done)?)?;
        jobs.longest = jobs.longest.max(began.elapsed());
        jobs.done += 1;
        jobs.elapsed = started.elapsed();
    }
    Ok(jobs)
}

fn job(run: &Run<'_>, text: &Path, number: u32) -> Result<Command, Error> {
    if number.is_multiple_of(2) {
        let mut sort = run.command(SORT.find()?)?;
        sort.env("LC_ALL", "C").arg("--output=/dev/null").arg(text);
        return Ok(sort);
    }
    let mut gzip = run.command("sh")?;
    gzip.args(["-c", r#"exec "$0" -1 --stdout "$1" > /dev/null"#]);
    gzip.arg(GZIP.find()?).arg(text);
    Ok(gzip)
}

/// How much the jobs read where a program has so many bytes.
pub(super) fn bytes(of_a_program: u64) -> u64 {
    of_a_program / PART
}
