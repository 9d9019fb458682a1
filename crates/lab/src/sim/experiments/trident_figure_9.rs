//! Trident figure 9: programs with pages of three sizes, memory unfragmented.

use std::time::Duration;

use mega_sim::kernel::Pid;
use mega_sim::translation::{Counts, Mmu, SKYLAKE_SP, Walk};

use super::{TRIDENT_NODE, names};
use crate::error::Error;
use crate::live::metric::Unit;
use crate::random::Random;
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::{Accesses, Resident};
use crate::sim::system::{ADAPTIVE_GIANT, BASE, HAWKEYE, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-9",
    title: "programs with pages of three sizes, memory unfragmented",
    source: "Trident, figure 9",
    about: "Programs with the access patterns of GUPS (32 GB), Btree (10.5 GB, grown in small steps) and XSBench (117 GB) run for five minutes on a node with 192 GB. Then what an operation costs on a simulated Skylake-SP, with the pages that map the memory by then. Smaller machines need fewer pages, so the scale should be 1.",
    memory: TRIDENT_NODE,
    scale: 1,
    run,
};

const SYSTEMS: [System; 5] = [BASE, THP, HAWKEYE, TRIDENT, ADAPTIVE_GIANT];
const THP_PLACE: usize = 1;
const HAWKEYE_PLACE: usize = 2;
const TRIDENT_PLACE: usize = 3;

/// A program of the paper, and how much faster it is under Trident than under THP (section 7).
struct Case {
    name: &'static str,
    bytes: u64,
    /// The pieces in which its memory comes.
    piece: u64,
    accesses: Accesses,
    trident: f64,
}

/// Sizes are those of table 2.
const CASES: [Case; 3] = [
    Case {
        name: "GUPS",
        bytes: 32 << 30,
        piece: 32 << 30,
        accesses: Accesses::Gups,
        trident: 1.47,
    },
    Case {
        name: "Btree",
        bytes: 21 << 29,
        piece: 128 << 10,
        accesses: Accesses::Btree,
        trident: 1.15,
    },
    Case {
        name: "XSBench",
        bytes: 117 << 30,
        piece: 117 << 30,
        accesses: Accesses::XsLookup,
        trident: 1.041,
    },
];
/// Section 7: Trident is 14 % faster than THP and than `HawkEye`, on average.
const HAWKEYE_TO_THP: f64 = 1.0;

const TIME: Duration = Duration::from_secs(300);
/// Between two sweeps of a program: so short that each look of a manager finds what is used.
const REST: Duration = Duration::from_secs(4);
/// Touches before those that count, and those, at the paper's size; fewer where there is less to touch.
const WARM_UP: u64 = 500_000;
const MEASURED: u64 = 2_000_000;
/// So many at least.
const FEWEST: u64 = 20_000;

/// A program under a system.
struct Run {
    operations_per_second: f64,
    translation: f64,
    giant: f64,
    huge: f64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    let mut runs: Vec<Vec<Run>> = Vec::new();
    for case in &CASES {
        let mut of_case = Vec::new();
        for system in SYSTEMS {
            (setting.progress)(&format!("{}, {}", case.name, system.name));
            let (run, what) = one(case, system, setting)?;
            of_case.push(run);
            super::add(&mut happened, what);
        }
        runs.push(of_case);
    }
    let paper = |case: &Case| {
        let mut paper = vec![None; SYSTEMS.len()];
        paper[THP_PLACE] = Some(1.0);
        paper[HAWKEYE_PLACE] = Some(HAWKEYE_TO_THP);
        paper[TRIDENT_PLACE] = Some(case.trident);
        paper
    };
    let rows = |value: fn(&Run) -> f64, paper: &dyn Fn(&Case) -> Vec<Option<f64>>| {
        let cases = CASES.iter().zip(&runs);
        cases
            .map(|(case, runs)| {
                let ours = runs.iter().map(|run| Some(value(run))).collect();
                Row::beside(case.name, ours, paper(case))
            })
            .collect()
    };
    let none = |_: &Case| vec![None; SYSTEMS.len()];
    let table = |title: &str, unit, rows| Table::new(title, unit, names(&SYSTEMS), rows);
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables: vec![
            table(
                "operations a second (the paper: relative to THP)",
                Unit::PerSecond,
                rows(|run| run.operations_per_second, &paper),
            )
            .against(THP_PLACE),
            table(
                "cycles in translation",
                Unit::Share,
                rows(|run| run.translation, &none),
            ),
            table(
                "memory in giant pages",
                Unit::Share,
                rows(|run| run.giant, &none),
            ),
            table(
                "memory in huge pages",
                Unit::Share,
                rows(|run| run.huge, &none),
            ),
        ],
        happened,
    })
}

fn one(case: &Case, system: System, setting: &Setting<'_>) -> Result<(Run, Happened), Error> {
    let hardware = hardware::trident_server();
    let node = setting.scale.bytes(TRIDENT_NODE);
    let mut bed = Testbed::new(system, &[node], setting.scale, hardware)?;
    let bytes = setting.scale.bytes(case.bytes);
    let pid = bed.start(Resident::new(bytes, case.piece.min(bytes), REST));
    bed.run_for(TIME);
    let mapped = bed.mapped(pid);
    let (operations, counts) = measure(&mut bed, pid, case, bytes, setting)?;
    let seconds = number(counts.cycles) / number(hardware.costs.hertz);
    let run = Run {
        operations_per_second: number(operations) / seconds,
        translation: share(counts.translation, counts.cycles),
        giant: share(mapped.giant, mapped.resident()),
        huge: share(mapped.huge, mapped.resident()),
    };
    Ok((run, bed.happened()))
}

/// Operations over a program's memory as it is mapped now, while nothing else runs.
fn measure(
    bed: &mut Testbed,
    pid: Pid,
    case: &Case,
    bytes: u64,
    setting: &Setting<'_>,
) -> Result<(u64, Counts), Error> {
    let kernel = bed.machine.kernel_mut();
    // However it came about, the memory lies in one piece: mappings follow each other downwards.
    let start = kernel.process(pid).space.areas()[0].start;
    let mut mmu = Mmu::new(&SKYLAKE_SP, Walk::Native);
    let mut random = Random::new(setting.seed);
    let [warm_up, measured] =
        [WARM_UP, MEASURED].map(|touches| setting.scale.count(touches).max(FEWEST));
    let mut operations = 0;
    let mut is_warm = false;
    while !is_warm || mmu.counts().touches < measured {
        for offset in case.accesses.next(bytes, &mut random) {
            let address = start + offset;
            let touched = kernel
                .touch(pid, address)
                .map_err(|fault| Error::Failed(format!("simulating {}: {fault}", case.name)))?;
            mmu.touch(address, touched.page_size);
        }
        operations += 1;
        if !is_warm && mmu.counts().touches >= warm_up {
            (is_warm, operations) = (true, 0);
            mmu.reset_counts();
        }
    }
    Ok((operations, mmu.counts()))
}
