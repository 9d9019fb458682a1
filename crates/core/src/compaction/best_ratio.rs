//! MEGA's compaction: the blocks with the best ratio of benefit to cost.
//!
//! Section 3.4 of the paper scores a block as segment cleaning in LFS does: `age x (1 - mapped) x (1 - accessed) / (2 x
//! mapped)`. The shares refer to all the block's base pages, and age is the time since one of its pages was last mapped
//! anew. The policy prefers old blocks, because a program may soon free what it mapped just now. It prefers cold ones,
//! because moving their pages disturbs nobody.
//!
//! The paper leaves some points open:
//!
//! - A free block needs no work. (The formula divides by zero there.)
//! - A block with unmovable pages cannot be emptied and scores nothing. (The paper leaves that to future work.)
//! - A chunk scores by the same formula over all its pages, with the age of its youngest block.
//! - If ages are unknown, all blocks count as equally old. If accesses are unknown, they count as none.

use std::time::Duration;

use super::candidate::{Candidate, candidates};
use super::goal::{Goal, Refusal, Selection, ToEmpty};
use super::zone::{HUGE_ORDER, PhysicalObservation, ZoneKind, ZoneObservation};
use super::{CompactionPolicy, pages_of_megabytes};

/// Selects by MEGA's ratio of benefit to cost.
#[derive(Clone, Debug, PartialEq)]
pub struct BestRatio {
    /// Time from one compaction to the next.
    pub period: Duration,
    /// Base pages to migrate per period.
    pub budget_pages: u64,
    /// `ZONE_DMA32` is compacted only while its free memory in areas of order 9 and above is under this
    /// part of its free memory, 0 to 1.
    pub dma32_contiguity: f64,
}

impl Default for BestRatio {
    /// The paper's: every 5 s, 200 MB, 33 % (section 3.4).
    fn default() -> Self {
        BestRatio {
            period: Duration::from_secs(5),
            budget_pages: pages_of_megabytes(200),
            dma32_contiguity: 0.33,
        }
    }
}

impl CompactionPolicy for BestRatio {
    fn name(&self) -> &'static str {
        "mega"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn budget_pages(&self) -> u64 {
        self.budget_pages
    }

    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty> {
        let mut dma32 = Dma32Rule::new(observation, self.dma32_contiguity);
        let mut scored: Vec<(f64, Candidate)> = observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
            .flat_map(|zone| candidates(zone, goal.unit))
            .filter_map(|candidate| Some((score(&candidate)?, candidate)))
            .collect();
        scored.sort_by(|(a, x), (b, y)| {
            let cheaper = || (x.movable, x.first_pfn).cmp(&(y.movable, y.first_pfn));
            b.total_cmp(a).then_with(cheaper)
        });

        let mut selection = Selection::new(observation, goal);
        for (_, candidate) in &scored {
            if !dma32.allows(candidate) {
                continue;
            }
            match selection.take(candidate) {
                Ok(()) => dma32.emptied(candidate),
                Err(Refusal::Enough) => break,
                // A smaller one further down may still fit.
                Err(Refusal::OverBudget | Refusal::NoRoom) => {}
            }
        }
        selection.into_targets()
    }
}

/// The ratio of benefit to cost. `None` for what is not to be emptied: free or full, or with something unmovable
/// in it. 0 for what was wholly accessed, and for what was mapped anew just now: those come last.
#[must_use]
pub fn score(candidate: &Candidate) -> Option<f64> {
    if !candidate.is_worth_emptying() {
        return None;
    }
    let pages = f64::from(candidate.unit.pages());
    let mapped = f64::from(candidate.movable) / pages;
    let accessed = f64::from(candidate.accessed.min(candidate.unit.pages())) / pages;
    let age = candidate.age.map_or(1.0, |age| age.as_secs_f64());
    Some(age * (1.0 - mapped) * (1.0 - accessed) / (2.0 * mapped))
}

/// Whether `zone`, a `ZONE_DMA32`, is fragmented enough to be compacted at all.
fn is_short_of_contiguity(free: u64, contiguous: u64, part: f64) -> bool {
    #[allow(clippy::cast_precision_loss)]
    let (free, contiguous) = (free as f64, contiguous as f64);
    contiguous < part * free
}

/// The rule for `ZONE_DMA32`, per node, kept up to date while blocks are selected.
struct Dma32Rule {
    part: f64,
    /// Per zone: node, free base pages, and those of them that are or will be in whole blocks.
    zones: Vec<(u32, u64, u64)>,
}

impl Dma32Rule {
    fn new(observation: &PhysicalObservation, part: f64) -> Self {
        let zones = observation
            .zones
            .iter()
            .filter(|zone| zone.kind == ZoneKind::Dma32);
        let contiguity = |zone: &ZoneObservation| {
            (
                zone.node,
                zone.free_pages(),
                zone.free_pages_from(HUGE_ORDER),
            )
        };
        Dma32Rule {
            part,
            zones: zones.map(contiguity).collect(),
        }
    }

    fn allows(&self, candidate: &Candidate) -> bool {
        candidate.zone != ZoneKind::Dma32
            || self.zones.iter().any(|&(node, free, contiguous)| {
                node == candidate.node && is_short_of_contiguity(free, contiguous, self.part)
            })
    }

    fn emptied(&mut self, candidate: &Candidate) {
        if candidate.zone != ZoneKind::Dma32 {
            return;
        }
        for (node, _, contiguous) in &mut self.zones {
            if *node == candidate.node {
                *contiguous += u64::from(candidate.unit.pages());
            }
        }
    }
}
