//! What `adaptive` promotes.
//!
//! It costs O(regions): one pass adds up each process, one finds its candidates, and one goes over the candidates, which it orders by
//! counting, not by comparing.

use crate::action::{Action, ActionKind};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{BASE_PAGE_SIZE, PAGES_PER_REGION, Region};
use crate::process::ProcessId;
use crate::promotion::tracked::Tracked;

use super::deal::{Deal, Terms};
use super::payback::{Left, Offer};
use super::settings::Settings;
use super::state::State;
use super::supply::{PLENTY, Source, Supply};

/// Whole intervals that a region must survive.
const MIN_AGE: u16 = 1;
/// Additional intervals that it must survive in a process that frees all its memory in each.
const CHURN_WAIT: f32 = 8.0;
/// The share of a region mapped from which its promotion counts as adding no bloat, as in Ingens and MEGA.
const FULL_MAPPED: f64 = 0.9;
/// Regions are ranked in so many steps of what is gained, and by address within a step, so that a few accesses more or less do not
/// part neighbours.
const RANKS: usize = 17;

/// What to promote, and what only a lack of contiguity keeps from it.
pub(super) struct Promotions {
    /// Most CPU time saved first.
    pub(super) actions: Vec<Action>,
    /// Free blocks that each process lacks to be promoted further.
    pub(super) blocks_short: Vec<(ProcessId, u64)>,
}

/// A region whose promotion pays while blocks are plentiful.
#[derive(Clone, Copy)]
struct Candidate {
    region: Region,
    /// Its place in the list of processes.
    process: usize,
    /// Without the price of its block.
    deal: Deal,
    /// Base pages that its promotion adds.
    bloat: u16,
    /// Whether what it adds counts against its process's bloat budget.
    is_bloated: bool,
    /// Whether it was demoted before: then it pays what a block is worth where there are none.
    was_demoted: bool,
}

/// A process with candidates.
struct Owner {
    process: ProcessId,
    source: Source,
    terms: Terms,
    /// Bytes that promotions may still add to it.
    bloat_left: u64,
    /// Promotions that are still affordable.
    affordable: usize,
    /// Regions that lack a block alone.
    held: u64,
}

/// What to promote of the processes that `may_grow`, given the churn of each, whether what it accesses `is_known`, and what is on `offer`
/// to one of which so much is left.
pub(super) fn promotions(
    settings: &Settings,
    states: &Tracked<State>,
    observation: &Observation,
    may_grow: impl Fn(ProcessId) -> bool,
    churn: impl Fn(ProcessId) -> f32,
    is_known: impl Fn(&ProcessObservation) -> bool,
    mut offer: impl FnMut(ProcessId, Left) -> Option<Offer>,
) -> Promotions {
    let mut supply = Supply::new(settings, &observation.memory);
    let mut owners = Vec::new();
    let mut candidates = Vec::new();
    let growing = |process: &&ProcessObservation| may_grow(process.process);
    for process in observation.processes.iter().filter(growing) {
        let least_age = MIN_AGE.saturating_add(churn_wait(churn(process.process)));
        let is_known = is_known(process);
        let sums = add_up(states, process, is_known, least_age);
        // A process whose working set fits the TLB is left alone.
        if sums.translations <= settings.tlb_entries || sums.left.translations <= 0.0 {
            continue;
        }
        let Some(offer) = offer(process.process, sums.left) else {
            continue;
        };
        let source = supply.open(process);
        let scarce = supply.scarcity_of_memory(source);
        let place = owners.len();
        let before = candidates.len();
        let known = states.join(process);
        let possible =
            known.filter(|(region, state)| is_possible(region, state, is_known, least_age));
        candidates.extend(
            possible
                .map(|(region, state)| candidate(region, state, place, &offer.terms, scarce))
                .filter(|candidate| candidate.deal.pays()),
        );
        supply.want(source, candidates.len() - before, &offer.terms);
        owners.push(Owner {
            process: process.process,
            source,
            terms: offer.terms,
            bloat_left: sums.bloat_left(settings),
            affordable: offer.affordable,
            held: 0,
        });
    }
    let candidates = ranked(candidates, best(&owners));
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
    left: Left,
}

impl Sums {
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

fn add_up(
    states: &Tracked<State>,
    process: &ProcessObservation,
    is_known: bool,
    least_age: u16,
) -> Sums {
    let mut sums = Sums::default();
    sums.left.is_known = is_known;
    for (region, state) in states.join(process) {
        sums.translations += state.translations();
        sums.resident_bytes += region.resident_bytes();
        sums.added += u64::from(state.bloat());
        if is_possible(region, state, is_known, least_age) {
            let fewer = state.used() - 1.0;
            sums.left.translations += fewer;
            sums.left.best = sums.left.best.max(fewer);
        }
    }
    sums
}

/// Whether a region could be promoted, if that pays, where it `is_known` what its process accesses.
fn is_possible(region: &RegionObservation, state: &State, is_known: bool, least_age: u16) -> bool {
    // What is swapped out would have to be read back. What was demoted for its bloat comes back only without.
    !region.is_huge()
        && region.swapped == 0
        && state.used() > 1.0
        && (state.is_seen() || !is_known)
        && state.is_settled(least_age)
        && !(state.was_demoted() && is_bloated(region))
}

fn is_bloated(region: &RegionObservation) -> bool {
    f64::from(region.mapped) < FULL_MAPPED * f64::from(PAGES_PER_REGION)
}

fn candidate(
    region: &RegionObservation,
    state: &State,
    process: usize,
    terms: &Terms,
    scarce: f64,
) -> Candidate {
    let bloat = PAGES_PER_REGION.saturating_sub(region.mapped);
    Candidate {
        region: region.region,
        process,
        deal: terms.promotion(state.used(), bloat, scarce),
        bloat,
        is_bloated: is_bloated(region),
        was_demoted: state.was_demoted(),
    }
}

/// The most that one promotion can gain.
fn best(owners: &[Owner]) -> f64 {
    let best = owners.iter().map(|owner| owner.terms.best());
    best.fold(0.0, f64::max)
}

/// The candidates in steps of what they gain, most first; those of a step in address order.
fn ranked(candidates: Vec<Candidate>, best: f64) -> impl Iterator<Item = Candidate> {
    let mut ranked: [Vec<Candidate>; RANKS] = Default::default();
    for candidate in candidates {
        ranked[rank(candidate.deal.gain, best)].push(candidate);
    }
    ranked.into_iter().rev().flatten()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
fn rank(gain: f64, best: f64) -> usize {
    let steps = (RANKS - 1) as f64;
    ((gain / best * steps) as usize).min(RANKS - 1)
}

/// Takes candidates, best first, as long as each pays for the block and the memory it takes.
fn choose(
    supply: &mut Supply<'_>,
    owners: &mut [Owner],
    candidates: impl Iterator<Item = Candidate>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for candidate in candidates {
        let Some(owner) = owners.get_mut(candidate.process) else {
            continue;
        };
        let bloat_bytes = u64::from(candidate.bloat) * BASE_PAGE_SIZE;
        let within_bloat = !candidate.is_bloated || bloat_bytes <= owner.bloat_left;
        let source = owner.source;
        if owner.affordable == 0 || !within_bloat || !supply.suffices_for(source, bloat_bytes) {
            supply.leave(source);
            continue;
        }
        let block = if candidate.was_demoted {
            supply.worth_of_block(source)
        } else {
            supply.price_of_block(source, &owner.terms)
        };
        if !candidate.deal.with(block).pays() {
            owner.held += 1;
            continue;
        }
        owner.affordable -= 1;
        owner.bloat_left = owner.bloat_left.saturating_sub(bloat_bytes);
        supply.take(source, bloat_bytes);
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

/// Additional intervals that a region has to survive in a process that frees memory.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn churn_wait(churn: f32) -> u16 {
    (churn.clamp(0.0, 1.0) * CHURN_WAIT).round() as u16
}
