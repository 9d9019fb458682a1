//! `trident-nc`: `trident` without smart compaction (Trident, MICRO '21, section 7, figure 11: Trident-NC).
//!
//! This ablation of the paper shows what the choice of the chunk is worth. It decides as `trident` does. The kernel
//! chooses the chunk that it empties for a giant page; under this policy it takes one after the other.

use super::info::{MachineSetting, PolicyInfo};
use super::trident::{PARAMETERS, Trident};

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "trident-nc",
    summary: "an ablation of trident: for 1 GiB pages the kernel empties one chunk after the other, whatever is in it",
    source: "Trident (MICRO '21), section 7, figure 11: Trident-NC",
    parameters: PARAMETERS,
    for_giant_pages: true,
    asks_for_gains: false,
    settings: &[MachineSetting::SequentialChunks],
    ordered: &[],
    build: |values| Box::new(Trident::new(INFO.name, values)),
};
