//! MEGA table 4: two programs that use a sixth of their memory.

use std::time::Duration;

use mega_core::HUGE_PAGE_SIZE;

use super::{MEGA_BYTES, in_use, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{cells, number};
use crate::sim::programs::Resident;
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-table-4",
    title: "huge pages and free blocks when two programs use a sixth of their memory",
    source: "MEGA, table 4",
    about: "Two programs fill 6 GB each, in chunks of 32 MB, and then use every sixth chunk. Huge pages in use and free blocks after a minute, and after three.",
    memory: MEGA_BYTES,
    scale: 1,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[
    Reason {
        of: &[Part {
            tables: &["huge pages"],
            rows: &[],
            systems: &["mega"],
        }],
        why: "mega has the paper's 1,024. Ingens's policy gives 6,144, as here; it had 2,447 on the paper's machine, whose memory was fragmented, and does not notice that a promotion failed.",
        known: &[
            Known::Paper("section 4.2"),
            Known::Run(&[
                Number::Cell("huge pages of the programs", "after a minute", "mega"),
                Number::Cell("huge pages of the programs", "after a minute", "ingens"),
            ]),
        ],
    },
    Reason {
        of: &[Part {
            tables: &["free blocks"],
            rows: &[],
            systems: &["mega"],
        }],
        why: "The programs fill 6,144 of the blocks that were free before, and what they leave lies in blocks here. On the paper's machine memory is extremely fragmented by then, so that less of what they leave does.",
        known: &[
            Known::Paper("section 4.2"),
            Known::Run(&[
                Number::Cell("free blocks", "before", "ingens"),
                Number::Cell("free blocks", "after a minute", "ingens"),
                Number::Cell("free blocks", "after a minute", "mega"),
            ]),
        ],
    },
];

const SYSTEMS: [System; 6] = [THP, INGENS, MEGA, ADAPTIVE, HAWKEYE, TRIDENT];
/// Table 4, of Ingens and of MEGA.
const HUGE_PAGES: [f64; 2] = [2_447.0, 1_024.0];
/// Blocks free before under Ingens: so many are here, too (under MEGA there were 6,733).
const BEFORE: u64 = 6_710;
const AFTER: [f64; 2] = [50.0, 282.0];
const REFERENCE: usize = 1;

const PROGRAMS: u32 = 2;
const CHUNK: u64 = 32 << 20;
const EVERY: usize = 6;

/// What there was at one time: free blocks, and huge pages.
struct Seen {
    free: u64,
    huge: u64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memory_bytes = setting.scale.bytes(MEGA_BYTES);
    let mut happened = Vec::new();
    let mut runs: Vec<[Seen; 3]> = Vec::new();
    for system in SYSTEMS {
        (setting.progress)(system.name);
        let hardware = hardware::mega_notebook();
        let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
        runs.push(one(&mut bed, setting));
        happened.push(bed.happened());
    }
    let scaled = |[ingens, mega]: [f64; 2]| {
        let parts = number(setting.scale.parts());
        let known = [None, Some(ingens / parts), Some(mega / parts)];
        known.into_iter().chain([None; 3]).collect::<Vec<_>>()
    };
    let of = |value: &dyn Fn(&[Seen; 3]) -> u64| cells(runs.iter().map(value));
    let table = |title: &str, rows| {
        Table::new(title, Unit::Count, names(&SYSTEMS), rows).against(REFERENCE)
    };
    let after_three = "after three minutes";
    Ok(Findings {
        memory_bytes,
        tables: vec![
            table(
                "huge pages of the programs",
                vec![
                    Row::beside("after a minute", of(&|run| run[1].huge), scaled(HUGE_PAGES)),
                    Row::ours(after_three, of(&|run| run[2].huge)),
                ],
            ),
            table(
                "free blocks",
                vec![
                    Row::ours("before", of(&|run| run[0].free)),
                    Row::beside("after a minute", of(&|run| run[1].free), scaled(AFTER)),
                    Row::ours(after_three, of(&|run| run[2].free)),
                ],
            )
            .better(Better::Higher),
        ],
        happened,
    })
}

fn one(bed: &mut Testbed, setting: &Setting<'_>) -> [Seen; 3] {
    bed.boot(setting.scale.bytes(in_use(BEFORE)));
    let before = Seen {
        free: bed.free_blocks(),
        huge: 0,
    };
    let bytes = setting.scale.bytes(6 << 30);
    // Chunks shrink with memory as soon as there would be fewer than every sixth.
    let chunk = CHUNK.min(setting.scale.bytes(6 << 30) / 48 / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE);
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|_| bed.start(Resident::sparse(bytes, chunk.max(HUGE_PAGE_SIZE), EVERY)))
        .collect();
    let mut seen = |time| {
        bed.run_for(Duration::from_secs(time));
        let huge: u64 = programs.iter().map(|&pid| bed.mapped(pid).huge).sum();
        Seen {
            free: bed.free_blocks(),
            huge: huge / HUGE_PAGE_SIZE,
        }
    };
    [before, seen(60), seen(120)]
}
