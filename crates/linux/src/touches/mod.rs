//! The touch meter: how often a process touches pages, without counters and without knowing the program.
//!
//! It clears the Accessed bits of a few regions, waits about a millisecond, and reads them back. Which regions, how long,
//! and what all of it together tells is decided in [`mega_core::worth`]; here it is done. A program notices that its TLB is
//! flushed at each clearing, and that the processor sets the bits again; the meter rests in between so that this stays
//! within [`Effort::share`].

mod looks;
mod report;
mod units;
mod used;

pub use mega_core::worth::Effort;
use mega_core::worth::{Sampling, Touches, touches};

use crate::target::Held;
use crate::{Error, Host};

use looks::Looks;
use units::Units;
pub(crate) use used::UsedProgram;
use used::UsedTime;

/// Measures how often a process touches pages. Of its memory nothing changes but Accessed bits, and those that were set are
/// remembered for the next observation.
///
/// # Errors
/// [`Error::Missing`] where no tracker reads single pages' Accessed bits, or nothing may be written; otherwise as a tracker.
pub(crate) fn measure(host: &Host, held: &mut Held, effort: Effort) -> Result<Touches, Error> {
    let kernel = host.kernel().as_ref();
    let units = Units::find(host, held)?;
    let mut base = Sampling::new(&units.base_entries(), &effort, effort.seed);
    let mut huge = Sampling::new(&units.huge_entries(), &effort, !effort.seed);
    let used = |held: &Held| {
        let pid = held.process.pid;
        kernel.cpu_time_of(pid).map_err(|_| Error::Gone { pid })
    };
    let started = kernel.now();
    let used_before = used(held)?;
    let threads = crate::process::stat(kernel, held.process.pid)?.threads;
    let exact = host
        .used_program()
        .and_then(|program| UsedTime::open(program, held.process.pid, threads));
    let _reading = Reading(host);
    let mut looks = Looks::new(host, exact, effort.share, started + effort.at_most);
    while kernel.now().saturating_sub(started) < effort.at_most
        && !(effort.is_met(&base) && effort.is_met(&huge))
    {
        looks.round(held, &mut base, |unit| units.base(unit))?;
        looks.round(held, &mut huge, |unit| units.huge(unit))?;
    }
    let passed = kernel.now().saturating_sub(started).as_secs_f64();
    let used = used(held)?.saturating_sub(used_before).as_secs_f64();
    let cpu_share = used / passed;
    let per_cpu_second = touches::per_cpu_second(cpu_share, looks.know_cpu_time());
    report::report(
        host,
        held,
        &units,
        [&base, &huge],
        cpu_share,
        per_cpu_second,
    )
}

/// While a process's bits are read again and again.
struct Reading<'a>(&'a Host);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.tracker().end_reading();
    }
}
