//! What `adaptive` promotes to giant pages.

use std::cmp::Reverse;

use crate::action::{Action, ActionKind};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{GIANT_PAGE_SIZE, PageSize, REGIONS_PER_SPAN};
use crate::process::ProcessId;
use crate::promotion::spans;
use crate::promotion::tracked::Tracked;

use super::deal::Terms;
use super::settings::Settings;
use super::state::{COLD_INTERVALS, State};

/// Spans to promote, those with the most huge pages in use first. Only of processes whose working set does
/// not fit the TLB as it is, and that `may_grow`; `terms` says what a giant page is worth to one with so many huge pages in use.
pub(super) fn promotions(
    settings: &Settings,
    states: &Tracked<State>,
    observation: &Observation,
    may_grow: impl Fn(ProcessId) -> bool,
    mut terms: impl FnMut(ProcessId, usize) -> Option<Terms>,
) -> Vec<Action> {
    if !observation.giant_pages || !has_room(settings, observation) {
        return Vec::new();
    }
    let mut candidates: Vec<(Reverse<usize>, RegionRef)> = Vec::new();
    let growing = |process: &&ProcessObservation| may_grow(process.process);
    for process in observation.processes.iter().filter(growing) {
        let known: Vec<_> = states.join(process).collect();
        let translations: f64 = known.iter().map(|(_, state)| state.translations()).sum();
        if translations <= settings.tlb_entries {
            continue;
        }
        let spans = settled_spans(process, &known);
        if spans.is_empty() {
            continue;
        }
        let in_use = known.iter().filter(is_huge_in_use).count();
        if let Some(terms) = terms(process.process, in_use) {
            candidates.extend(
                spans
                    .into_iter()
                    .filter(|(Reverse(in_use), _)| terms.promotion_to_giant(*in_use).pays()),
            );
        }
    }
    candidates.sort_unstable();
    let promote = |(_, target)| Action {
        kind: ActionKind::PromoteGiant,
        target,
    };
    candidates.into_iter().map(promote).collect()
}

/// The spans of a process that could become giant pages, with how many of their huge pages are in use.
fn settled_spans(
    process: &ProcessObservation,
    known: &[(&RegionObservation, &State)],
) -> Vec<(Reverse<usize>, RegionRef)> {
    known
        .chunk_by(|(left, _), (right, _)| spans::span_of(left) == spans::span_of(right))
        .filter_map(|regions| {
            let (first, state) = regions.first()?;
            // Only by then it is known of each whether it is cold.
            let is_settled = regions.len() == REGIONS_PER_SPAN
                && state.may_become_giant(COLD_INTERVALS)
                && regions
                    .iter()
                    .all(|(_, state)| state.is_settled_huge(COLD_INTERVALS));
            let in_use = regions.iter().filter(is_huge_in_use).count();
            let target = spans::target(process.process, spans::span_of(first));
            is_settled.then_some((Reverse(in_use), target))
        })
        .collect()
}

fn is_huge_in_use((region, state): &&(&RegionObservation, &State)) -> bool {
    region.page_size == PageSize::Huge && !state.is_cold()
}

/// Whether memory stays available while a span is copied, which takes 1 GiB more meanwhile.
#[allow(clippy::cast_precision_loss)]
fn has_room(settings: &Settings, observation: &Observation) -> bool {
    let memory = &observation.memory;
    let spare = memory.available as f64 - memory.total as f64 * settings.keep_available;
    memory.total == 0 || spare >= GIANT_PAGE_SIZE as f64
}
