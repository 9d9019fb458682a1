//! Contiguity ahead of demand: how many blocks to empty before promotions ask for them.
//!
//! A promotion that finds no free block either fails or makes the kernel compact on the spot, with the
//! target's mmap lock held. So between two steps the manager compares the promotions that the next one will ask
//! for with the free blocks there are, and empties the difference, within the compaction policy's budget for
//! its period.

use std::time::Duration;

use super::block::Unit;
use super::compactor::{Compactor, Emptied};
use super::goal::Goal;
use super::{CompactionPolicy, Mechanism};
use crate::action::Cause;
use crate::engine::Totals;

/// What the promotions to come need of physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Promotions that the policy wants and that are not made yet, each of which takes a free block.
    pub promotions: u64,
    /// Blocks to keep free beyond that, for page faults and for what is wanted next.
    pub headroom: u64,
}

impl Demand {
    /// What the next step will ask for, judged by what `done` says of the last: the promotions that had to
    /// wait or found no memory are asked for again, and about as many new ones as were made.
    #[must_use]
    pub fn after(done: &Totals) -> Self {
        let without_memory = done
            .failures
            .promote
            .get(&Cause::NoMemory)
            .copied()
            .unwrap_or(0);
        Demand {
            promotions: done.deferred_by_budget.saturating_add(without_memory),
            headroom: done.promoted,
        }
    }
}

/// The demands of several groups of processes.
impl std::iter::Sum for Demand {
    fn sum<I: Iterator<Item = Demand>>(demands: I) -> Demand {
        demands.fold(Demand::default(), |sum, demand| Demand {
            promotions: sum.promotions.saturating_add(demand.promotions),
            headroom: sum.headroom.saturating_add(demand.headroom),
        })
    }
}

/// Blocks to empty so that `demand` is met from `free_blocks`: none where there are enough.
#[must_use]
pub fn blocks_to_empty(demand: Demand, free_blocks: u64) -> u64 {
    demand
        .promotions
        .saturating_add(demand.headroom)
        .saturating_sub(free_blocks)
}

/// Keeps the migration of a policy within its budget per period, whenever it is called.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    period: Duration,
    budget: u64,
    /// When the current period began, and the pages migrated in it.
    current: Option<(Duration, u64)>,
}

impl Pace {
    /// The pace of `policy`.
    #[must_use]
    pub fn of(policy: &dyn CompactionPolicy) -> Self {
        Pace {
            period: policy.period(),
            budget: policy.budget_pages(),
            current: None,
        }
    }

    /// Base pages that may be migrated at the time `now`, which never goes backwards.
    pub fn available(&mut self, now: Duration) -> u64 {
        match self.current {
            Some((began, spent)) if now.saturating_sub(began) < self.period => {
                self.budget.saturating_sub(spent)
            }
            _ => {
                self.current = Some((now, 0));
                self.budget
            }
        }
    }

    /// Counts base pages that were migrated.
    pub fn spend(&mut self, pages: u64) {
        if let Some((_, spent)) = &mut self.current {
            *spent = spent.saturating_add(pages);
        }
    }
}

/// Empties as many blocks as `demand` lacks of `free_blocks`, the free blocks seen last, and the pace allows
/// at the time `now`. Physical memory is looked at only where something lacks.
///
/// Returns what was emptied: nothing where there is contiguity enough, and nothing for a policy that leaves
/// compaction to the kernel.
///
/// # Errors
///
/// When physical memory cannot be observed or changed.
pub fn keep_ahead<C: Compactor + ?Sized>(
    compactor: &mut C,
    policy: &mut dyn CompactionPolicy,
    pace: &mut Pace,
    demand: Demand,
    free_blocks: u64,
    now: Duration,
) -> Result<Vec<Emptied>, C::Error> {
    let count = blocks_to_empty(demand, free_blocks);
    let pages = pace.available(now);
    if policy.mechanism() == Mechanism::Kernel || count == 0 || pages == 0 {
        return Ok(Vec::new());
    }
    let observation = compactor.observe_physical()?;
    let targets = policy.select(
        &observation,
        &Goal {
            unit: Unit::Block,
            count,
            pages,
        },
    );
    let emptied = compactor.empty(&targets)?;
    // A failed attempt has a cost too: what it moved before it failed.
    pace.spend(emptied.iter().map(|emptied| emptied.counts.migrated).sum());
    Ok(emptied)
}
