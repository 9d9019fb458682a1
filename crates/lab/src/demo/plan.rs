//! How large and how long the demo's runs are.

use std::fs;

use super::mode::Mode;
use crate::bytes;
use crate::error::Error;

/// Every mode runs this often; the figures are medians.
const ROUNDS: u32 = 3;
/// The largest area by default.
const LARGEST: u64 = 1 << 30;
/// The smallest: well past the reach of 2048 TLB entries for base pages.
const SMALLEST: u64 = 64 << 20;
/// Seconds that a run takes beside the timed part, per GiB: warming up, growing and checking the memory.
const SECONDS_PER_GIB: f64 = 2.0;

/// What the demo will do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Bytes of the dense area, and of the sparse one.
    pub(super) size: u64,
    /// Rounds of all modes.
    pub(super) rounds: u32,
    /// Seconds of random access in one round of all modes.
    round_seconds: f64,
}

impl Plan {
    /// Fits the demo into the memory that is available and about `seconds`.
    ///
    /// # Errors
    /// [`Error::Failed`] when memory is too small.
    pub(super) fn new(size: Option<u64>, seconds: u32) -> Result<Self, Error> {
        Self::within(available()?, size, seconds)
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
        let overhead = 3.0 * SECONDS_PER_GIB * gib(size);
        let per_round = f64::from(seconds) / f64::from(ROUNDS) - overhead;
        Ok(Plan {
            size,
            rounds: ROUNDS,
            round_seconds: per_round.max(3.0),
        })
    }

    /// Seconds of random access in one run. Under mega it takes a few intervals until everything is promoted.
    pub(super) fn run_seconds(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Base | Mode::ThpAlways => self.round_seconds * 0.2,
            Mode::Mega => self.round_seconds * 0.6,
        }
    }

    /// The most that the program can have resident in its areas.
    pub(super) fn most_resident_bytes(&self) -> u64 {
        self.size.saturating_mul(2)
    }

    /// Seconds that all of it takes, about.
    pub(super) fn total_seconds(&self) -> f64 {
        let overhead = 3.0 * f64::from(self.rounds) * SECONDS_PER_GIB * gib(self.size);
        self.round_seconds * f64::from(self.rounds) + overhead
    }
}

#[allow(clippy::cast_precision_loss)]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// `MemAvailable` in bytes.
fn available() -> Result<u64, Error> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).map_err(|e| Error::io(format!("reading {path}"), e))?;
    text.lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map(|kib| kib.saturating_mul(1024))
        .ok_or_else(|| Error::Failed(format!("{path} has no MemAvailable line")))
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
