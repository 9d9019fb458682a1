//! MEGA tables 2 and 3: the latency of page faults.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;

use super::{MEGA_BYTES, MEGA_KERNEL, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::cells;
use crate::sim::programs::Objects;
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-faults",
    title: "the latency of page faults",
    source: "MEGA, tables 2 and 3",
    about: "A program fills memory with 2 million objects of 4 KiB, in chunks of 2 MiB, and beside them pages that no huge page can map: as many as the paper's faults with huge pages leave over. The time of its faults. The costs of a base and of a huge fault come from table 2, so what is found here is how many there are of each, and what else they wait for.",
    memory: MEGA_BYTES,
    scale: 1,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[
    Reason {
        of: &[Part {
            tables: &["time of a fault", "faults"],
            rows: &[],
            systems: &["thp"],
        }],
        why: "What a base and a huge fault cost is put in from table 2, each the same every time, and so is the number of faults that are not the objects': the mean, the percentiles and the count follow from that. So base pages' 99th percentile is a mean here, and huge pages' is what it is in the paper.",
        known: &[Known::Input],
    },
    Reason {
        of: &[Part {
            tables: &["time of a fault"],
            rows: &[],
            systems: &["mega"],
        }],
        why: "Its kernel does bookkeeping in each fault: page mappings, utilization, and what compaction wants to know. mega's engine looks at page tables from outside, so here the policy adds nothing to a fault.",
        known: &[Known::Paper("section 4.1")],
    },
    Reason {
        of: &[Part {
            tables: &["time of a fault"],
            rows: &["average", "90th percentile", "99th percentile"],
            systems: &["ingens"],
        }],
        why: "Its kernel looks the region up in a radix tree in each fault, sets a bit, and counts those of 512 that are set. mega's engine looks at page tables from outside, so here the policy adds nothing to a fault.",
        known: &[Known::Source("Ingens, mm/memory.c, do_anonymous_page")],
    },
    Reason {
        of: &[Part {
            tables: &["time of a fault"],
            rows: &["99.9th percentile"],
            systems: &["ingens"],
        }],
        why: "Its kernel wakes khugepaged in the fault that completes a region, so it promotes while the program still fills its memory, and faults wait for that. Here a policy looks every five seconds, and the program is through after two.",
        known: &[
            Known::Source("Ingens, mm/memory.c, do_anonymous_page, and mm/huge_memory.c"),
            Known::Run(&[
                Number::Count("regions promoted", "ingens"),
                Number::Count("ms that programs stood still", "ingens"),
            ]),
        ],
    },
];

const SYSTEMS: [System; 7] = [BASE, THP, INGENS, MEGA, ADAPTIVE, HAWKEYE, TRIDENT];
/// Section 2.4: SETs of 4 KiB.
const OBJECTS: u64 = 2_000_000;
/// Table 2: 291,098 faults with huge pages, of which the objects' chunks of 2 MiB need one each.
const OTHERS: u64 = 291_098 - OBJECTS.div_ceil(512);
/// Table 2: how many there are with base pages, and with huge pages.
const COUNTS: [f64; 2] = [2_731_657.0, 291_098.0];
/// Table 3, in microseconds: Linux with base pages, with huge pages, Ingens, MEGA. The others are not in it.
const AVERAGE: [f64; 4] = [0.9, 2.9, 1.6, 2.5];
const P90: [f64; 4] = [1.5, 1.8, 1.7, 3.1];
const P99: [f64; 4] = [2.8, 118.2, 4.5, 6.1];
const P999: [f64; 4] = [4.2, 123.8, 400.8, 15.1];
/// A run that takes longer stands still.
const LIMIT: Duration = Duration::from_secs(600);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memory_bytes = setting.scale.bytes(MEGA_BYTES);
    let hardware = hardware::mega_notebook();
    let heap = setting.scale.bytes(OBJECTS * BASE_PAGE_SIZE);
    let mut happened = Vec::new();
    let mut runs = Vec::new();
    for system in SYSTEMS {
        (setting.progress)(system.name);
        let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
        bed.boot(setting.scale.bytes(MEGA_KERNEL));
        let pid = bed.start(Objects::new(heap, setting.scale.count(OTHERS)));
        bed.run_to_the_end(LIMIT);
        runs.push(bed.machine.kernel().process(pid).all_faults());
        happened.push(bed.happened());
    }
    let paper = |row: [f64; 4]| {
        let known = row.into_iter().map(|microseconds| Some(microseconds * 1e3));
        known.chain([None; 3]).collect()
    };
    let nanoseconds = |cycles: u64| hardware.costs.time(cycles).as_secs_f64() * 1e9;
    let percentile = |per_mille| {
        let of = runs
            .iter()
            .map(|run| Some(nanoseconds(run.per_mille(per_mille))));
        of.collect::<Vec<_>>()
    };
    let hertz = crate::sim::numbers::number(hardware.costs.hertz);
    let means = runs.iter().map(|run| Some(run.mean() / hertz * 1e9));
    let rows = vec![
        Row::beside("average", means.collect(), paper(AVERAGE)),
        Row::beside("90th percentile", percentile(900), paper(P90)),
        Row::beside("99th percentile", percentile(990), paper(P99)),
        Row::beside("99.9th percentile", percentile(999), paper(P999)),
    ];
    let table = |title: &str, unit, rows| Table::new(title, unit, names(&SYSTEMS), rows);
    let faults = cells(runs.iter().map(mega_sim::latencies::Latencies::count));
    let scaled = |count| Some(count / crate::sim::numbers::number(setting.scale.parts()));
    let known = COUNTS.map(scaled).into_iter();
    let counts = known.chain([None; SYSTEMS.len() - COUNTS.len()]).collect();
    Ok(Findings {
        memory_bytes,
        tables: vec![
            table("time of a fault", Unit::Nanoseconds, rows)
                .against(0)
                .better(Better::Lower),
            table(
                "faults",
                Unit::Count,
                vec![Row::beside("faults", faults, counts)],
            )
            .against(0),
        ],
        happened,
    })
}
