//! How large and how long the demo's runs are.

use std::time::Duration;

use mega_core::bytes;

use super::mode::Mode;
use crate::error::Error;
use crate::meminfo;

/// Every mode runs this often; the figures are medians.
const ROUNDS: u32 = 3;
/// How many modes a round runs.
const MODES: f64 = Mode::ALL.len() as f64;
/// The largest area by default.
const LARGEST: u64 = 1 << 30;
/// The smallest: well past the reach of 2048 TLB entries for base pages.
const SMALLEST: u64 = 64 << 20;
/// Seconds that a run takes beside the measured part, per GiB: warming up, growing and checking the memory.
const SECONDS_PER_GIB: f64 = 3.0;
/// Seconds until everything is promoted, per GiB: 512 regions of about 1.5 ms within a quarter of a core.
const SETTLE_SECONDS_PER_GIB: f64 = 4.0;
/// Seconds until the manager's first decisions.
const FIRST_DECISIONS_SECONDS: f64 = 2.0;
/// The shortest part of a run that is measured, in seconds.
const SHORTEST_MEASURED: f64 = 1.0;

/// What the demo will do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Whether the machine is a simulated one.
    pub(super) simulated: bool,
    /// Bytes of the dense area, and of the sparse one.
    pub(super) size: u64,
    /// Rounds of all modes.
    pub(super) rounds: u32,
    /// How long the program's speed is measured in each run, once it has settled.
    pub(super) measured: Duration,
}

impl Plan {
    /// Fits the demo into the memory that is available and about `seconds`.
    ///
    /// # Errors
    /// [`Error::Failed`] when memory is too small.
    pub(super) fn new(size: Option<u64>, seconds: u32) -> Result<Self, Error> {
        Self::within(meminfo::available()?, size, seconds)
    }

    /// The same on a simulated machine with so much memory. One round is enough: each would be the same.
    ///
    /// # Errors
    /// [`Error::Failed`] when memory is too small.
    pub(super) fn simulated(memory: u64, size: Option<u64>) -> Result<Self, Error> {
        Ok(Plan {
            simulated: true,
            rounds: 1,
            ..Self::within(memory, size, 0)?
        })
    }

    fn within(available: u64, size: Option<u64>, seconds: u32) -> Result<Self, Error> {
        let size = size.unwrap_or((available / 8).min(LARGEST));
        if size < SMALLEST {
            return Err(Error::Failed(format!(
                "the demo needs at least {} for its program, and {} is too small to show anything (an eighth of the available memory, or --size)",
                bytes::format(SMALLEST),
                bytes::format(size)
            )));
        }
        // Under THP always both areas are resident; a quarter more leaves the rest of the machine room.
        let needed = size.saturating_mul(5) / 2;
        if needed > available {
            return Err(Error::Failed(format!(
                "not enough memory: --size {} needs {} available, and {} is",
                bytes::format(size),
                bytes::format(needed),
                bytes::format(available)
            )));
        }
        let per_round = f64::from(seconds) / f64::from(ROUNDS) - beside_measured(size);
        let measured = (per_round / MODES).max(SHORTEST_MEASURED);
        Ok(Plan {
            simulated: false,
            size,
            rounds: ROUNDS,
            measured: Duration::from_secs_f64(measured),
        })
    }

    /// How long the manager has at most until everything is promoted: three times what it should need.
    pub(super) fn longest_settle(&self) -> Duration {
        Duration::from_secs_f64(3.0 * settle_seconds(self.size))
    }

    /// The most that the program can have resident in its areas.
    pub(super) fn most_resident_bytes(&self) -> u64 {
        self.size.saturating_mul(2)
    }

    /// Seconds that all of it takes, about.
    pub(super) fn total_seconds(&self) -> f64 {
        f64::from(self.rounds) * (MODES * self.measured.as_secs_f64() + beside_measured(self.size))
    }
}

/// Seconds of a round of all modes in which nothing is measured, about.
fn beside_measured(size: u64) -> f64 {
    MODES * SECONDS_PER_GIB * gib(size) + settle_seconds(size)
}

/// Seconds that a run under the manager needs until everything is promoted, about.
fn settle_seconds(size: u64) -> f64 {
    FIRST_DECISIONS_SECONDS + SETTLE_SECONDS_PER_GIB * gib(size)
}

#[allow(clippy::cast_precision_loss)]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_an_eighth_of_memory_and_one_gib_at_most() {
        let size = |available| Plan::within(available, None, 60).map(|plan| plan.size).ok();
        assert_eq!(size(4 << 30), Some(512 << 20));
        assert_eq!(size(64 << 30), Some(1 << 30));
        assert_eq!(size(256 << 20), None);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(Plan::within(1 << 30, Some(1 << 30), 60).is_err());
        assert!(Plan::within(1 << 30, Some(u64::MAX), 60).is_err());
    }

    #[test]
    fn it_takes_about_as_long_as_asked() {
        let plan = Plan::within(64 << 30, None, 60).unwrap();
        assert!((50.0..70.0).contains(&plan.total_seconds()));
    }
}
