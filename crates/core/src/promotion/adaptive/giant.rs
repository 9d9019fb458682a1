//! What `adaptive` promotes to giant pages.

use std::cmp::Reverse;

use crate::action::{Action, ActionKind};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{GIANT_PAGE_SIZE, REGIONS_PER_SPAN};
use crate::process::ProcessId;
use crate::promotion::spans;

use super::comparison::Promotion;
use super::lives::{Lives, PageGain};
use super::promote::Known;
use super::settings::Settings;
use super::state::{COLD, State};

/// Spans to promote, those with the most huge pages in use first. Only of processes whose working set does
/// not fit the TLB as it is, and that `may_grow`.
pub(super) fn promotions(
    settings: &Settings,
    known: &Known<'_>,
    lives: &mut Lives,
    observation: &Observation,
    may_grow: impl Fn(ProcessId) -> bool,
) -> Vec<Action> {
    if !observation.giant_pages || !has_room(settings, observation) {
        return Vec::new();
    }
    let mut candidates: Vec<(Reverse<usize>, RegionRef)> = Vec::new();
    for (process, sums) in observation.processes.iter().zip(known.sums) {
        if !may_grow(process.process) || sums.translations <= settings.tlb_entries {
            continue;
        }
        let settled = settled_spans(known, process);
        if settled.is_empty() {
            continue;
        }
        let measures = known.circumstances.measures;
        let Some(gain) = lives.gain(process.process, sums, settings.tlb_entries, measures) else {
            continue;
        };
        let copy = known.circumstances.giant_price.cpu_seconds(gain.cpus);
        let paid = settled
            .into_iter()
            .filter(|span| span.promotion(settings, &gain, copy).pays(0.0));
        candidates.extend(paid.map(|span| (Reverse(span.in_use), span.target)));
    }
    candidates.sort_unstable();
    let promote = |(_, target)| Action {
        kind: ActionKind::PromoteGiant,
        target,
    };
    candidates.into_iter().map(promote).collect()
}

/// A span that huge pages have mapped for so long that it is known of each whether it is cold.
struct Settled {
    target: RegionRef,
    /// Huge pages in use.
    in_use: usize,
    /// Seconds that all of it has lived.
    lived: f64,
}

impl Settled {
    /// A giant page adds no memory, and the kernel looks for its chunk by itself.
    #[allow(clippy::cast_precision_loss)]
    fn promotion(&self, settings: &Settings, gain: &PageGain, copy: f64) -> Promotion {
        Promotion {
            saved: self.in_use as f64 * gain.huge,
            life: settings.life(self.lived),
            copy,
            bloat: 0,
            memory_scarcity: 0.0,
        }
    }
}

fn settled_spans(known: &Known<'_>, process: &ProcessObservation) -> Vec<Settled> {
    let regions: Vec<(&RegionObservation, &State)> = known.states.join(process).collect();
    regions
        .chunk_by(|(left, _), (right, _)| spans::span_of(left) == spans::span_of(right))
        .filter_map(|regions| {
            let (first, state) = regions.first()?;
            let is_settled = regions.len() == REGIONS_PER_SPAN
                && state.may_become_giant(COLD.into())
                && regions
                    .iter()
                    .all(|(_, state)| state.is_settled_huge(COLD.into()));
            let lived = regions.iter().map(|(_, state)| state.lived());
            is_settled.then(|| Settled {
                target: spans::target(process.process, spans::span_of(first)),
                in_use: regions.iter().filter(|(_, state)| !state.is_cold()).count(),
                lived: lived.fold(f64::INFINITY, f64::min),
            })
        })
        .collect()
}

/// Whether memory stays available while a span is copied, which takes 1 GiB more meanwhile.
#[allow(clippy::cast_precision_loss)]
fn has_room(settings: &Settings, observation: &Observation) -> bool {
    let memory = &observation.memory;
    let spare = memory.available as f64 - memory.total as f64 * settings.keep_free;
    memory.total == 0 || spare >= GIANT_PAGE_SIZE as f64
}
