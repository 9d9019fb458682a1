//! Trident table 5: the tail latency of servers of keys and values.

use std::time::Duration;

use super::trident_programs::Memory;
use super::{TRIDENT_NODE, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::programs::{Load, Server};
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE_GIANT, BASE, System, THP, TRIDENT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-table-5",
    title: "the tail latency of servers of keys and values",
    source: "Trident, table 5",
    about: "A server stores values of 4 KiB, as many as the paper's Redis (43.6 GB) or Memcached (79 GB) has memory for, and reads each twice, at random. One thread answers 50 clients, of which each waits for an answer before it asks again; a request takes 10 us beside its touches. Redis has memory in pieces of 2 MiB, as from jemalloc, Memcached in slabs of 1 MiB. The paper does not say how many clients it had, what they asked for, or how long a request took, so only what page sizes change is compared, and here page faults weigh more than there.",
    memory: TRIDENT_NODE,
    scale: 16,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[Reason {
    of: &[Part {
        tables: &["99th percentile"],
        rows: &["Redis, not fragmented"],
        systems: &["trident"],
    }],
    why: "A huge fault zeroes 2 MiB, and all 50 clients wait for that once in 512 values stored, which is one request in 31. Here that takes longer than 50 requests do together. In the paper the 99th percentile is 47 ms, so its requests take some hundred times as long, and 0.85 ms (section 5.1.2) are 2 % of that. Under THP it is the same.",
    known: &[
        Known::Paper("table 5, section 5.1.2"),
        Known::Run(&[
            Number::Cell("99th percentile", "Redis, not fragmented", "base"),
            Number::Cell("99th percentile", "Redis, not fragmented", "thp"),
            Number::Cell("99th percentile", "Redis, not fragmented", "trident"),
            Number::Count("faults of huge pages", "trident"),
        ]),
    ],
}];

const SYSTEMS: [System; 4] = [BASE, THP, TRIDENT, ADAPTIVE_GIANT];

/// A server, and the paper's milliseconds with 4 KiB, THP and Trident: in memory that is not fragmented, and in memory that is.
struct Case {
    name: &'static str,
    bytes: u64,
    piece: u64,
    paper: [[f64; 3]; 2],
}

const CASES: [Case; 2] = [
    Case {
        name: "Redis",
        // 43.6 GB.
        bytes: 436 * (1 << 30) / 10,
        piece: 2 << 20,
        paper: [[47.3, 50.3, 46.6], [53.3, 53.3, 52.0]],
    },
    Case {
        name: "Memcached",
        bytes: 79 << 30,
        piece: 1 << 20,
        paper: [[1.53, 1.52, 1.53], [1.55, 1.55, 1.54]],
    },
];

const VALUE: u64 = 4 << 10;
const READS: u64 = 2;
/// `redis-benchmark` has 50 clients where none are asked for.
const CLIENTS: usize = 50;
/// Redis answers some 100,000 requests a second without pipelining (its documentation, "Redis benchmark").
const REQUEST: Duration = Duration::from_micros(10);
/// A run that takes longer stands still.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memories = [
        ("not fragmented", Memory::Unfragmented),
        ("fragmented", Memory::fragmented(setting)?),
    ];
    let mut happened: Vec<Happened> = Vec::new();
    let mut rows = Vec::new();
    for case in &CASES {
        for ((state, memory), paper) in memories.iter().zip(case.paper) {
            let mut row = Vec::new();
            for system in SYSTEMS {
                (setting.progress)(&format!("{}, {state}, {}", case.name, system.name));
                let (nanoseconds, what) = tail(case, system, memory, setting)?;
                row.push(Some(nanoseconds));
                super::add(&mut happened, what);
            }
            let known = paper
                .into_iter()
                .map(|milliseconds| Some(milliseconds * 1e6));
            let paper = known.chain([None]).collect();
            rows.push(Row::beside(format!("{}, {state}", case.name), row, paper));
        }
    }
    let title = "99th percentile of the time to an answer";
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables: vec![
            Table::new(title, Unit::Nanoseconds, names(&SYSTEMS), rows)
                .against(0)
                .better(Better::Lower),
        ],
        happened,
    })
}

/// The 99th percentile of the times to an answer, in nanoseconds.
fn tail(
    case: &Case,
    system: System,
    memory: &Memory,
    setting: &Setting<'_>,
) -> Result<(f64, Happened), Error> {
    let hardware = hardware::trident_server();
    let mut bed = memory.bed(system, hardware, setting)?;
    let (server, latencies) = Server::new(Load {
        values: setting.scale.bytes(case.bytes) / VALUE,
        piece: case.piece,
        reads: READS,
        clients: CLIENTS,
        cycles: hardware.costs.cycles(REQUEST),
        seed: setting.seed,
    });
    bed.start(server);
    if !bed.run_to_the_end(LIMIT) {
        return Err(Error::Failed(format!(
            "simulating {} under {}: it does not come to an end",
            case.name, system.name
        )));
    }
    let cycles = latencies.borrow().per_mille(990);
    let nanoseconds = hardware.costs.time(cycles).as_secs_f64() * 1e9;
    Ok((nanoseconds, bed.happened()))
}
