//! Looking at units: their Accessed bits are cleared, and read three times.

use std::ops::Range;
use std::time::Duration;

use mega_core::RegionObservation;
use mega_core::worth::{Batch, Look, Reading, Sampling};

use crate::kernel::{Advice, Kernel};
use crate::observe::tracker::Bits;
use crate::target::Held;
use crate::touches::used::UsedTime;
use crate::{Error, Host};

/// How long a program is slower after its bits were cleared: the TLB was flushed, and what it walks through lies in another
/// CPU's cache. Only then the look begins.
const SETTLING: Duration = Duration::from_micros(300);
/// A look waits for that no longer than for this part of what it waits itself: where pages are touched very often, few would
/// be left that were not touched before it begins.
const SETTLING_PART: u32 = 4;
/// Falling asleep and waking up takes some 50 microseconds, whatever was asked for.
const LEAST_SLEEP: Duration = Duration::from_micros(50);

/// Looks at units of one process, with rests in between.
pub(super) struct Looks<'a> {
    host: &'a Host,
    /// The share of one core that looking may use.
    share: f64,
    /// When to stop, in the middle of a round too.
    end: Duration,
    /// Where the process's CPU time can be asked for.
    used: Option<UsedTime>,
}

/// One unit while it is looked at.
struct Unit {
    index: usize,
    range: Range<u64>,
    is_clear: bool,
    cleared: Duration,
    /// `None` where its bits could not be cleared.
    look: Option<Look>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(host: &'a Host, used: Option<UsedTime>, share: f64, end: Duration) -> Self {
        Looks {
            host,
            share,
            end,
            used,
        }
    }

    /// One round of a sampling, whose units lie at `range`. One that the time did not suffice for does not count.
    ///
    /// # Errors
    /// [`Error::Missing`], or as the tracker and clearing.
    pub(super) fn round(
        &mut self,
        held: &mut Held,
        sampling: &mut Sampling,
        range: impl Fn(usize) -> Range<u64>,
    ) -> Result<(), Error> {
        let kernel = self.kernel();
        for batch in sampling.next_round() {
            if kernel.now() >= self.end {
                return Ok(());
            }
            let used = kernel.thread_cpu_time();
            for unit in self.batch(held, &batch, &range)? {
                if let Some(look) = unit.look {
                    sampling.record(unit.index, &look);
                }
            }
            let used = kernel.thread_cpu_time().saturating_sub(used);
            kernel.sleep(used.mul_f64(1.0 / self.share).saturating_sub(batch.wait));
        }
        sampling.end_round();
        Ok(())
    }

    /// Whether the looks know the process's CPU time; otherwise their time is all that passed.
    pub(super) fn know_cpu_time(&self) -> bool {
        self.used.is_some()
    }

    fn kernel(&self) -> &'a dyn Kernel {
        self.host.kernel().as_ref()
    }

    fn batch(
        &mut self,
        held: &mut Held,
        batch: &Batch,
        range: impl Fn(usize) -> Range<u64>,
    ) -> Result<Vec<Unit>, Error> {
        let mut units: Vec<Unit> = batch
            .units
            .iter()
            .map(|index| Unit {
                index: *index,
                range: range(*index),
                is_clear: false,
                cleared: Duration::ZERO,
                look: None,
            })
            .collect();
        // In address order, as the tracker wants ranges.
        units.sort_by_key(|unit| unit.range.start);
        let before = self.read(held, &units)?.bits;
        held.carried.remember(&before.regions);
        for unit in &mut units {
            let seen = within(&before.regions, &unit.range);
            // What is clear needs no clearing, and its program no flush of the TLB.
            let is_clear = seen.iter().all(|region| region.accessed == 0);
            unit.is_clear = is_clear || self.clear(held, &unit.range)?;
            unit.cleared = self.kernel().now();
        }
        let settling = SETTLING.min(batch.wait / SETTLING_PART);
        if settling >= LEAST_SLEEP {
            self.kernel().sleep(settling);
        }
        let first = self.read(held, &units)?;
        let begun = first.at;
        self.sleep_until(begun + batch.wait / 2);
        let middle = self.read(held, &units)?;
        self.sleep_until(begun + batch.wait);
        let last = self.read(held, &units)?;
        for unit in &mut units {
            unit.look = unit.is_clear.then(|| Look {
                entries: entries(within(&last.bits.regions, &unit.range)),
                cleared: unit.cleared,
                first: first.of(&unit.range),
                middle: middle.of(&unit.range),
                last: last.of(&unit.range),
            });
        }
        Ok(units)
    }

    /// Clears the Accessed bits in whole regions; says whether it did.
    fn clear(&self, held: &Held, range: &Range<u64>) -> Result<bool, Error> {
        if self.host.tracker_clears_itself() {
            let mut seen = Vec::new();
            let ranges = std::slice::from_ref(range);
            self.host
                .tracker()
                .scan(&held.tracked(), ranges, &mut seen)?;
            return Ok(true);
        }
        match self
            .kernel()
            .advise(&held.handle, std::slice::from_ref(range), Advice::Cold)
        {
            Ok(bytes) => Ok(bytes == range.end - range.start),
            Err(error) => match error.raw_os_error() {
                // Unmapped meanwhile, or locked.
                Some(libc::ENOMEM | libc::EINVAL) => Ok(false),
                Some(libc::ESRCH) => Err(Error::Gone {
                    pid: held.process.pid,
                }),
                _ => Err(Error::Io {
                    attempt: format!("clear Accessed bits of process {}", held.process.pid),
                    source: error,
                }),
            },
        }
    }

    /// Reads the bits of all units, and what the process had used then.
    fn read(&mut self, held: &Held, units: &[Unit]) -> Result<Read, Error> {
        let ranges: Vec<Range<u64>> = units.iter().map(|unit| unit.range.clone()).collect();
        let before = self.kernel().now();
        let used = self.used.as_mut().and_then(UsedTime::now);
        let bits = self
            .host
            .tracker()
            .read_bits(&held.tracked(), &ranges)?
            .ok_or_else(|| no_bits(self.host))?;
        let after = self.kernel().now();
        let at = bits.at.unwrap_or(before + (after - before) / 2);
        if self.used.is_some() && used.is_none() {
            return Err(Error::Gone {
                pid: held.process.pid,
            });
        }
        Ok(Read {
            at,
            used: used.unwrap_or(at),
            bits,
        })
    }

    fn sleep_until(&self, time: Duration) {
        let left = time.saturating_sub(self.kernel().now());
        if !left.is_zero() {
            self.kernel().sleep(left);
        }
    }
}

fn no_bits(host: &Host) -> Error {
    Error::Missing {
        feature: "reading the Accessed bits of single pages".to_owned(),
        remedy: format!(
            "the {} tracker cannot do so; `mega doctor` says what the bpf tracker lacks here",
            host.tracker_kind()
        ),
    }
}

/// The regions in a range, of some in address order.
fn within<'a>(regions: &'a [RegionObservation], range: &Range<u64>) -> &'a [RegionObservation] {
    let from = regions.partition_point(|region| region.region.start() < range.start);
    let to = regions.partition_point(|region| region.region.start() < range.end);
    &regions[from..to.max(from)]
}

/// Pages that are mapped, each of whatever size it is.
fn entries(regions: &[RegionObservation]) -> u16 {
    regions
        .iter()
        .map(|region| if region.is_huge() { 1 } else { region.mapped })
        .sum()
}

/// What was read of some units at once.
struct Read {
    at: Duration,
    /// CPU time that the process had used, or the same as `at`.
    used: Duration,
    bits: Bits,
}

impl Read {
    /// What was read of one unit.
    fn of(&self, range: &Range<u64>) -> Reading {
        let regions = &self.bits.regions;
        let from = regions.partition_point(|region| region.region.start() < range.start);
        let inside = within(regions, range);
        let touched = inside.iter().map(|region| match region.is_huge() {
            true => u16::from(region.accessed > 0),
            false => region.accessed,
        });
        let lines = self.bits.lines.iter().skip(from).take(inside.len());
        Reading {
            at: self.at,
            used: self.used,
            touched: touched.sum(),
            lines: lines.sum(),
        }
    }
}
