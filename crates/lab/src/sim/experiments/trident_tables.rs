//! Trident tables 3 and 4 and figure 7: what is mapped by pages of which size, how often giant pages could not be had, and what
//! compaction for them moved.

use std::time::Duration;

use mega_sim::address_space::MappedBytes;
use mega_sim::kernel::Counters;

use super::fragmenter::fragment;
use super::trident_programs::{HEAP, SLAB, none};
use super::trident_tables_reasons::REASONS;
use super::{TRIDENT_KERNEL, TRIDENT_NODE, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::{Resident, kdd2012, netlist_arrays};
use crate::sim::system::{ADAPTIVE_GIANT, System, TRIDENT, TRIDENT_FAULTS, TRIDENT_NC};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-tables",
    title: "memory mapped by giant and huge pages, and what compaction for them moves",
    source: "Trident, tables 3 and 4, figure 7",
    about: "Programs get memory all at once, by slabs of 1 MiB or by the small steps of a heap (Canneal: an array, and then a heap), and use it for five minutes, on a node with 192 GB; unfragmented, and after the paper's fragmenter: a file larger than memory is read, and then pages of it at random. Faults alone, with normal compaction, and with smart compaction. (Figure 7 has no number for a program; in the paper smart compaction copies up to 85 % less.)",
    memory: TRIDENT_NODE,
    scale: 8,
    reasons: REASONS,
    run,
};

const SYSTEMS: [System; 4] = [TRIDENT_FAULTS, TRIDENT_NC, TRIDENT, ADAPTIVE_GIANT];
const NORMAL: usize = 1;
const SMART: usize = 2;

/// A program of the paper: table 3's GB in giant pages and in huge pages by faults alone, with normal and with smart
/// compaction; unfragmented and fragmented. Table 4's failures at faults and at promotion, fragmented.
struct Case {
    name: &'static str,
    gigabytes: f64,
    arrays: fn(u64) -> Vec<u64>,
    piece: u64,
    mapped: [[(f64, f64); 3]; 2],
    failed: (Option<f64>, f64),
}

/// The paper's programs. Btree and Memcached have what table 3 says, which is more than in
/// table 2: there it counts what Trident added.
const CASES: [Case; 8] = [
    Case {
        name: "GUPS",
        gigabytes: 32.0,
        arrays: none,
        piece: u64::MAX,
        mapped: [
            [(31.0, 1.0), (31.0, 1.0), (31.0, 1.0)],
            [(9.0, 2.5), (31.0, 1.0), (31.0, 1.0)],
        ],
        failed: (Some(0.71), 0.0),
    },
    Case {
        name: "XSBench",
        gigabytes: 117.0,
        arrays: none,
        piece: u64::MAX,
        mapped: [
            [(114.0, 2.94), (116.0, 1.2), (116.0, 1.2)],
            [(6.0, 5.3), (79.0, 38.1), (80.0, 37.1)],
        ],
        failed: (Some(0.94), 0.32),
    },
    Case {
        name: "Canneal",
        gigabytes: 32.0,
        arrays: netlist_arrays,
        piece: HEAP,
        mapped: [
            [(8.0, 1.0), (30.0, 2.0), (30.0, 2.0)],
            [(6.0, 1.0), (6.0, 21.0), (8.0, 22.0)],
        ],
        failed: (Some(0.12), 0.92),
    },
    Case {
        name: "Redis",
        gigabytes: 44.0,
        arrays: none,
        piece: HEAP,
        mapped: [
            [(0.0, 0.5), (39.0, 3.4), (39.0, 3.4)],
            [(0.0, 0.0), (25.0, 10.3), (28.0, 14.3)],
        ],
        failed: (None, 0.36),
    },
    Case {
        name: "Btree",
        gigabytes: 25.0,
        arrays: none,
        piece: HEAP,
        mapped: [
            [(0.0, 16.7), (16.0, 5.8), (16.0, 5.8)],
            [(0.0, 11.7), (8.0, 12.73), (12.0, 8.91)],
        ],
        failed: (None, 0.25),
    },
    Case {
        name: "SVM",
        gigabytes: 68.5,
        arrays: kdd2012::arrays,
        piece: HEAP,
        mapped: [
            [(54.0, 14.3), (65.0, 3.5), (65.0, 3.5)],
            [(6.0, 5.0), (53.0, 12.2), (54.0, 9.9)],
        ],
        failed: (Some(0.88), 0.19),
    },
    Case {
        name: "Graph500",
        gigabytes: 63.5,
        arrays: none,
        piece: u64::MAX,
        mapped: [
            [(59.0, 4.01), (60.0, 3.35), (60.0, 3.35)],
            [(5.0, 5.8), (37.0, 24.2), (38.0, 23.6)],
        ],
        failed: (Some(0.91), 0.38),
    },
    Case {
        name: "Memcached",
        gigabytes: 137.0,
        arrays: none,
        piece: SLAB,
        mapped: [
            [(16.0, 121.0), (121.0, 16.0), (121.0, 16.0)],
            [(9.0, 60.0), (12.0, 55.0), (16.0, 60.0)],
        ],
        failed: (Some(0.43), 0.81),
    },
];
const TIME: Duration = Duration::from_secs(300);
/// Between two sweeps of a program. Trident does not look at what is used.
const REST: Duration = Duration::from_secs(60);

/// A program under a system.
struct Run {
    mapped: MappedBytes,
    counters: Counters,
    fmfi: f64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    let mut tables = Vec::new();
    let mut fragmented = Vec::new();
    for (state, is_fragmented) in [("unfragmented", false), ("fragmented", true)] {
        let mut runs: Vec<Vec<Run>> = Vec::new();
        for case in &CASES {
            let mut of_case = Vec::new();
            for system in SYSTEMS {
                (setting.progress)(&format!("{state}, {}, {}", case.name, system.name));
                let (run, what) = one(case, system, is_fragmented, setting)?;
                of_case.push(run);
                super::add(&mut happened, what);
            }
            runs.push(of_case);
        }
        tables.extend(mapped(state, usize::from(is_fragmented), &runs));
        fragmented = runs;
    }
    tables.extend(failures(&fragmented));
    tables.extend(moved(&fragmented));
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables,
        happened,
    })
}

fn one(
    case: &Case,
    system: System,
    is_fragmented: bool,
    setting: &Setting<'_>,
) -> Result<(Run, Happened), Error> {
    let node = setting.scale.bytes(TRIDENT_NODE);
    let mut bed = Testbed::new(system, &[node], setting.scale, hardware::trident_server())?;
    bed.boot(setting.scale.bytes(TRIDENT_KERNEL));
    if is_fragmented {
        fragment(bed.machine.kernel_mut(), setting.seed);
    }
    let memory = bed.machine.kernel().memory();
    let fmfi = 1.0 - share(memory.free_blocks() * 512, memory.free_frames());
    let before = bed.machine.kernel().counters();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some GB
    let paper_bytes = (case.gigabytes * number(1 << 30)) as u64;
    let bytes = setting.scale.bytes(paper_bytes);
    let program = Resident::new(bytes, case.piece.min(bytes), REST);
    let pid = bed.start(program.beginning_with(&(case.arrays)(bytes)));
    bed.run_for(TIME);
    let counters = bed.machine.kernel().counters();
    let run = Run {
        mapped: bed.mapped(pid),
        counters: Counters {
            migrated: counters.migrated - before.migrated,
            ..counters
        },
        fmfi,
    };
    Ok((run, bed.happened()))
}

fn table(title: impl Into<String>, rows: Vec<Row>) -> Table {
    Table::new(title, Unit::Share, names(&SYSTEMS), rows)
}

/// Table 3: shares of what the program has.
fn mapped(state: &str, place: usize, runs: &[Vec<Run>]) -> [Table; 2] {
    let rows = |ours: fn(&MappedBytes) -> u64, paper: fn((f64, f64)) -> f64| {
        let cases = CASES.iter().zip(runs);
        cases
            .map(|(case, runs)| {
                let of = |run: &Run| Some(share(ours(&run.mapped), run.mapped.resident()));
                let known = case.mapped[place].map(|gb| Some(paper(gb) / case.gigabytes));
                let paper = known.into_iter().chain([None]).collect();
                Row::beside(case.name, runs.iter().map(of).collect(), paper)
            })
            .collect()
    };
    [
        table(
            format!("in giant pages, {state}"),
            rows(|mapped| mapped.giant, |(giant, _)| giant),
        ),
        table(
            format!("in huge pages, {state}"),
            rows(|mapped| mapped.huge, |(_, huge)| huge),
        ),
    ]
}

/// Table 4, fragmented.
fn failures(runs: &[Vec<Run>]) -> [Table; 3] {
    let of_all = |done: fn(&Counters) -> (u64, u64)| {
        move |run: &Run| {
            let (failed, done) = done(&run.counters);
            (failed + done > 0).then(|| share(failed, failed + done))
        }
    };
    let faults = of_all(|c| (c.giant_fault_failed, c.giant_faults));
    let promotions = of_all(|c| (c.giant_promotion_failed, c.giant_promotions));
    let cases = || CASES.iter().zip(runs);
    let at_faults = cases().map(|(case, runs)| {
        let mut paper = vec![None; SYSTEMS.len()];
        paper[SMART] = case.failed.0;
        Row::beside(case.name, runs.iter().map(faults).collect(), paper)
    });
    let at_promotions = cases().map(|(case, runs)| {
        let mut paper = vec![None; SYSTEMS.len()];
        paper[SMART] = Some(case.failed.1);
        Row::beside(case.name, runs.iter().map(promotions).collect(), paper)
    });
    // The same for all programs: it is there before they start.
    let fragmentation = runs.first().map(|runs| {
        let ours = runs.iter().map(|run| Some(run.fmfi)).collect();
        // Section 3: the fragmenter makes it 0.95.
        Row::beside("FMFI", ours, vec![Some(0.95); SYSTEMS.len()])
    });
    [
        table(
            "fragmentation of free memory (FMFI) before",
            fragmentation.into_iter().collect(),
        ),
        table(
            "faults that wanted a giant page and found no chunk, fragmented",
            at_faults.collect(),
        ),
        table(
            "promotions to giant pages that found no chunk, fragmented",
            at_promotions.collect(),
        ),
    ]
}

/// Figure 7: what compaction moved for each giant page that was made by promotion. The paper gives no number for each program:
/// smart compaction copies up to 85 % less, which stands beside the program that gains most.
fn moved(runs: &[Vec<Run>]) -> [Table; 2] {
    let moved = |run: &Run| {
        let made = run.counters.giant_promotions;
        (made > 0).then(|| number(run.counters.migrated) / number(made))
    };
    let rows = CASES
        .iter()
        .zip(runs)
        .map(|(case, runs)| Row::ours(case.name, runs.iter().map(moved).collect()));
    let of_normal = runs.iter().filter_map(|runs| {
        let normal = moved(&runs[NORMAL]).filter(|pages| *pages > 0.0)?;
        Some(moved(&runs[SMART])? / normal)
    });
    let mut most = [vec![None; SYSTEMS.len()], vec![None; SYSTEMS.len()]];
    let [ours, paper] = &mut most;
    (ours[NORMAL], ours[SMART]) = (Some(1.0), of_normal.reduce(f64::min));
    (paper[NORMAL], paper[SMART]) = (Some(1.0), Some(1.0 - 0.85));
    let [ours, paper] = most;
    let table =
        |title: &str, rows| Table::new(title, Unit::Count, names(&SYSTEMS), rows).against(NORMAL);
    [
        table(
            "pages moved for each promotion to a giant page, fragmented",
            rows.collect(),
        )
        .better(Better::Lower),
        table(
            "the same, times that of normal compaction",
            vec![Row::beside("the program that gains most", ours, paper)],
        ),
    ]
}
