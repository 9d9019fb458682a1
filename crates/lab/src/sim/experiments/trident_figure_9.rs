//! Trident figure 9: programs with pages of three sizes, memory unfragmented.

use super::TRIDENT_NODE;
use super::trident_programs::{Memory, Runs, native};
use crate::error::Error;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::Findings;
use crate::sim::system::{ADAPTIVE_GIANT, BASE, HAWKEYE, THP, TRIDENT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-9",
    title: "programs with pages of three sizes, memory unfragmented",
    source: "Trident, figure 9",
    about: "Programs with the access patterns of GUPS (32 GB), Btree (10.5 GB, grown in small steps) and XSBench (117 GB) run for five minutes on a node with 192 GB. Then what an operation costs on a simulated Skylake-SP, with the pages that map the memory by then. Smaller machines need fewer pages, so the scale should be 1.",
    memory: TRIDENT_NODE,
    scale: 1,
    run,
};

const THP_PLACE: usize = 1;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let systems = native([BASE, THP, HAWKEYE, TRIDENT, ADAPTIVE_GIANT]);
    let runs = Runs::of(&systems, &Memory::Unfragmented, setting)?;
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables: runs.tables(THP_PLACE, paper),
        happened: runs.happened,
    })
}

/// Section 7: how much faster a program is under Trident than under THP; Trident is 14 % faster than THP and than `HawkEye`, on
/// average.
fn paper(program: &str) -> Vec<Option<f64>> {
    let trident = match program {
        "GUPS" => Some(1.47),
        "Btree" => Some(1.15),
        "XSBench" => Some(1.041),
        _ => None,
    };
    vec![None, Some(1.0), Some(1.0), trident, None]
}
