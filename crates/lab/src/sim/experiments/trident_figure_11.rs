//! Trident figure 11: what huge pages and smart compaction each add to giant pages.

use super::TRIDENT_NODE;
use super::trident_programs::{Memory, Runs, native};
use crate::error::Error;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Table};
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE_GIANT, THP, TRIDENT, TRIDENT_1G_ONLY, TRIDENT_NC};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-11",
    title: "what huge pages and smart compaction each add to giant pages",
    source: "Trident, figure 11",
    about: "The programs of trident-figure-9 under Trident, without huge pages (trident-1g-only) and with normal compaction (trident-nc); with memory unfragmented, and after the paper's fragmenter. The paper has numbers for smart compaction only, as text.",
    memory: TRIDENT_NODE,
    scale: 16,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[Reason {
    of: &[Part {
        tables: &["operations a second (the paper: relative to trident), fragmented"],
        rows: &["XSBench"],
        systems: &["trident-nc"],
    }],
    why: "Smart compaction helps where it has giant pages sooner. Here both have as many, a quarter of XSBench's memory, and as much of the time in translation.",
    known: &[Known::Run(&[
        Number::Cell("memory in giant pages, fragmented", "XSBench", "trident-nc"),
        Number::Cell("memory in giant pages, fragmented", "XSBench", "trident"),
        Number::Cell(
            "cycles in translation in the last minute, fragmented",
            "XSBench",
            "trident-nc",
        ),
        Number::Cell(
            "cycles in translation in the last minute, fragmented",
            "XSBench",
            "trident",
        ),
    ])],
}];

const TRIDENT_PLACE: usize = 3;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let systems = native([THP, TRIDENT_1G_ONLY, TRIDENT_NC, TRIDENT, ADAPTIVE_GIANT]);
    let mut tables = Vec::new();
    let mut happened = Vec::new();
    for (state, gain) in [
        ("unfragmented", unfragmented as fn(&str) -> Option<f64>),
        ("fragmented", fragmented),
    ] {
        (setting.progress)(state);
        let memory = match state {
            "fragmented" => Memory::fragmented(setting)?,
            _ => Memory::Unfragmented,
        };
        let runs = Runs::of(&systems, &memory, setting)?;
        let paper = |program: &str| {
            let normal = gain(program).map(|gain| 1.0 / gain);
            vec![None, None, normal, Some(1.0), None]
        };
        for table in runs.tables(TRIDENT_PLACE, paper) {
            let title = format!("{}, {state}", table.title);
            tables.push(Table { title, ..table });
        }
        for what in runs.happened {
            super::add(&mut happened, what);
        }
    }
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables,
        happened,
    })
}

/// Section 7: smart compaction makes no difference where memory is unfragmented.
fn unfragmented(_: &str) -> Option<f64> {
    Some(1.0)
}

/// How many times as fast smart compaction makes a program where memory is fragmented (section 7): XSBench by 6 %, SVM, Btree,
/// Graph500, Memcached and Canneal by 2 to 5 %, GUPS and Redis not.
fn fragmented(program: &str) -> Option<f64> {
    match program {
        "GUPS" | "Redis" => Some(1.0),
        "SVM" | "Btree" | "Graph500" | "Memcached" | "Canneal" => Some(1.035),
        "XSBench" => Some(1.06),
        _ => None,
    }
}
