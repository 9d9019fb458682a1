//! Looking at units: their Accessed bits are cleared, and read three times.

use std::ops::Range;
use std::time::Duration;

use mega_core::RegionObservation;
use mega_core::worth::{Batch, Look, Reading, Sampling};

use crate::kernel::{Advice, Kernel};
use crate::observe::tracker::Bits;
use crate::process::target::Held;
use crate::{Error, Host};

/// A look at a unit tells nothing where clearing its bits took longer than this share of the wait: the meter was not
/// running meanwhile, and who knows when each bit was cleared.
const LONGEST_CLEARING: f64 = 2.0;

/// Looks at units of one process, with rests in between.
pub(super) struct Looks<'a> {
    host: &'a Host,
    /// The share of one core that looking may use.
    share: f64,
    /// When to stop, in the middle of a round too.
    end: Duration,
}

/// One unit while it is looked at.
struct Unit {
    index: usize,
    range: Range<u64>,
    look: Option<Look>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(host: &'a Host, share: f64, end: Duration) -> Self {
        Looks { host, share, end }
    }

    /// One round of a sampling, whose units lie at `range`. One that the time did not suffice for does not count.
    ///
    /// # Errors
    /// [`Error::Missing`], or as the tracker and clearing.
    pub(super) fn round(
        &self,
        held: &mut Held,
        sampling: &mut Sampling,
        range: impl Fn(usize) -> Range<u64>,
    ) -> Result<(), Error> {
        let kernel = self.kernel();
        for batch in sampling.next_round() {
            if kernel.now() >= self.end {
                return Ok(());
            }
            let used = kernel.cpu_time();
            for unit in self.batch(held, &batch, &range)? {
                if let Some(look) = unit.look {
                    sampling.record(unit.index, &look);
                }
            }
            let used = kernel.cpu_time().saturating_sub(used);
            kernel.sleep(used.mul_f64(1.0 / self.share).saturating_sub(batch.wait));
        }
        sampling.end_round();
        Ok(())
    }

    fn kernel(&self) -> &'a dyn Kernel {
        self.host.kernel().as_ref()
    }

    fn batch(
        &self,
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
                look: None,
            })
            .collect();
        // In address order, as the tracker wants ranges.
        units.sort_by_key(|unit| unit.range.start);
        let before = self.read(held, &units)?;
        held.carried.remember(&before.regions);
        for unit in &mut units {
            let seen = within(&before.regions, &unit.range);
            unit.look = self.begin(held, unit, seen, batch.wait)?;
        }
        let begun = self.kernel().now();
        self.sleep_until(begun + batch.wait / 2);
        let middle = self.read(held, &units)?;
        self.sleep_until(begun + batch.wait);
        let last = self.read(held, &units)?;
        for unit in &mut units {
            unit.end(&middle, &last);
        }
        Ok(units)
    }

    /// Clears a unit's bits and takes the first reading. `None` where that did not go as it should.
    fn begin(
        &self,
        held: &Held,
        unit: &Unit,
        seen: &[RegionObservation],
        wait: Duration,
    ) -> Result<Option<Look>, Error> {
        let kernel = self.kernel();
        let started = kernel.now();
        // What is clear needs no clearing, and its program no flush of the TLB.
        if seen.iter().any(|region| region.accessed > 0) && !self.clear(held, &unit.range)? {
            return Ok(None);
        }
        let bits = self.read(held, std::slice::from_ref(unit))?;
        let first = reading(&bits, &unit.range);
        let took = first.at.saturating_sub(started);
        let is_prompt = took <= wait.mul_f64(LONGEST_CLEARING).max(Duration::from_millis(1));
        Ok(is_prompt.then_some(Look {
            first,
            ..Look::default()
        }))
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

    fn read(&self, held: &Held, units: &[Unit]) -> Result<Bits, Error> {
        let ranges: Vec<Range<u64>> = units.iter().map(|unit| unit.range.clone()).collect();
        let before = self.kernel().now();
        let mut bits = self
            .host
            .tracker()
            .read_bits(&held.tracked(), &ranges)?
            .ok_or_else(|| no_bits(self.host))?;
        let after = self.kernel().now();
        bits.at = Some(bits.at.unwrap_or(before + (after - before) / 2));
        Ok(bits)
    }

    fn sleep_until(&self, time: Duration) {
        let left = time.saturating_sub(self.kernel().now());
        if !left.is_zero() {
            self.kernel().sleep(left);
        }
    }
}

impl Unit {
    fn end(&mut self, middle: &Bits, last: &Bits) {
        let Some(look) = &mut self.look else {
            return;
        };
        look.entries = entries(within(&last.regions, &self.range));
        look.middle = reading(middle, &self.range);
        look.last = reading(last, &self.range);
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

/// What was read of a unit.
fn reading(bits: &Bits, range: &Range<u64>) -> Reading {
    let from = bits
        .regions
        .partition_point(|region| region.region.start() < range.start);
    let regions = within(&bits.regions, range);
    let touched = regions.iter().map(|region| match region.is_huge() {
        true => u16::from(region.accessed > 0),
        false => region.accessed,
    });
    let lines = bits.lines.iter().skip(from).take(regions.len());
    Reading {
        at: bits.at.unwrap_or_default(),
        touched: touched.sum(),
        lines: lines.sum(),
    }
}
