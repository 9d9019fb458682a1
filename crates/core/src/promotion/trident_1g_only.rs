//! `trident-1g-only`: `trident` without huge pages of their own (Trident, MICRO '21, section 7, figure 11:
//! Trident-1Gonly).
//!
//! This ablation of the paper shows what the second page size is worth: base pages map what no giant page maps. Here a
//! giant page is made of huge pages, so the regions of a span become huge on the way. If the kernel finds no chunk, the
//! policy breaks them up again. They stay so as long as the memory of failures holds the span back.
//!
//! A policy has no say in page faults: the kernel's own settings must keep them from making huge pages.

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::observation::{Observation, RegionObservation, RegionRef};
use crate::page::PageSize;

use super::info::PolicyInfo;
use super::trident::{self, GIANT_MAPPED, HIGH_WATERMARK};
use super::{Policy, spans};
use crate::parameters::Values;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "trident-1g-only",
    summary: "an ablation of trident: 1 GiB where the addresses allow and a chunk is found, else base pages",
    source: "Trident (MICRO '21), section 7, figure 11: Trident-1Gonly",
    parameters: &[GIANT_MAPPED, HIGH_WATERMARK],
    for_giant_pages: true,
    asks_for_gains: false,
    settings: &[],
    ordered: &[],
    build: |values| Box::new(Trident1GOnly::new(values)),
};

struct Trident1GOnly {
    giant_mapped: f64,
    high_watermark: f64,
}

impl Trident1GOnly {
    fn new(values: Values<'_>) -> Self {
        Trident1GOnly {
            giant_mapped: values.get(&GIANT_MAPPED),
            high_watermark: values.get(&HIGH_WATERMARK),
        }
    }

    /// What to do to these regions of one span, all alike.
    fn decide_span(
        &self,
        span: RegionRef,
        regions: &[RegionObservation],
        is_short: bool,
        is_without_chunk: bool,
    ) -> Vec<Action> {
        if is_without_chunk {
            return on_regions(ActionKind::Demote, span, regions, |region| {
                region.page_size == PageSize::Huge
            });
        }
        if !trident::suits_a_giant_page(regions, self.giant_mapped) {
            return Vec::new();
        }
        if trident::all_huge(regions) {
            return vec![Action {
                kind: ActionKind::PromoteGiant,
                target: span,
            }];
        }
        let adds_memory = |region: &RegionObservation| region.promotion_bloat_bytes() > 0;
        if is_short && regions.iter().any(adds_memory) {
            return Vec::new();
        }
        on_regions(ActionKind::Promote, span, regions, |region| {
            !region.is_huge()
        })
    }
}

/// One kind of action on those regions of a span that are wanted.
fn on_regions(
    kind: ActionKind,
    span: RegionRef,
    regions: &[RegionObservation],
    is_wanted: impl Fn(&RegionObservation) -> bool,
) -> Vec<Action> {
    let wanted = regions.iter().filter(|region| is_wanted(region));
    let action = |region: &RegionObservation| Action {
        kind,
        target: RegionRef {
            region: region.region,
            ..span
        },
    };
    wanted.map(action).collect()
}

impl Policy for Trident1GOnly {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn decide(&mut self, observation: &Observation, failures: &FailureMemory) -> Vec<Action> {
        if !observation.giant_pages {
            return Vec::new();
        }
        let is_short = trident::is_short(observation, self.high_watermark);
        let mut actions = Vec::new();
        for process in &observation.processes {
            for (span, regions) in spans::by_span(process) {
                let span = spans::target(process.process, span);
                let is_without_chunk = failures.lacks_a_chunk(span);
                actions.extend(self.decide_span(span, regions, is_short, is_without_chunk));
            }
        }
        // What is whole comes first: giant pages before the huge ones that others need.
        actions.sort_by_key(|action| action.kind != ActionKind::PromoteGiant);
        actions
    }
}
