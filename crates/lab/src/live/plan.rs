//! How large and how long an experiment's runs are.

use std::time::Duration;

use mega_core::bytes;

use super::experiment::Experiment;
use super::mode::Mode;
use super::results::Settings;
use crate::error::Error;
use crate::mapping::HUGE_PAGE;
use crate::meminfo;

/// The program's memory by default, as a share of what is available.
const SHARE: u64 = 16;
/// The least that shows anything: eight times what 2048 TLB entries for base pages reach.
const LEAST: u64 = 64 << 20;
/// Memory that stays free.
const RESERVE: u64 = 1 << 30;

/// What an experiment will do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Bytes of memory that the program uses, a multiple of 2 MiB.
    pub(super) size: u64,
    pub(super) rounds: u32,
    pub(super) measured: Duration,
    pub(super) interval: Duration,
    pub(super) modes: Vec<Mode>,
    /// Whether the modes' programs exist at once and work in turn.
    pub(super) in_turns: bool,
    /// The most that all processes that exist at once have resident together.
    pub(super) most_resident: u64,
}

/// What the command line asks for; `None` and nothing for the defaults.
#[derive(Clone, Debug)]
pub(super) struct Wishes<'a> {
    pub(super) size: Option<u64>,
    pub(super) rounds: u32,
    pub(super) measured: Duration,
    pub(super) interval: Duration,
    pub(super) modes: &'a [Mode],
}

impl Plan {
    /// Fits the experiment into the memory that is available.
    ///
    /// # Errors
    /// [`Error::Failed`] when memory is too small.
    pub(super) fn new(experiment: &Experiment, wishes: &Wishes<'_>) -> Result<Self, Error> {
        Self::within(meminfo::available()?, experiment, wishes)
    }

    fn within(available: u64, experiment: &Experiment, wishes: &Wishes<'_>) -> Result<Self, Error> {
        let size = wishes.size.unwrap_or(available / SHARE);
        let size = size / HUGE_PAGE as u64 * HUGE_PAGE as u64;
        if size < LEAST {
            return Err(Error::Failed(format!(
                "an experiment needs at least {} for its program, and {} is too small to show anything (--size, or a {SHARE}th of the available memory)",
                bytes::format(LEAST),
                bytes::format(size)
            )));
        }
        let modes = match wishes.modes {
            [] => (experiment.modes)(),
            asked => asked.to_vec(),
        };
        let in_turns = experiment.is_in_turns();
        let at_once = if in_turns { modes.len() as u64 } else { 1 };
        let most_resident = size
            .saturating_mul(u64::from(experiment.most_resident))
            .saturating_mul(at_once);
        if most_resident.saturating_add(RESERVE) > available {
            return Err(Error::Failed(format!(
                "not enough memory: {} with --size {}{} has up to {} resident and leaves {} free, and {} is available; ask for a smaller --size{}",
                experiment.name,
                bytes::format(size),
                if in_turns {
                    format!(" in {at_once} modes at once")
                } else {
                    String::new()
                },
                bytes::format(most_resident),
                bytes::format(RESERVE),
                bytes::format(available),
                if in_turns { " or fewer modes" } else { "" }
            )));
        }
        Ok(Plan {
            size,
            rounds: wishes.rounds,
            measured: wishes.measured,
            interval: wishes.interval,
            modes,
            in_turns,
            most_resident,
        })
    }

    /// How many steps that are: a run each; in turns a start each, and the turns of a round.
    pub(super) fn steps(&self) -> u64 {
        u64::from(self.rounds) * (self.modes.len() as u64 + u64::from(self.in_turns))
    }

    /// As results tell it.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            size_bytes: self.size,
            rounds: self.rounds,
            measured_seconds: self.measured.as_secs_f64(),
            interval_seconds: self.interval.as_secs_f64(),
            in_turns: self.in_turns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::experiments;

    fn plan(available: u64, size: Option<u64>) -> Result<Plan, Error> {
        plan_of("gups", available, size, &[])
    }

    fn plan_of(
        name: &str,
        available: u64,
        size: Option<u64>,
        modes: &[Mode],
    ) -> Result<Plan, Error> {
        let wishes = Wishes {
            size,
            rounds: 3,
            measured: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            modes,
        };
        let experiment = experiments::find(name).unwrap();
        Plan::within(available, experiment, &wishes)
    }

    #[test]
    fn the_size_is_a_share_of_memory_in_whole_huge_pages() {
        assert_eq!(plan(32 << 30, None).unwrap().size, 2 << 30);
        assert_eq!(plan(32 << 30, Some((64 << 20) + 1)).unwrap().size, 64 << 20);
    }

    #[test]
    fn programs_that_take_turns_are_resident_at_once() {
        let modes = [Mode::Base, Mode::Thp, Mode::Base];
        let of = |name, available| plan_of(name, available, Some(1 << 30), &modes);
        let in_turns = of("gups", 4 << 30).unwrap();
        assert!(in_turns.in_turns && in_turns.settings().in_turns);
        assert_eq!((in_turns.most_resident, in_turns.steps()), (3 << 30, 12));
        let one_by_one = of("stride", 4 << 30).unwrap();
        assert_eq!((one_by_one.most_resident, one_by_one.steps()), (1 << 30, 9));
        let error = of("gups", (4 << 30) - 1).unwrap_err().to_string();
        assert!(error.contains("in 3 modes at once"), "{error}");
        assert!(of("stride", (4 << 30) - 1).is_ok());
    }

    #[test]
    fn too_little_and_too_much_are_refused() {
        assert!(plan(512 << 20, None).is_err());
        assert!(plan(32 << 30, Some(1 << 20)).is_err());
        assert!(plan(32 << 30, Some(32 << 30)).is_err());
        assert!(plan(32 << 30, Some(u64::MAX)).is_err());
    }
}
