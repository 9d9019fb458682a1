//! How many huge and giant pages this machine could give: `machine` in `mega coverage --json`.

use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::{
    BestRatio, CompactionPolicy, Mechanism, PhysicalObservation, Supply, TwoScanners,
};
use mega_linux::Error;
use mega_linux::kernel::{Kernel, LiveKernel, ReadOnly};
use mega_linux::physical::{PhysicalMemory, Source, buddyinfo};
use serde::Serialize;

use crate::exit::Failure;

/// The time for which compaction is forecast.
const TIME: Duration = Duration::from_secs(60);

/// How many pages there could be, of one kind or the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MachineSupply {
    pub(crate) now: Now,
    /// After a minute of compaction; `null` where `unknown` says why.
    pub(crate) within_a_minute: Option<Supply>,
    /// Who would compact: `module` or `kernel`.
    pub(crate) by: Option<&'static str>,
    /// Free blocks by order, from 4 KiB on.
    pub(crate) free_areas: Vec<u64>,
    pub(crate) unknown: Option<String>,
}

/// What is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Now {
    pub(crate) huge: u64,
    /// `null` where each block cannot be looked at.
    pub(crate) giant: Option<u64>,
}

impl MachineSupply {
    /// Looks, and changes nothing.
    ///
    /// # Errors
    /// Where not even the free lists can be read.
    pub(crate) fn look() -> Result<Self, Failure> {
        let kernel: Arc<dyn Kernel> = Arc::new(ReadOnly(LiveKernel));
        let free_areas = buddyinfo::total(&buddyinfo::read(kernel.as_ref())?);
        let seen = PhysicalMemory::open(kernel).and_then(|mut memory| {
            let source = memory.source();
            Ok((source, memory.observe(&mut |_, _| ())?))
        });
        match seen {
            Ok((source, observation)) => Ok(Self::of(source, &observation, free_areas)),
            Err(why @ Error::Missing { .. }) => Ok(MachineSupply {
                now: Now {
                    huge: blocks(&free_areas),
                    giant: None,
                },
                within_a_minute: None,
                by: None,
                free_areas,
                unknown: Some(why.to_string()),
            }),
            Err(error) => Err(error.into()),
        }
    }

    fn of(source: Source, observation: &PhysicalObservation, free_areas: Vec<u64>) -> Self {
        let (by, mut policy): (_, Box<dyn CompactionPolicy>) = match source {
            Source::Module => ("module", Box::new(BestRatio::default())),
            Source::PageFlags => ("kernel", Box::new(TwoScanners)),
        };
        let now = Supply::now(observation);
        let pages = pages_in_time(policy.as_ref());
        let later = Supply::after(observation, policy.as_mut(), pages);
        MachineSupply {
            now: Now {
                huge: now.huge,
                giant: Some(now.giant),
            },
            within_a_minute: Some(later),
            by: Some(by),
            free_areas,
            unknown: None,
        }
    }

    /// In two lines.
    pub(crate) fn in_words(&self) -> String {
        let giant = |count: u64| match count {
            1 => "1 giant page".to_owned(),
            count => format!("{count} giant pages"),
        };
        let mut text = format!("this machine could give {} huge pages", self.now.huge);
        if let Some(count) = self.now.giant {
            text += &format!(" or {}", giant(count));
        }
        text += " now; ";
        text += &match (&self.within_a_minute, &self.unknown) {
            (Some(later), _) => format!(
                "{} or {} within a minute of compaction by the {}",
                later.huge,
                giant(later.giant),
                self.by.unwrap_or("kernel")
            ),
            (None, Some(why)) => format!("what compaction could make is not known: {why}"),
            (None, None) => "what compaction could make is not known".to_owned(),
        };
        let areas: Vec<String> = self.free_areas.iter().map(u64::to_string).collect();
        text + &format!(
            "\nfree blocks by order, from 4 KiB to {}: {}\n",
            mega_core::bytes::format(
                mega_core::BASE_PAGE_SIZE << self.free_areas.len().saturating_sub(1).min(50)
            ),
            areas.join(" ")
        )
    }
}

/// Free blocks of 2 MiB in these free lists.
fn blocks(free_areas: &[u64]) -> u64 {
    let large = free_areas.iter().skip(mega_core::compaction::HUGE_ORDER);
    large
        .enumerate()
        .map(|(order, count)| count << order.min(32))
        .sum()
}

/// Base pages that a policy moves in that time; the kernel's own compaction has no budget.
fn pages_in_time(policy: &dyn CompactionPolicy) -> u64 {
    match policy.mechanism() {
        Mechanism::Kernel => u64::MAX,
        Mechanism::Targeted => {
            let periods = TIME.as_secs_f64() / policy.period().as_secs_f64();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let periods = periods as u64;
            policy.budget_pages().saturating_mul(periods)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_twelve_periods_of_megas_compaction() {
        assert_eq!(pages_in_time(&BestRatio::default()), 12 * 51_200);
        assert_eq!(pages_in_time(&TwoScanners), u64::MAX);
    }

    #[test]
    fn the_words_say_now_and_later() {
        let mut supply = MachineSupply {
            now: Now {
                huge: 31,
                giant: Some(0),
            },
            within_a_minute: Some(Supply {
                huge: 1204,
                giant: 1,
            }),
            by: Some("module"),
            free_areas: vec![9, 8, 7],
            unknown: None,
        };
        assert_eq!(
            supply.in_words(),
            "this machine could give 31 huge pages or 0 giant pages now; 1204 or 1 giant page within a minute of compaction by the module\nfree blocks by order, from 4 KiB to 16 KiB: 9 8 7\n"
        );
        supply.within_a_minute = None;
        supply.unknown = Some("run as root".to_owned());
        assert!(supply.in_words().contains("not known: run as root"));
    }

    #[test]
    fn blocks_of_higher_orders_count_more() {
        let mut areas = vec![5; 9];
        areas.extend([3, 2]);
        assert_eq!(blocks(&areas), 7);
    }
}
