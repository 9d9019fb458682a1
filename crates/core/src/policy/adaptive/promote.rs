//! What `adaptive` promotes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::action::{Action, ActionKind};
use crate::observation::{MemoryObservation, Observation, ProcessObservation, RegionRef};
use crate::page::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION};
use crate::policy::tracked::Tracked;
use crate::process::ProcessId;

use super::settings::Settings;
use super::state::State;

/// Additional intervals that a region must survive in a process that frees all its memory in each.
const CHURN_WAIT: f32 = 8.0;
/// Regions are ranked in steps of so many saved translations and by address within a step, so that a
/// few accesses more or less do not part neighbours.
const RANK_STEP: f64 = 32.0;

/// A region that a promotion would pay for.
struct Candidate {
    target: RegionRef,
    /// Base pages in use.
    used: f64,
    /// Bytes that its promotion adds.
    bloat_bytes: u64,
    /// Whether it is promoted only at the highest bar: it adds bloat, or it was demoted before.
    at_highest_bar: bool,
    /// Whether what it adds counts against its process's bloat budget.
    is_bloated: bool,
}

/// What to promote, most translations saved first.
pub(super) fn promotions(
    settings: &Settings,
    states: &Tracked<State>,
    churn: &BTreeMap<ProcessId, f32>,
    observation: &Observation,
) -> Vec<Action> {
    let mut candidates = Vec::new();
    let mut bloat_left = BTreeMap::new();
    for process in &observation.processes {
        let translations: f64 = states
            .join(process)
            .map(|(_, state)| state.translations())
            .sum();
        if translations <= settings.tlb_entries {
            continue;
        }
        let churn = churn.get(&process.process).copied().unwrap_or(0.0);
        candidates.extend(candidates_of(settings, states, process, churn));
        bloat_left.insert(process.process, bloat_left_of(settings, states, process));
    }
    candidates.sort_by_key(|candidate| (Reverse(rank(candidate)), candidate.target));
    choose(settings, &observation.memory, candidates, bloat_left)
}

fn candidates_of(
    settings: &Settings,
    states: &Tracked<State>,
    process: &ProcessObservation,
    churn: f32,
) -> Vec<Candidate> {
    let least_age = settings.min_age.saturating_add(churn_wait(churn));
    let full = settings.full_mapped * f64::from(PAGES_PER_REGION);
    let mut candidates = Vec::new();
    for (region, state) in states.join(process) {
        let is_bloated = f64::from(region.mapped) < full;
        // What was demoted for its bloat comes back only without.
        let bars_itself = is_bloated && state.was_demoted();
        if !region.is_huge() && !bars_itself && state.used() > 1.0 && state.is_settled(least_age) {
            candidates.push(Candidate {
                target: RegionRef {
                    process: process.process,
                    region: region.region,
                },
                used: state.used(),
                bloat_bytes: region.promotion_bloat_bytes(),
                at_highest_bar: is_bloated || state.was_demoted(),
                is_bloated,
            });
        }
    }
    candidates
}

/// Bytes that promotions may still add to the process: its bloat budget less what they added already.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn bloat_left_of(
    settings: &Settings,
    states: &Tracked<State>,
    process: &ProcessObservation,
) -> u64 {
    let resident: u64 = process
        .regions
        .iter()
        .map(|region| region.resident_bytes())
        .sum();
    let added: u64 = states
        .join(process)
        .map(|(_, state)| u64::from(state.bloat()))
        .sum();
    let budget = (resident as f64 * settings.bloat_budget) as u64;
    budget.saturating_sub(added * BASE_PAGE_SIZE)
}

/// Takes candidates, best first, as long as each is worth the contiguity and the memory it takes.
fn choose(
    settings: &Settings,
    memory: &MemoryObservation,
    candidates: Vec<Candidate>,
    mut bloat_left: BTreeMap<ProcessId, u64>,
) -> Vec<Action> {
    let mut supply = Supply::new(settings, memory, candidates.len());
    let mut actions = Vec::new();
    for candidate in candidates {
        let utilization = candidate.used / f64::from(PAGES_PER_REGION);
        let bar = if candidate.at_highest_bar {
            settings.max_utilization
        } else {
            supply.bar()
        };
        let left = bloat_left.entry(candidate.target.process).or_default();
        let within_bloat = !candidate.is_bloated || candidate.bloat_bytes <= *left;
        if utilization < bar || !within_bloat || !supply.suffices_for(candidate.bloat_bytes) {
            continue;
        }
        *left = left.saturating_sub(candidate.bloat_bytes);
        supply.take(candidate.bloat_bytes);
        actions.push(Action {
            kind: ActionKind::Promote,
            target: candidate.target,
        });
    }
    actions
}

/// The memory there is for promotions, as it shrinks with each.
struct Supply<'a> {
    settings: &'a Settings,
    total: f64,
    /// Bytes available above what must stay so.
    spare: f64,
    contiguity: f64,
    /// Bytes of contiguity that the remaining candidates would need.
    needed: f64,
}

impl<'a> Supply<'a> {
    #[allow(clippy::cast_precision_loss)]
    fn new(settings: &'a Settings, memory: &MemoryObservation, candidates: usize) -> Self {
        let total = memory.total as f64;
        Supply {
            settings,
            total,
            spare: memory.available as f64 - total * settings.pressure_start,
            contiguity: memory.contiguity as f64,
            needed: candidates as f64 * huge_page_bytes(),
        }
    }

    /// The utilization from which a region that adds no bloat is promoted now: the lowest bar while
    /// contiguity is plentiful, absolutely or for what is wanted of it; the highest when there is none.
    fn bar(&self) -> f64 {
        let plentiful = self.total * self.settings.plentiful_contiguity;
        let enough =
            ratio(self.contiguity, plentiful).max(ratio(self.contiguity, 2.0 * self.needed));
        let plenty = if self.total == 0.0 { 1.0 } else { enough };
        let (low, high) = (self.settings.min_utilization, self.settings.max_utilization);
        high - (high - low) * plenty
    }

    /// Whether memory stays available when a promotion adds `bloat_bytes` and, while it copies, holds
    /// one huge page more.
    #[allow(clippy::cast_precision_loss)]
    fn suffices_for(&self, bloat_bytes: u64) -> bool {
        self.total == 0.0 || self.spare >= bloat_bytes as f64 + huge_page_bytes()
    }

    #[allow(clippy::cast_precision_loss)]
    fn take(&mut self, bloat_bytes: u64) {
        self.spare -= bloat_bytes as f64;
        self.contiguity = (self.contiguity - huge_page_bytes()).max(0.0);
        self.needed = (self.needed - huge_page_bytes()).max(0.0);
    }
}

/// `part / whole`, at most 1; 1 where nothing is asked for.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole <= 0.0 {
        1.0
    } else {
        (part / whole).min(1.0)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rank(candidate: &Candidate) -> u16 {
    (candidate.used / RANK_STEP) as u16
}

/// Additional intervals that a region has to survive in a process that frees memory.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn churn_wait(churn: f32) -> u16 {
    (churn.clamp(0.0, 1.0) * CHURN_WAIT).round() as u16
}

#[allow(clippy::cast_precision_loss)]
fn huge_page_bytes() -> f64 {
    HUGE_PAGE_SIZE as f64
}
