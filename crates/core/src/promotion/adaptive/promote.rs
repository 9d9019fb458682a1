//! What `adaptive` promotes.
//!
//! It costs O(regions): one pass adds up each process and finds its candidates, and one pass goes over the candidates,
//! which it orders by counting, not by comparing.

use crate::action::{Action, ActionKind};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{BASE_PAGE_SIZE, PAGES_PER_REGION, Region};
use crate::process::ProcessId;
use crate::promotion::tracked::Tracked;

use super::settings::Settings;
use super::state::State;
use super::supply::{Source, Supply};

/// Additional intervals that a region must survive in a process that frees all its memory in each.
const CHURN_WAIT: f32 = 8.0;
/// Regions are ranked in steps of so many saved translations and by address within a step, so that a
/// few accesses more or less do not part neighbours.
const RANK_STEP: u16 = 32;
const RANKS: usize = (PAGES_PER_REGION / RANK_STEP) as usize + 1;
/// Free blocks for each region that lacks one, so that they count as plentiful (see [`Supply`]).
const PLENTY: u64 = 2;

/// What to promote, and what only a lack of contiguity keeps from it.
pub(super) struct Promotions {
    /// Most translations saved first.
    pub(super) actions: Vec<Action>,
    /// Free blocks that each process lacks to be promoted further.
    pub(super) blocks_short: Vec<(ProcessId, u64)>,
}

/// A region that a promotion would pay for.
#[derive(Clone, Copy)]
struct Candidate {
    region: Region,
    /// Its place in the list of processes.
    process: u32,
    /// Share of its base pages in use, 0 to 1.
    utilization: f32,
    /// Base pages that its promotion adds.
    bloat: u16,
    /// Whether it is promoted only at the highest bar, which it passes: it adds bloat, or it was demoted before.
    at_highest_bar: bool,
    /// Whether what it adds counts against its process's bloat budget.
    is_bloated: bool,
}

/// A process with candidates.
struct Owner {
    process: ProcessId,
    source: Source,
    /// Bytes that promotions may still add to it.
    bloat_left: u64,
    /// Promotions that are still paid back.
    paying: usize,
    /// Regions that pass every bar but the one for contiguity.
    held: u64,
}

/// What to promote of the processes that `may_grow`, given the churn of each and how many of so many promotions are `paying`.
pub(super) fn promotions(
    settings: &Settings,
    states: &Tracked<State>,
    observation: &Observation,
    may_grow: impl Fn(ProcessId) -> bool,
    churn: impl Fn(ProcessId) -> f32,
    mut paying: impl FnMut(ProcessId, usize) -> usize,
) -> Promotions {
    let mut supply = Supply::new(settings, &observation.memory);
    let mut owners = Vec::new();
    let mut ranked: [Vec<Candidate>; RANKS] = Default::default();
    for process in &observation.processes {
        let Ok(place) = u32::try_from(owners.len()) else {
            break;
        };
        if !may_grow(process.process) {
            continue;
        }
        let before = ranked.each_ref().map(Vec::len);
        let churn = churn(process.process);
        let sums = rank_candidates(settings, states, process, (place, churn), &mut ranked);
        // A process whose working set fits the TLB is left alone.
        let is_left_alone = sums.translations <= settings.tlb_entries;
        let paying = if is_left_alone {
            0
        } else {
            paying(process.process, sums.candidates)
        };
        if paying == 0 {
            for (rank, before) in ranked.iter_mut().zip(before) {
                rank.truncate(before);
            }
            continue;
        }
        owners.push(Owner {
            process: process.process,
            source: supply.open(process, sums.candidates),
            bloat_left: sums.bloat_left(settings),
            paying,
            held: 0,
        });
    }
    let candidates = ranked.iter().rev().flatten();
    let actions = choose(&mut supply, &mut owners, candidates);
    let short = owners.iter().filter(|owner| owner.held > 0);
    Promotions {
        actions,
        blocks_short: short
            .map(|owner| (owner.process, owner.held * PLENTY))
            .collect(),
    }
}

/// One process added up.
#[derive(Default)]
struct Sums {
    /// Translations of its working set.
    translations: f64,
    resident_bytes: u64,
    /// Base pages that promotions added.
    added: u64,
    candidates: usize,
}

impl Sums {
    fn add(&mut self, region: &RegionObservation, state: &State) {
        self.translations += state.translations();
        self.resident_bytes += region.resident_bytes();
        self.added += u64::from(state.bloat());
    }

    /// Bytes that promotions may still add to the process: its bloat budget less what they added already.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn bloat_left(&self, settings: &Settings) -> u64 {
        let budget = (self.resident_bytes as f64 * settings.bloat_budget) as u64;
        budget.saturating_sub(self.added * BASE_PAGE_SIZE)
    }
}

/// Puts the candidates of a process where they rank, in address order, and adds the process up.
fn rank_candidates(
    settings: &Settings,
    states: &Tracked<State>,
    process: &ProcessObservation,
    (place, churn): (u32, f32),
    ranked: &mut [Vec<Candidate>; RANKS],
) -> Sums {
    let least_age = settings.min_age.saturating_add(churn_wait(churn));
    let full = settings.full_mapped * f64::from(PAGES_PER_REGION);
    let mut sums = Sums::default();
    for (region, state) in states.join(process) {
        sums.add(region, state);
        let used = state.used();
        // What is swapped out would have to be read back.
        if region.is_huge() || region.swapped > 0 || used <= 1.0 || !state.is_settled(least_age) {
            continue;
        }
        let is_bloated = f64::from(region.mapped) < full;
        let at_highest_bar = is_bloated || state.was_demoted();
        let lowest_bar = if at_highest_bar {
            settings.max_utilization
        } else {
            settings.min_utilization
        };
        let utilization = used / f64::from(PAGES_PER_REGION);
        // What was demoted for its bloat comes back only without.
        if utilization < lowest_bar || (is_bloated && state.was_demoted()) {
            continue;
        }
        sums.candidates += 1;
        ranked[rank(used)].push(Candidate {
            region: region.region,
            process: place,
            #[allow(clippy::cast_possible_truncation)]
            utilization: utilization as f32,
            bloat: PAGES_PER_REGION.saturating_sub(region.mapped),
            at_highest_bar,
            is_bloated,
        });
    }
    sums
}

/// Takes candidates, best first, as long as each is worth the contiguity and the memory it takes.
fn choose<'a>(
    supply: &mut Supply<'_>,
    owners: &mut [Owner],
    candidates: impl Iterator<Item = &'a Candidate>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for candidate in candidates {
        let Some(owner) = owners.get_mut(candidate.process as usize) else {
            continue;
        };
        let bloat_bytes = u64::from(candidate.bloat) * BASE_PAGE_SIZE;
        let within_bloat = !candidate.is_bloated || bloat_bytes <= owner.bloat_left;
        if owner.paying == 0 || !within_bloat || !supply.suffices_for(owner.source, bloat_bytes) {
            supply.leave(owner.source);
            continue;
        }
        let is_worth_a_block = candidate.at_highest_bar
            || supply.is_worth_a_block(owner.source, f64::from(candidate.utilization));
        if !is_worth_a_block {
            owner.held += 1;
            continue;
        }
        owner.paying -= 1;
        owner.bloat_left = owner.bloat_left.saturating_sub(bloat_bytes);
        supply.take(owner.source, bloat_bytes);
        actions.push(Action {
            kind: ActionKind::Promote,
            target: RegionRef {
                process: owner.process,
                region: candidate.region,
            },
        });
    }
    actions
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rank(used: f64) -> usize {
    ((used / f64::from(RANK_STEP)) as usize).min(RANKS - 1)
}

/// Additional intervals that a region has to survive in a process that frees memory.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn churn_wait(churn: f32) -> u16 {
    (churn.clamp(0.0, 1.0) * CHURN_WAIT).round() as u16
}
