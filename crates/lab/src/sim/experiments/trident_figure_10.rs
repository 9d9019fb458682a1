//! Trident figure 10: programs with pages of three sizes, memory fragmented.

use super::TRIDENT_NODE;
use super::trident_programs::{Memory, Runs, native};
use crate::error::Error;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::Findings;
use crate::sim::system::{ADAPTIVE_GIANT, BASE, HAWKEYE, THP, TRIDENT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-10",
    title: "programs with pages of three sizes, memory fragmented",
    source: "Trident, figure 10",
    about: "The programs of trident-figure-9 after the paper's fragmenter: a file larger than memory is read, and then pages of it at random. The paper has a number for GUPS under Trident (more than 50 % faster than THP), and one for the mean of its programs.",
    memory: TRIDENT_NODE,
    scale: 16,
    reasons: &[],
    run,
};

const THP_PLACE: usize = 1;
/// Section 7: Trident is 18 % faster than THP on average.
const TRIDENT_MEAN: f64 = 1.18;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let systems = native([BASE, THP, HAWKEYE, TRIDENT, ADAPTIVE_GIANT]);
    let runs = Runs::of(&systems, &Memory::fragmented(setting)?, setting)?;
    let mean = vec![None, Some(1.0), None, Some(TRIDENT_MEAN), None];
    let mut tables = vec![runs.mean_speeds(THP_PLACE, mean)];
    tables.extend(runs.tables(THP_PLACE, paper));
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables,
        happened: runs.happened,
    })
}

/// Section 7: "GUPS quickens by over 50 %". The figure's bars have no numbers.
fn paper(program: &str) -> Vec<Option<f64>> {
    let trident = (program == "GUPS").then_some(1.5);
    vec![None, Some(1.0), None, trident, None]
}
