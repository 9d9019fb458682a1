//! MEGA tables 9 and 10: a program that needs blocks after another has left holes of half a block all over a large machine.

use std::time::Duration;

use mega_core::Machine as _;

use super::names;
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{cells, number};
use crate::sim::programs::{Holes, Values};
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-table-9",
    title: "values of 2 MB after another program left holes of 1 MB in 256 GB",
    source: "MEGA, tables 9 and 10",
    about: "A program fills 200 GB, frees every second MB, and five times fills 100 GB and frees what it had before. Then another stores 40000 values of 2 MB. Its requests a second, and the blocks that are free at its end and five minutes later. The paper's requests come over a network from 50 clients, which is not simulated: here a request is what its memory costs. Costs and processor are those of MEGA's other machine.",
    memory: 256 << 30,
    scale: 8,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[
    Reason {
        of: &[Part {
            tables: &["values stored"],
            rows: &[],
            systems: &["mega"],
        }],
        why: "A request is nothing but its base faults here, which cost the same wherever free memory lies, and at this size all values are stored before a manager looks for the first time. In the paper requests come over a network and take three to four times as long, and what Ingens does meanwhile slows them.",
        known: &[
            Known::Paper("section 4.5"),
            Known::Run(&[
                Number::Cell("values stored a second", "values", "mega"),
                Number::Cell("values stored a second", "values", "ingens"),
                Number::Cell("values stored a second", "values", "thp"),
            ]),
        ],
    },
    Reason {
        of: &[Part {
            tables: &["free blocks"],
            rows: &[],
            systems: &["mega"],
        }],
        why: "The paper says that Ingens's promotions fragment memory and that its compaction does not keep up. Here none of its promotions fails: where a block is lacking the kernel compacts for it, what was promoted lies in whole blocks, and so does what is free beside it. Under MEGA nothing is promoted, and its compaction has not yet emptied as much at the end; five minutes later it has.",
        known: &[
            Known::Paper("section 4.5"),
            Known::Run(&[
                Number::Cell("free blocks", "before", "ingens"),
                Number::Cell("free blocks", "before", "mega"),
                Number::Cell("free blocks", "five minutes later", "mega"),
                Number::Count("promotions that lacked memory", "ingens"),
                Number::Count("compactions in faults and promotions", "ingens"),
                Number::Count("regions promoted", "mega"),
            ]),
        ],
    },
];

const SYSTEMS: [System; 6] = [THP, INGENS, MEGA, ADAPTIVE, HAWKEYE, TRIDENT];
const INGENS_PLACE: usize = 1;
/// Section 4.5.
const FILLED: u64 = 200 << 30;
const ROUNDS: u32 = 5;
const VALUES: u64 = 40_000;
const VALUE: u64 = 2 << 20;
/// Redis's own words before a value (`struct sdshdr32`, the robj): a page more.
const HEADER: u64 = 4096;
/// What the kernel has of the machine: as large a part as on MEGA's other one.
const KERNEL: u64 = (256 << 30) / 32;
/// Table 9, in requests a second, and table 10, in blocks.
const REQUESTS: [Option<f64>; 6] = [None, Some(501.54), Some(638.05), None, None, None];
const BLOCKS: [Option<f64>; 6] = [None, Some(158.0), Some(2306.0), None, None, None];
/// A run that takes longer stands still.
const LIMIT: Duration = Duration::from_secs(3600);
const AFTERWARDS: Duration = Duration::from_secs(300);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memory_bytes = setting.scale.bytes(256 << 30);
    let values = setting.scale.count(VALUES);
    let mut happened = Vec::new();
    let (mut requests, mut before, mut blocks, mut later) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for system in SYSTEMS {
        (setting.progress)(system.name);
        let hardware = hardware::mega_notebook();
        let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
        bed.boot(setting.scale.bytes(KERNEL));
        bed.start(Holes::new(setting.scale.bytes(FILLED), ROUNDS));
        bed.run_to_the_end(LIMIT);
        before.push(bed.free_blocks());
        let started = bed.machine.now();
        let pid = bed.start(Values::new(values, VALUE + HEADER));
        bed.run_to_the_end(LIMIT);
        let ended = bed.machine.ended(pid).filter(|ended| ended.fault.is_none());
        let took = ended.map(|ended| ended.at.saturating_sub(started).as_secs_f64());
        requests.push(took.map(|took| number(values) / took));
        blocks.push(bed.free_blocks());
        bed.run_for(AFTERWARDS);
        later.push(bed.free_blocks());
        happened.push(bed.happened());
    }
    let table = |title: &str, unit, rows| {
        Table::new(title, unit, names(&SYSTEMS), rows)
            .against(INGENS_PLACE)
            .better(Better::Higher)
    };
    Ok(Findings {
        memory_bytes,
        tables: vec![
            table(
                "values stored a second",
                Unit::PerSecond,
                vec![Row::beside("values", requests, REQUESTS.to_vec())],
            ),
            table(
                "free blocks (the paper: of a machine with 256 GB)",
                Unit::Count,
                vec![
                    Row::ours("before", cells(before)),
                    Row::beside("at the end", cells(blocks), BLOCKS.to_vec()),
                    Row::ours("five minutes later", cells(later)),
                ],
            ),
        ],
        happened,
    })
}
