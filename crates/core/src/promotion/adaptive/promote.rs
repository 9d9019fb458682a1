//! What `adaptive` promotes to huge pages.
//!
//! It costs O(regions): one pass finds the candidates of each process, and one pass goes over the candidates, which it orders by
//! counting, not by comparing.

use crate::action::{Action, ActionKind};
use crate::gain::Circumstances;
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{BASE_PAGE_SIZE, PAGES_PER_REGION, Region};
use crate::process::ProcessId;
use crate::promotion::tracked::Tracked;

use super::comparison::Promotion;
use super::lives::{Lives, PageGain};
use super::settings::Settings;
use super::state::State;
use super::sums::Sums;
use super::supply::{PLENTY, Source, Supply, memory_scarcity};

/// Additional intervals that a region must survive in a process that frees all its memory in each: only then it is known how
/// long it lives.
const CHURN_WAIT: f32 = 8.0;
/// Regions are ranked in steps of so many base pages in use and by address within a step, so that a
/// few accesses more or less do not part neighbours.
const RANK_STEP: u16 = 32;
const STEPS: usize = (PAGES_PER_REGION / RANK_STEP) as usize + 1;
/// Across processes the steps are ranked by what they save: so many ranks for each doubling, of
/// so many seconds a second and more.
const RANKS_A_DOUBLING: f64 = 16.0;
const LOWEST_RANK: f64 = 1e-9;
const RANKS: usize = 512;

/// What to promote, and what only a lack of contiguity keeps from it.
pub(super) struct Promotions {
    /// What saves most first.
    pub(super) actions: Vec<Action>,
    /// Free blocks that each process lacks to be promoted further.
    pub(super) blocks_short: Vec<(ProcessId, u64)>,
}

/// A region whose promotion pays where blocks are plentiful.
#[derive(Clone, Copy)]
struct Candidate {
    region: Region,
    /// Its place in the list of processes.
    process: u32,
    /// Base pages in use.
    used: f32,
    /// Seconds that it is expected to live.
    life: f32,
    /// Base pages that its promotion adds.
    bloat: u16,
}

/// A process with candidates.
struct Owner {
    process: ProcessId,
    source: Source,
    terms: Terms,
    /// Bytes that promotions may still add to it.
    bloat_left: u64,
    /// Regions that pay for all but a block.
    held: u64,
}

/// What the comparison has in common for all regions of a process.
#[derive(Clone, Copy)]
struct Terms {
    saved_a_page: f64,
    copy: f64,
    memory_scarcity: f64,
}

impl Terms {
    fn promotion(&self, used: f64, life: f64, bloat: u16) -> Promotion {
        Promotion {
            saved: used * self.saved_a_page,
            life,
            copy: self.copy,
            bloat,
            memory_scarcity: self.memory_scarcity,
        }
    }

    /// Where the regions with so many base pages in use rank, step by step.
    fn ranks(&self) -> [usize; STEPS] {
        let mut used = f64::from(RANK_STEP) / 2.0;
        [(); STEPS].map(|()| {
            let rank = rank(used * self.saved_a_page);
            used += f64::from(RANK_STEP);
            rank
        })
    }
}

/// What is known of the processes.
pub(super) struct Known<'a> {
    pub(super) states: &'a Tracked<State>,
    /// Of each process of the observation.
    pub(super) sums: &'a [Sums],
    pub(super) circumstances: &'a Circumstances,
}

/// What to promote of the processes that `may_grow`, given the churn of each.
pub(super) fn promotions(
    settings: &Settings,
    known: &Known<'_>,
    lives: &mut Lives,
    observation: &Observation,
    may_grow: impl Fn(ProcessId) -> bool,
    churn: impl Fn(ProcessId) -> f32,
) -> Promotions {
    let mut supply = Supply::new(settings.keep_free, &observation.memory);
    let mut owners = Vec::new();
    let mut ranked: Vec<Vec<Candidate>> = vec![Vec::new(); RANKS];
    for (process, sums) in observation.processes.iter().zip(known.sums) {
        let Ok(place) = u32::try_from(owners.len()) else {
            break;
        };
        // A process whose working set fits the TLB gains nothing.
        if !may_grow(process.process) || sums.translations <= settings.tlb_entries {
            continue;
        }
        let eligible = Eligible {
            settings,
            states: known.states,
            process,
            least_age: 1 + churn_wait(churn(process.process)),
        };
        let Some(gain) = eligible.gain(sums, lives, known.circumstances.measures) else {
            continue;
        };
        let terms = Terms {
            saved_a_page: gain.base,
            copy: known.circumstances.price.cpu_seconds(gain.cpus),
            memory_scarcity: memory_scarcity(settings.keep_free, &observation.memory, process),
        };
        let candidates = eligible.rank(&terms, place, &mut ranked);
        owners.push(Owner {
            process: process.process,
            source: supply.open(process, candidates),
            terms,
            bloat_left: sums.bloat_left(settings.bloat_allowed),
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

/// The regions of a process that can be promoted at all.
struct Eligible<'a> {
    settings: &'a Settings,
    states: &'a Tracked<State>,
    process: &'a ProcessObservation,
    /// Intervals that a region must have survived: only then it is known what of it is in use.
    least_age: u16,
}

impl<'a> Eligible<'a> {
    fn regions(&self) -> impl Iterator<Item = (&'a RegionObservation, &'a State)> {
        let least_age = self.least_age;
        self.states
            .join(self.process)
            .filter(move |(region, state)| {
                // What is swapped out would have to be read back, and what was demoted for its bloat would get that again.
                !region.is_huge()
                    && region.swapped == 0
                    && state.used() > 1.0
                    && state.is_settled(least_age)
                    && !(state.was_demoted() && region.mapped < PAGES_PER_REGION)
            })
    }

    /// What its pages gain the process; `None` where that is to be measured first, or there is nothing to promote.
    fn gain(&self, sums: &Sums, lives: &mut Lives, measures: bool) -> Option<PageGain> {
        self.regions().next()?;
        lives.gain(
            self.process.process,
            sums,
            self.settings.tlb_entries,
            measures,
        )
    }

    /// Puts the candidates where they rank, in address order. Returns how many there are.
    fn rank(&self, terms: &Terms, place: u32, ranked: &mut [Vec<Candidate>]) -> usize {
        let ranks = terms.ranks();
        let mut candidates = 0;
        for (region, state) in self.regions() {
            let used = state.used();
            let life = self.settings.life(state.lived());
            let bloat = PAGES_PER_REGION.saturating_sub(region.mapped);
            if terms.promotion(used, life, bloat).pays(0.0) {
                candidates += 1;
                #[allow(clippy::cast_possible_truncation)]
                ranked[ranks[step(used)]].push(Candidate {
                    region: region.region,
                    process: place,
                    used: used as f32,
                    life: life as f32,
                    bloat,
                });
            }
        }
        candidates
    }
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
        if bloat_bytes > owner.bloat_left || !supply.suffices_for(owner.source, bloat_bytes) {
            supply.leave(owner.source);
            continue;
        }
        let (used, life) = (f64::from(candidate.used), f64::from(candidate.life));
        let promotion = owner.terms.promotion(used, life, candidate.bloat);
        if !promotion.pays(supply.block_scarcity(owner.source)) {
            owner.held += 1;
            continue;
        }
        owner.bloat_left -= bloat_bytes;
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
fn step(used: f64) -> usize {
    ((used / f64::from(RANK_STEP)) as usize).min(STEPS - 1)
}

/// What saves more ranks higher; so does nothing, and what is beyond all measure, at the ends.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rank(saved: f64) -> usize {
    let doublings = (saved / LOWEST_RANK).max(1.0).log2();
    ((doublings * RANKS_A_DOUBLING) as usize).min(RANKS - 1)
}

/// Additional intervals that a region has to survive in a process that frees memory.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn churn_wait(churn: f32) -> u16 {
    (churn.clamp(0.0, 1.0) * CHURN_WAIT).round() as u16
}
