//! Trident's programs at work under a system: what figures 9 to 13 have in common. Speed, latency and how memory is mapped come from one
//! run, with its faults and all that the program stands still for.

use std::time::Duration;

use mega_sim::Kernel;
use mega_sim::physical::Layout;
use mega_sim::translation::Walk;

use super::fragmenter::fragment;
use super::{TRIDENT_NODE, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::Setting;
use crate::sim::findings::{Happened, Row, Table};
use crate::sim::hardware::{self, Hardware};
use crate::sim::numbers::{number, share};
use crate::sim::programs::{Operations, Pattern, kdd2012, netlist_arrays};
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::System;
use crate::sim::testbed::{Testbed, boot};

/// Why HawkEye is faster than THP here, and as fast in the paper.
pub(super) const HAWKEYE_BESIDE_THP: Reason = Reason {
    of: &[Part {
        tables: &["how many times as fast"],
        rows: &[],
        systems: &["hawkeye"],
    }],
    why: "Where a program gets memory in small steps, no region is whole at its first fault, so THP's huge pages come from khugepaged alone here, 16 MiB every ten seconds by its defaults, while HawkEye promotes all. In the paper both have huge pages from faults (section 7), also for programs that get memory step by step: by table 3 faults alone make 67 % of Btree and 88 % of Memcached huge, and here none.",
    known: &[
        Known::Paper("section 7, table 3"),
        Known::Run(&[
            Number::Cell("memory in huge pages", "Btree", "thp"),
            Number::Cell("memory in huge pages", "Redis", "thp"),
            Number::Cell("memory in huge pages", "Memcached", "thp"),
            Number::Cell("memory in huge pages", "Canneal", "thp"),
            Number::Cell("memory in huge pages", "Redis", "hawkeye"),
        ]),
    ],
};

/// A program of the paper.
pub(super) struct Case {
    pub(super) name: &'static str,
    bytes: u64,
    /// What it maps first, of so many bytes.
    arrays: fn(u64) -> Vec<u64>,
    /// The pieces in which the rest of its memory comes.
    piece: u64,
    pattern: Pattern,
}

/// By how much a heap of glibc's grows (`M_TOP_PAD`).
pub(super) const HEAP: u64 = 128 << 10;
/// What Memcached takes for its slabs at a time.
pub(super) const SLAB: u64 = 1 << 20;

/// Of a program that has its memory in pieces of one size.
pub(super) fn none(_: u64) -> Vec<u64> {
    Vec::new()
}

/// The paper's programs; sizes are those of table 2.
///
/// What Redis and Memcached were asked for neither the paper nor its artifact says: that it follows Zipf's law as YCSB has it is an
/// assumption, and so is that SVM's features are as frequent as Zipf's law says. Graph500 (`-s 26 -e 30`), SVM (LIBLINEAR's `-s 6`) and
/// Canneal (a random netlist of 10000 by 11000) have the artifact's parameters.
pub(super) const CASES: [Case; 8] = [
    Case {
        name: "GUPS",
        bytes: 32 << 30,
        arrays: none,
        piece: 32 << 30,
        pattern: Pattern::Gups,
    },
    Case {
        name: "Btree",
        bytes: 21 << 29,
        arrays: none,
        piece: HEAP,
        pattern: Pattern::Btree,
    },
    Case {
        name: "XSBench",
        bytes: 117 << 30,
        arrays: none,
        piece: 117 << 30,
        pattern: Pattern::XsLookup,
    },
    Case {
        name: "SVM",
        // 67.9 GB.
        bytes: 679 * (1 << 30) / 10,
        arrays: kdd2012::arrays,
        piece: HEAP,
        pattern: Pattern::Descent,
    },
    Case {
        name: "Graph500",
        bytes: 127 << 29,
        arrays: none,
        piece: 127 << 29,
        pattern: Pattern::Search,
    },
    Case {
        name: "Redis",
        // 43.6 GB.
        bytes: 436 * (1 << 30) / 10,
        arrays: none,
        piece: HEAP,
        pattern: Pattern::KeyValues,
    },
    Case {
        name: "Memcached",
        bytes: 79 << 30,
        arrays: none,
        piece: SLAB,
        pattern: Pattern::KeyValues,
    },
    Case {
        name: "Canneal",
        bytes: 32 << 30,
        arrays: netlist_arrays,
        piece: HEAP,
        pattern: Pattern::Netlist,
    },
];

impl Case {
    /// The program, at a scale.
    fn program(&self, setting: &Setting<'_>) -> Operations {
        let bytes = setting.scale.bytes(self.bytes);
        let endless = (u64::MAX, 0);
        let program = Operations::new(
            bytes,
            self.piece.min(bytes),
            self.pattern,
            endless,
            setting.seed,
        );
        // As often as it has less memory, so that as many touches come to each page.
        let program = program.standing_for(STANDS_FOR * setting.scale.parts());
        program.beginning_with(&(self.arrays)(bytes))
    }
}

/// What a kernel uses of a node: one part in so many, as on MEGA's machine.
const KERNEL: u64 = 32;
const TIME: Duration = Duration::from_secs(300);
/// The end of that, in which policies have done most of what they do.
const LAST: Duration = Duration::from_secs(60);
/// Each operation that is done stands for so many at the paper's size, or a run would take an hour: Accessed bits show a part of the
/// touches that large.
const STANDS_FOR: u64 = 16;

/// A program under a system.
pub(super) struct Run {
    /// Since its memory was filled.
    pub(super) operations_per_second: f64,
    /// Of it, in the last minute.
    at_last: f64,
    /// Of an operation, in nanoseconds.
    tail: f64,
    /// Seconds until its memory was filled.
    filled: f64,
    /// In the last minute.
    translation: f64,
    giant: f64,
    huge: f64,
}

/// What the programs find when they start.
pub(super) enum Memory {
    /// Memory just booted.
    Unfragmented,
    /// Memory as the fragmenter left it.
    Fragmented(Box<Kernel>),
}

impl Memory {
    /// Memory that the fragmenter has worked on. It takes the longest of an experiment, so all runs begin with the same.
    pub(super) fn fragmented(setting: &Setting<'_>) -> Result<Self, Error> {
        Memory::fragmented_of(TRIDENT_NODE, setting)
    }

    /// The same on a node with so many bytes.
    pub(super) fn fragmented_of(node: u64, setting: &Setting<'_>) -> Result<Self, Error> {
        (setting.progress)("fragmenting memory");
        let hardware = hardware::trident_server();
        let layout = Layout::new(&[setting.scale.bytes(node)]).map_err(|error| {
            Error::Failed(format!(
                "simulating a machine of that size: {error}; choose another --scale"
            ))
        })?;
        let mut kernel = Kernel::new(&layout, mega_sim::Settings::default(), hardware.costs);
        boot(&mut kernel, setting.scale.bytes(node) / KERNEL);
        fragment(&mut kernel, setting.seed);
        Ok(Memory::Fragmented(Box::new(kernel)))
    }

    /// A machine with such memory.
    pub(super) fn bed(
        &self,
        system: System,
        hardware: Hardware,
        setting: &Setting<'_>,
    ) -> Result<Testbed, Error> {
        let scale = setting.scale;
        match self {
            Memory::Unfragmented => {
                Testbed::new(system, &[scale.bytes(TRIDENT_NODE)], scale, hardware)
            }
            Memory::Fragmented(kernel) => {
                Testbed::on(kernel.as_ref().clone(), system, scale, hardware)
            }
        }
    }
}

/// All runs of an experiment: for each program one under each system.
pub(super) struct Runs {
    systems: Vec<System>,
    of_cases: Vec<Vec<Run>>,
    pub(super) happened: Vec<Happened>,
}

impl Runs {
    /// Runs each program under each system, each with the walk that it has there.
    pub(super) fn of(
        systems: &[(System, Walk)],
        memory: &Memory,
        setting: &Setting<'_>,
    ) -> Result<Self, Error> {
        let mut happened: Vec<Happened> = Vec::new();
        let mut of_cases = Vec::new();
        for case in &CASES {
            let mut of_case = Vec::new();
            for &(system, walk) in systems {
                (setting.progress)(&format!("{}, {}", case.name, system.name));
                let (run, what) = one(case, system, walk, memory, setting)?;
                of_case.push(run);
                super::add(&mut happened, what);
            }
            of_cases.push(of_case);
        }
        Ok(Runs {
            systems: systems.iter().map(|(system, _)| *system).collect(),
            of_cases,
            happened,
        })
    }

    /// Operations a second, beside the paper's, which gives ratios to the system at a place; and how memory is mapped. `paper`
    /// tells of a program what it says of each system.
    pub(super) fn tables(
        &self,
        reference: usize,
        paper: impl Fn(&str) -> Vec<Option<f64>>,
    ) -> Vec<Table> {
        let cases = || CASES.iter().zip(&self.of_cases);
        let of = |runs: &[Run], value: fn(&Run) -> f64| -> Vec<Option<f64>> {
            runs.iter().map(|run| Some(value(run))).collect()
        };
        let speeds = cases().map(|(case, runs)| {
            let ours = of(runs, |run| run.operations_per_second);
            Row::beside(case.name, ours, paper(case.name))
        });
        let ours = |title: &str, unit, value: fn(&Run) -> f64| {
            let rows = cases().map(|(case, runs)| Row::ours(case.name, of(runs, value)));
            Table::new(title, unit, names(&self.systems), rows.collect())
        };
        let name = self.systems[reference].name;
        vec![
            Table::new(
                format!("operations a second (the paper: relative to {name})"),
                Unit::PerSecond,
                names(&self.systems),
                speeds.collect(),
            )
            .against(reference)
            .better(Better::Higher),
            ours(
                "operations a second in the last minute",
                Unit::PerSecond,
                |run| run.at_last,
            )
            .better(Better::Higher),
            ours(
                "99.9th percentile of an operation",
                Unit::Nanoseconds,
                |run| run.tail,
            )
            .better(Better::Lower),
            ours("time until memory is filled", Unit::Seconds, |run| {
                run.filled
            })
            .better(Better::Lower),
            ours(
                "cycles in translation in the last minute",
                Unit::Share,
                |run| run.translation,
            )
            .better(Better::Lower),
            ours("memory in giant pages", Unit::Share, |run| run.giant),
            ours("memory in huge pages", Unit::Share, |run| run.huge),
        ]
    }

    /// How many times as fast as under the system at a place the programs are, in the mean, beside what the paper says of that.
    pub(super) fn mean_speeds(&self, reference: usize, paper: Vec<Option<f64>>) -> Table {
        let count = number(self.of_cases.len() as u64);
        let of = |system: usize| {
            let ratios = self.of_cases.iter().map(|runs| {
                runs[system].operations_per_second / runs[reference].operations_per_second
            });
            Some(ratios.sum::<f64>() / count)
        };
        let ours = (0..self.systems.len()).map(of).collect();
        let name = self.systems[reference].name;
        Table::new(
            format!("how many times as fast as under {name}"),
            Unit::Count,
            names(&self.systems),
            vec![Row::beside("mean of the programs", ours, paper)],
        )
        .against(reference)
        .better(Better::Higher)
    }
}

/// On the machine itself, under each of these systems.
pub(super) fn native<const N: usize>(systems: [System; N]) -> [(System, Walk); N] {
    systems.map(|system| (system, Walk::Native))
}

fn one(
    case: &Case,
    system: System,
    walk: Walk,
    memory: &Memory,
    setting: &Setting<'_>,
) -> Result<(Run, Happened), Error> {
    let hardware = Hardware {
        walk,
        ..hardware::trident_server()
    };
    let mut bed = memory.bed(system, hardware, setting)?;
    let (program, done) = case.program(setting).telling();
    let pid = bed.start(program);
    bed.run_for(TIME.saturating_sub(LAST));
    let (before, counted) = (done.borrow().operations, bed.machine.counts(pid));
    bed.run_for(LAST);
    bed.without_fault(pid, case.name)?;
    let done = done.borrow();
    let seconds = |cycles| hardware.costs.time(cycles).as_secs_f64();
    let Some(filled_at) = done.filled_at else {
        return Err(Error::Failed(format!(
            "simulating {} under {}: its memory is not filled after {TIME:?}",
            case.name, system.name
        )));
    };
    let filled = seconds(filled_at);
    let [before_last, at_end] = [counted, bed.machine.counts(pid)].map(Option::unwrap_or_default);
    let mapped = bed.mapped(pid);
    let run = Run {
        operations_per_second: number(done.operations) / (TIME.as_secs_f64() - filled),
        at_last: number(done.operations - before) / LAST.as_secs_f64(),
        tail: seconds(done.latencies.per_mille(999)) * 1e9,
        filled,
        translation: share(
            at_end.translation - before_last.translation,
            at_end.cycles - before_last.cycles,
        ),
        giant: share(mapped.giant, mapped.resident()),
        huge: share(mapped.huge, mapped.resident()),
    };
    Ok((run, bed.happened()))
}
