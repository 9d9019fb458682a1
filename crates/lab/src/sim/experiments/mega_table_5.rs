//! MEGA table 5: memory that a program frees before a promotion pays.

use std::time::Duration;

use mega_core::HUGE_PAGE_SIZE;

use super::{MEGA_BYTES, MEGA_KERNEL, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::programs::Churn;
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-table-5",
    title: "memory that a program frees before a promotion pays",
    source: "MEGA, table 5",
    about: "A program fills 8 GB, goes over it once and frees all of it, 12 times (the paper: 50). Its run time for each round: faults, touches, and what it stands still for. A smaller machine ends its rounds before the manager looks again: the scale should be 1.",
    memory: MEGA_BYTES,
    scale: 1,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[Reason {
    of: &[Part {
        tables: &["run time"],
        rows: &[],
        systems: &["mega"],
    }],
    why: "What promotion adds to a round is about the paper's 0.35 s. But a round without it takes as long here as 2.1 million base faults do by table 2, and in the paper 0.60 s, in which there is no time for so many: by table 3 they take 5.2 s under MEGA. Table 2 was measured by tracing each fault.",
    known: &[
        Known::Paper("tables 2, 3 and 5"),
        Known::Run(&[
            Number::Cell("run time of a round", "a round", "ingens"),
            Number::Cell("run time of a round", "a round", "mega"),
        ]),
    ],
}];

const SYSTEMS: [System; 7] = [BASE, THP, INGENS, MEGA, ADAPTIVE, HAWKEYE, TRIDENT];
const INGENS_PLACE: usize = 2;
/// Table 5, in seconds for each of the paper's 50 rounds.
const PAPER: [Option<f64>; 7] = [
    None,
    None,
    Some(47.6 / 50.0),
    Some(30.0 / 50.0),
    None,
    None,
    None,
];
/// At the paper's size they take some 20 s: four of the manager's intervals.
const ROUNDS: u32 = 12;
/// A run that takes longer stands still.
const LIMIT: Duration = Duration::from_secs(3600);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memory_bytes = setting.scale.bytes(MEGA_BYTES);
    let mut happened = Vec::new();
    let mut seconds = Vec::new();
    for system in SYSTEMS {
        (setting.progress)(system.name);
        let hardware = hardware::mega_notebook();
        let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
        bed.boot(setting.scale.bytes(MEGA_KERNEL));
        let bytes = setting
            .scale
            .bytes(8 << 30)
            .next_multiple_of(HUGE_PAGE_SIZE);
        let pid = bed.start(Churn::new(bytes, ROUNDS));
        bed.run_to_the_end(LIMIT);
        let ended = bed.machine.ended(pid);
        let took = ended.filter(|ended| ended.fault.is_none());
        seconds.push(took.map(|ended| ended.at.as_secs_f64() / f64::from(ROUNDS)));
        happened.push(bed.happened());
    }
    Ok(Findings {
        memory_bytes,
        tables: vec![
            Table::new(
                "run time of a round",
                Unit::Seconds,
                names(&SYSTEMS),
                vec![Row::beside("a round", seconds, PAPER.to_vec())],
            )
            .against(INGENS_PLACE)
            .better(Better::Lower),
        ],
        happened,
    })
}
