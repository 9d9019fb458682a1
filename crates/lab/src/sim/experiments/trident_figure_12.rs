//! Trident figure 12: programs in a guest, with the same pages in guest and host.

use mega_core::PageSize;
use mega_sim::translation::Walk;

use super::TRIDENT_NODE;
use super::trident_programs::{HAWKEYE_BESIDE_THP, Memory, Runs};
use crate::error::Error;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::Findings;
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE_GIANT, BASE, HAWKEYE, THP, TRIDENT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-12",
    title: "programs in a guest, with the same pages in guest and host",
    source: "Trident, figure 12",
    about: "The programs of trident-figure-9 in a guest with unfragmented memory, with nested walks: the host maps the guest's memory by the largest pages that the system makes. The paper says in numbers what Canneal, Graph500, SVM and all its programs gain on average.",
    memory: TRIDENT_NODE,
    scale: 16,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[
    HAWKEYE_BESIDE_THP,
    Reason {
        of: &[Part {
            tables: &["operations a second (the paper: relative to thp)"],
            rows: &["SVM", "Graph500", "Canneal"],
            systems: &["trident"],
        }],
        why: "Giant pages can gain no more than huge pages leave, and at 1/16 of the memory huge pages leave little in translation, in a guest, too: the L2 TLB's 1,536 entries reach 3 GiB.",
        known: &[Known::Run(&[
            Number::Cell("cycles in translation in the last minute", "SVM", "thp"),
            Number::Cell(
                "cycles in translation in the last minute",
                "Graph500",
                "thp",
            ),
            Number::Cell("cycles in translation in the last minute", "Canneal", "thp"),
        ])],
    },
];

const THP_PLACE: usize = 1;
/// Section 7: Trident is 16 % faster than THP and 15 % faster than `HawkEye`, on average.
const TRIDENT_MEAN: f64 = 1.16;
const HAWKEYE_MEAN: f64 = 1.16 / 1.15;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let systems = [
        (BASE, PageSize::Base),
        (THP, PageSize::Huge),
        (HAWKEYE, PageSize::Huge),
        (TRIDENT, PageSize::Giant),
        (ADAPTIVE_GIANT, PageSize::Giant),
    ]
    .map(|(system, host)| (system, Walk::Nested(host)));
    let runs = Runs::of(&systems, &Memory::Unfragmented, setting)?;
    let mean = vec![
        None,
        Some(1.0),
        Some(HAWKEYE_MEAN),
        Some(TRIDENT_MEAN),
        None,
    ];
    let mut tables = vec![runs.mean_speeds(THP_PLACE, mean)];
    tables.extend(runs.tables(THP_PLACE, paper));
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables,
        happened: runs.happened,
    })
}

/// Section 7: Canneal is 50 % faster under Trident than under THP, Graph500 and SVM 6 %.
fn paper(program: &str) -> Vec<Option<f64>> {
    let trident = match program {
        "Canneal" => Some(1.5),
        "Graph500" | "SVM" => Some(1.06),
        _ => None,
    };
    vec![None, Some(1.0), None, trident, None]
}
