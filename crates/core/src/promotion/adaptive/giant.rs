//! What `adaptive` promotes to giant pages.

use std::cmp::Reverse;

use crate::action::{Action, ActionKind};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{GIANT_PAGE_SIZE, REGIONS_PER_SPAN};
use crate::process::ProcessId;
use crate::promotion::spans;
use crate::promotion::tracked::Tracked;

use super::settings::Settings;
use super::state::State;

/// Spans to promote, those with the most huge pages in use first. Only of processes whose working set does
/// not fit the TLB as it is, and that `may_grow`.
pub(super) fn promotions(
    settings: &Settings,
    states: &Tracked<State>,
    observation: &Observation,
    may_grow: impl Fn(ProcessId) -> bool,
) -> Vec<Action> {
    if !observation.giant_pages || !has_room(settings, observation) {
        return Vec::new();
    }
    let mut candidates: Vec<(Reverse<usize>, RegionRef)> = Vec::new();
    let growing = |process: &&ProcessObservation| may_grow(process.process);
    for process in observation.processes.iter().filter(growing) {
        let known: Vec<_> = states.join(process).collect();
        let translations: f64 = known.iter().map(|(_, state)| state.translations()).sum();
        if translations > settings.tlb_entries {
            candidates.extend(candidates_of(settings, process, &known));
        }
    }
    candidates.sort_unstable();
    let promote = |(_, target)| Action {
        kind: ActionKind::PromoteGiant,
        target,
    };
    candidates.into_iter().map(promote).collect()
}

/// The spans of a process that a giant page would pay for, with how many of their huge pages are in use.
fn candidates_of(
    settings: &Settings,
    process: &ProcessObservation,
    known: &[(&RegionObservation, &State)],
) -> Vec<(Reverse<usize>, RegionRef)> {
    known
        .chunk_by(|(left, _), (right, _)| spans::span_of(left) == spans::span_of(right))
        .filter_map(|regions| {
            let (first, state) = regions.first()?;
            let in_use = regions
                .iter()
                .filter(|(_, state)| u16::from(state.idle()) < settings.cold_intervals)
                .count();
            // Only by then it is known of each whether it is cold.
            let settled = regions.len() == REGIONS_PER_SPAN
                && state.may_become_giant(settings.cold_intervals)
                && regions
                    .iter()
                    .all(|(_, state)| state.is_settled_huge(settings.cold_intervals));
            let target = spans::target(process.process, spans::span_of(first));
            (settled && in_use >= least_in_use(settings)).then_some((Reverse(in_use), target))
        })
        .collect()
}

/// Huge pages of a span that have to be in use.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn least_in_use(settings: &Settings) -> usize {
    (settings.giant_in_use * REGIONS_PER_SPAN as f64).ceil() as usize
}

/// Whether memory stays available while a span is copied, which takes 1 GiB more meanwhile.
#[allow(clippy::cast_precision_loss)]
fn has_room(settings: &Settings, observation: &Observation) -> bool {
    let memory = &observation.memory;
    let spare = memory.available as f64 - memory.total as f64 * settings.pressure_start;
    memory.total == 0 || spare >= GIANT_PAGE_SIZE as f64
}
