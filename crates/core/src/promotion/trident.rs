//! `trident`: the largest page that the addresses allow (Trident, MICRO '21, section 5.1.3).
//!
//! The paper's khugepaged walks a process's address space. It promotes every span that a giant page can map, else every
//! region that a huge page can map, and leaves the rest to base pages. It does not ask how much of them is mapped or
//! used. This policy does the same, except for:
//!
//! - A giant page is made of huge pages. So the policy first promotes the regions of a span, and promotes the span
//!   after it saw that all are huge. If there is no free chunk, the huge pages stay, as in the paper.
//! - Nobody can give a process memory from outside that it never touched. So a giant page can map a span only after
//!   every region of it has memory.
//! - The paper recovers bloat as HawkEye does; `hawkeye` is for that. This policy adds no memory while memory is as
//!   short as HawkEye understands it.
//!
//! On a machine without giant pages, this is a `thp` that promotes whatever it finds.

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::observation::{Observation, RegionObservation, RegionRef};
use crate::page::{PAGES_PER_REGION, PageSize};

use super::Policy;
use super::info::PolicyInfo;
use super::memory::share_in_use;
use super::spans;
use crate::parameters::{ParameterInfo, Values};

pub(super) const GIANT_MAPPED: ParameterInfo = ParameterInfo::share(
    "giant_mapped",
    "share of a span mapped from which all of it is promoted, to a giant page in the end (the paper names none: any)",
    0.0,
);
const HUGE_MAPPED: ParameterInfo = ParameterInfo::share(
    "huge_mapped",
    "share of any other region mapped from which it is promoted to a huge page (one page of it: the default of khugepaged, which Trident extends)",
    1.0 / 512.0,
);
pub(super) const HIGH_WATERMARK: ParameterInfo = ParameterInfo::share(
    "high_watermark",
    "share of memory in use above which nothing is promoted that adds memory (HawkEye: 85 %, whose bloat recovery the paper adopts)",
    0.85,
);

pub(super) const PARAMETERS: &[ParameterInfo] = &[GIANT_MAPPED, HUGE_MAPPED, HIGH_WATERMARK];

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "trident",
    summary: "promotes to the largest page that the addresses allow: 1 GiB where the kernel has such pages, else 2 MiB; never demotes",
    source: "Trident (MICRO '21), section 5.1.3",
    parameters: PARAMETERS,
    for_giant_pages: true,
    asks_for_gains: false,
    settings: &[],
    ordered: &[],
    build: |values| Box::new(Trident::new(INFO.name, values)),
};

pub(super) struct Trident {
    name: &'static str,
    giant_mapped: f64,
    huge_mapped: f64,
    high_watermark: f64,
}

impl Trident {
    /// Under the name of the policy that it is, or decides for.
    pub(super) fn new(name: &'static str, values: Values<'_>) -> Self {
        Trident {
            name,
            giant_mapped: values.get(&GIANT_MAPPED),
            huge_mapped: values.get(&HUGE_MAPPED),
            high_watermark: values.get(&HIGH_WATERMARK),
        }
    }

    /// Whether a region of base pages is to become a huge page.
    fn suits_a_huge_page(
        &self,
        region: &RegionObservation,
        of_giant: bool,
        is_short: bool,
    ) -> bool {
        let wanted = of_giant || share_mapped(region) >= self.huge_mapped;
        !region.is_huge() && wanted && (!is_short || region.promotion_bloat_bytes() == 0)
    }
}

/// Whether a giant page is to map these regions of one span in the end, given the share of it that has to be mapped.
pub(super) fn suits_a_giant_page(regions: &[RegionObservation], giant_mapped: f64) -> bool {
    let whole_regions = regions.len().max(1);
    let mapped: f64 = regions.iter().map(share_mapped).sum();
    spans::is_whole(regions) && mapped / as_number(whole_regions) >= giant_mapped
}

/// Whether huge pages map all of these regions, and no giant page does.
pub(super) fn all_huge(regions: &[RegionObservation]) -> bool {
    regions
        .iter()
        .all(|region| region.page_size == PageSize::Huge)
}

/// Whether so much memory is in use that nothing is to be promoted that adds some.
pub(super) fn is_short(observation: &Observation, high_watermark: f64) -> bool {
    share_in_use(&observation.memory) > high_watermark
}

/// The part of a region that is mapped, 0 to 1.
fn share_mapped(region: &RegionObservation) -> f64 {
    f64::from(region.mapped) / f64::from(PAGES_PER_REGION)
}

#[allow(clippy::cast_precision_loss)]
fn as_number(count: usize) -> f64 {
    count as f64
}

impl Policy for Trident {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, observation: &Observation, _failures: &FailureMemory) -> Vec<Action> {
        let is_short = is_short(observation, self.high_watermark);
        let mut giant = Vec::new();
        let mut huge = Vec::new();
        for process in &observation.processes {
            for (span, regions) in spans::by_span(process) {
                let of_giant =
                    observation.giant_pages && suits_a_giant_page(regions, self.giant_mapped);
                if of_giant && all_huge(regions) {
                    giant.push(Action {
                        kind: ActionKind::PromoteGiant,
                        target: spans::target(process.process, span),
                    });
                }
                let wanted = regions
                    .iter()
                    .filter(|region| self.suits_a_huge_page(region, of_giant, is_short));
                huge.extend(wanted.map(|region| Action {
                    kind: ActionKind::Promote,
                    target: RegionRef {
                        process: process.process,
                        region: region.region,
                    },
                }));
            }
        }
        giant.append(&mut huge);
        giant
    }
}
