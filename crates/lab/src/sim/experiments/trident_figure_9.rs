//! Trident figure 9: programs with pages of three sizes, memory unfragmented.

use super::TRIDENT_NODE;
use super::trident_programs::{HAWKEYE_BESIDE_THP, Memory, Runs, native};
use crate::error::Error;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::Findings;
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE_GIANT, BASE, HAWKEYE, THP, TRIDENT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-9",
    title: "programs with pages of three sizes, memory unfragmented",
    source: "Trident, figure 9",
    about: "Programs with the access patterns of the paper's eight run for five minutes on a node with 192 GB: GUPS (32 GB), Btree (10.5 GB, grown in small steps), XSBench (117 GB), SVM (67.9 GB: LIBLINEAR's coordinate descent over data as sparse as kdd2012), Graph500 (63.5 GB: the beginning of a breadth-first search over a Kronecker graph), Redis (43.6 GB, grown in small steps), Memcached (79 GB, in slabs of 1 MiB) and Canneal (32 GB: an array, and a heap that grows in small steps). Redis and Memcached are asked for keys by Zipf's law with YCSB's exponent, and SVM's features are as frequent as Zipf's law says: assumptions, since the paper does not say. Each fills its memory and then does operations, one after the other, on a core of a simulated Skylake-SP: what it does from then on in each second, with all that it stands still for, and in the last minute. Of 16 operations one is done and the others take as long, so policies see the Accessed bits of a sixteenth. A smaller machine needs fewer pages, so larger ones gain less on it.",
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
            rows: &["GUPS", "SVM", "Canneal"],
            systems: &["trident"],
        }],
        why: "Giant pages can gain no more than huge pages leave, and at 1/16 of the memory huge pages leave little in translation: the L2 TLB's 1,536 entries reach 3 GiB, which is more than GUPS and Canneal have here.",
        known: &[Known::Run(&[
            Number::Cell("cycles in translation in the last minute", "GUPS", "thp"),
            Number::Cell("cycles in translation in the last minute", "SVM", "thp"),
            Number::Cell("cycles in translation in the last minute", "Canneal", "thp"),
        ])],
    },
];

const THP_PLACE: usize = 1;
/// Section 7: Trident is 14 % faster than THP, and 14 % faster than `HawkEye`, on average.
const TRIDENT_MEAN: f64 = 1.14;
const HAWKEYE_MEAN: f64 = 1.0;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let systems = native([BASE, THP, HAWKEYE, TRIDENT, ADAPTIVE_GIANT]);
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

/// Section 7: how much faster a program is under Trident than under THP.
fn paper(program: &str) -> Vec<Option<f64>> {
    let trident = match program {
        "GUPS" => Some(1.47),
        "Btree" => Some(1.15),
        "XSBench" => Some(1.041),
        "SVM" => Some(1.112),
        "Canneal" => Some(1.30),
        _ => None,
    };
    vec![None, Some(1.0), None, trident, None]
}
