//! Trident figure 13: a guest whose hypervisor exchanges memory instead of letting it be copied.

use mega_core::PageSize;
use mega_sim::translation::Walk;

use super::TRIDENT_NODE;
use super::trident_programs::{Memory, Runs};
use crate::error::Error;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::Findings;
use crate::sim::system::{ADAPTIVE_GIANT, THP, TRIDENT_PV, TRIDENT_TENTH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-13",
    title: "a guest whose hypervisor exchanges memory instead of letting it be copied",
    source: "Trident, figure 13",
    about: "The programs of trident-figure-9 in a guest with fragmented memory, in which promotion may use a tenth of a core: with copies, and with an exchange by the hypervisor of what lies behind huge pages (trident-pv). The host maps the guest's memory by giant pages, and by huge ones under THP. adaptive copies, within its own budgets.",
    memory: TRIDENT_NODE,
    scale: 16,
    reasons: &[],
    run,
};

const TRIDENT_PLACE: usize = 1;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let systems = [
        (THP, PageSize::Huge),
        (TRIDENT_TENTH, PageSize::Giant),
        (TRIDENT_PV, PageSize::Giant),
        (ADAPTIVE_GIANT, PageSize::Giant),
    ]
    .map(|(system, host)| (system, Walk::Nested(host)));
    let runs = Runs::of(&systems, &Memory::fragmented(setting)?, setting)?;
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables: runs.tables(TRIDENT_PLACE, paper),
        happened: runs.happened,
    })
}

/// Section 7: XSBench, GUPS, Memcached and SVM are 5 % faster, on average; Btree, Graph500 and Canneal are not.
fn paper(program: &str) -> Vec<Option<f64>> {
    let exchanged = match program {
        "GUPS" | "XSBench" | "Memcached" | "SVM" => Some(1.05),
        "Btree" | "Graph500" | "Canneal" => Some(1.0),
        _ => None,
    };
    vec![None, Some(1.0), exchanged, None]
}
