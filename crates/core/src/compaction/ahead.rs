//! Contiguity ahead of demand: empties the blocks and chunks that promotions lacked.
//!
//! A promotion that finds no free block fails, or makes the kernel compact on the spot while it holds the target's mmap
//! lock. So between two steps the manager empties what the engine wanted and did not get ([`Unmet`]), within the
//! compaction policy's budget for its period.

use std::time::Duration;

use super::block::Unit;
use super::candidate::{Candidate, candidates};
use super::compactor::{Compactor, Emptied};
use super::goal::Goal;
use super::zone::PhysicalObservation;
use super::{CompactionPolicy, Mechanism};
use crate::engine::Unmet;

/// Keeps the migration of a policy within its budget per period, whenever it is called.
#[derive(Clone, Copy, Debug)]
pub struct MigrationPace {
    period: Duration,
    budget: u64,
    /// When the current period began, and the pages migrated in it.
    current: Option<(Duration, u64)>,
}

impl MigrationPace {
    /// The pace of `policy`.
    #[must_use]
    pub fn of(policy: &dyn CompactionPolicy) -> Self {
        MigrationPace {
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

/// Empties what is `unmet`, each node on its own, as far as the pace allows at the time `now`. Nodes that lack something
/// have equal parts of what may be migrated. A node that lacks blocks gets those first: a chunk costs as much as many of
/// them. Physical memory is looked at only where something lacks.
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
    pace: &mut MigrationPace,
    unmet: &[Unmet],
    now: Duration,
) -> Result<Vec<Emptied>, C::Error> {
    let pages = pace.available(now);
    let lacks = |unmet: &&Unmet| unmet.blocks_to_empty() > 0 || unmet.chunks > 0;
    let lacking: Vec<&Unmet> = unmet.iter().filter(lacks).collect();
    if policy.mechanism() == Mechanism::Kernel || lacking.is_empty() || pages == 0 {
        return Ok(Vec::new());
    }
    let observation = compactor.observe_physical()?;
    let pages = pages / lacking.len() as u64;
    let mut all = Vec::new();
    for unmet in lacking {
        let of_node = of_node(&observation, unmet.node);
        let targets = policy.select(&of_node, &goal(&of_node, unmet, pages));
        let emptied = compactor.empty(&targets)?;
        // A failed attempt has a cost too: what it moved before it failed.
        pace.spend(emptied.iter().map(|emptied| emptied.counts.migrated).sum());
        all.extend(emptied);
    }
    Ok(all)
}

/// What to empty of a node.
fn goal(observation: &PhysicalObservation, unmet: &Unmet, pages: u64) -> Goal {
    let blocks = unmet.blocks_to_empty();
    let (unit, count) = if blocks > 0 {
        (Unit::Block, blocks)
    } else {
        let chunks = observation.zones.iter();
        let chunks = chunks.flat_map(|zone| candidates(zone, Unit::Chunk));
        let free = chunks.filter(Candidate::is_free).count() as u64;
        (Unit::Chunk, unmet.chunks.saturating_sub(free))
    };
    Goal { unit, count, pages }
}

/// The zones of one node, or all.
fn of_node(observation: &PhysicalObservation, node: Option<u32>) -> PhysicalObservation {
    let zones = observation.zones.iter();
    let is_asked_for = |zone_node: u32| node.is_none_or(|node| node == zone_node);
    PhysicalObservation {
        zones: zones
            .filter(|zone| is_asked_for(zone.node))
            .cloned()
            .collect(),
    }
}
