//! What managing costs, and how soon it helps, as the same memory is divided among 1 to 10,000 processes.

use std::time::Duration;

use mega_core::{HUGE_PAGE_SIZE, Machine as _};

use super::names;
use super::until_huge::{UntilHuge, until_huge};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::share;
use crate::sim::programs::{Busy, Regions};
use crate::sim::system::{
    ADAPTIVE, ADAPTIVE_HUGE, HAWKEYE, INGENS, INGENS_HUGE, MEGA, MEGA_HUGE, System, THP,
};
use crate::sim::testbed::Testbed;

const MACHINE: u64 = 64 << 30;
/// What the processes use together: 10,000 of them have two regions each, or one where they are simulated page by page.
const IN_USE: u64 = 40 << 30;
const BY_PAGES: u64 = 20 << 30;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "growth-processes",
    title: "what managing costs, and how soon it helps, with more and more processes",
    source: "beyond the papers",
    about: "1 to 10,000 processes together use 40 GiB of 64; each uses all that it has, and rests for four seconds. First faults take huge pages, and what counts is the manager's CPU time in the second of two minutes. Then the processes use 20 GiB, of which a tenth is hot: they go over it, rest for 50 ms and begin again, and after each eighty times they go over all that they have, so every four seconds at most, and less often the longer that takes; faults take base pages (thp and hawkeye: huge ones), and what counts is how soon 95 % of it is huge, how much is by then or after five minutes, the manager's CPU time until then, and which part of the cycles of the touches goes into translation in the twenty seconds after that (beyond 64 processes several share a core's TLBs). (What is not hot is touched once in four seconds at most, so huge pages save less there in five minutes than it costs to copy the memory: whoever promotes only what is paid back, as adaptive, leaves it.)",
    memory: MACHINE,
    scale: 1,
    reasons: &[],
    run,
};

const PROCESSES: [u64; 5] = [1, 10, 100, 1_000, 10_000];
const WITH_HUGE_FAULTS: [System; 4] = [INGENS_HUGE, HAWKEYE, MEGA_HUGE, ADAPTIVE_HUGE];
const FROM_THE_START: [System; 5] = [THP, INGENS, HAWKEYE, MEGA, ADAPTIVE];
const MINUTE: Duration = Duration::from_secs(60);
/// Between two passes of a program over all that it has: so short that each look finds what is used.
const REST: Duration = Duration::from_secs(4);
/// How long it is waited for huge pages.
const LIMIT: Duration = Duration::from_secs(300);
/// How long translation is counted after that: five passes over all at most.
const COUNTED: Duration = Duration::from_secs(20);

/// Some processes and what each of them has.
#[derive(Clone, Copy)]
struct Load {
    processes: u64,
    bytes: u64,
}

impl Load {
    /// So many processes, here, that use so much together; each has a region at least.
    fn new(processes: u64, together: u64, setting: &Setting<'_>) -> Self {
        let processes = setting.scale.count(processes);
        let bytes = setting.scale.bytes(together) / processes / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
        Load {
            processes,
            bytes: bytes.max(HUGE_PAGE_SIZE),
        }
    }
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut counts = PROCESSES.to_vec();
    // On a small machine several of them are one process.
    counts.dedup_by_key(|count| setting.scale.count(*count));
    let costs = costs(&counts, setting)?;
    let mut happened: Vec<Happened> = Vec::new();
    let (mut times, mut parts, mut used, mut walks) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for count in counts {
        let load = Load::new(count, BY_PAGES, setting);
        let name = load.processes.to_string();
        let mut all = Vec::new();
        for system in FROM_THE_START {
            (setting.progress)(&format!(
                "{name} processes, from the start, {}",
                system.name
            ));
            let reached = reach(system, load, setting)?;
            super::add(&mut happened, reached.happened.clone());
            all.push(reached);
        }
        let row =
            |of: &dyn Fn(&Reached) -> Option<f64>| Row::ours(&name, all.iter().map(of).collect());
        times.push(row(&|reached| reached.until.time));
        parts.push(row(&|reached| Some(reached.until.huge)));
        used.push(row(&|reached| Some(reached.used)));
        walks.push(row(&|reached| Some(reached.translation)));
    }
    let by_processes = |title: &str, unit, systems: &[System], rows| {
        Table::new(format!("{title}, by processes"), unit, names(systems), rows).by_course()
    };
    let from_start = |title: &str, unit, rows| by_processes(title, unit, &FROM_THE_START, rows);
    Ok(Findings {
        memory_bytes: setting.scale.bytes(MACHINE),
        tables: vec![
            by_processes(
                "CPU time of the manager, of one core, with huge pages from faults",
                Unit::Share,
                &WITH_HUGE_FAULTS,
                costs,
            )
            .better(Better::Lower)
            .uncounted(),
            from_start("time until 95 % is huge", Unit::Seconds, times).better(Better::Lower),
            from_start(
                "part that is huge then, or after five minutes",
                Unit::Share,
                parts,
            )
            .better(Better::Higher),
            from_start("CPU time of the manager until then", Unit::Seconds, used)
                .better(Better::Lower),
            from_start(
                "cycles of touches in translation after that",
                Unit::Share,
                walks,
            )
            .better(Better::Lower),
        ],
        happened,
    })
}

/// The manager's share of a core with huge pages from faults.
fn costs(counts: &[u64], setting: &Setting<'_>) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for count in counts {
        let load = Load::new(*count, IN_USE, setting);
        let name = load.processes.to_string();
        let mut row = Vec::new();
        for system in WITH_HUGE_FAULTS {
            (setting.progress)(&format!("{name} processes, huge faults, {}", system.name));
            row.push(Some(cost(system, load, setting)?));
        }
        rows.push(Row::ours(name, row));
    }
    Ok(rows)
}

fn bed(system: System, setting: &Setting<'_>) -> Result<Testbed, Error> {
    let memory = setting.scale.bytes(MACHINE);
    Testbed::new(system, &[memory], setting.scale, hardware::trident_server())
}

/// The manager's share of a core in the second minute.
fn cost(system: System, load: Load, setting: &Setting<'_>) -> Result<f64, Error> {
    let mut bed = bed(system, setting)?;
    for _ in 0..load.processes {
        bed.start(Regions::new(load.bytes, REST));
    }
    bed.run_for(MINUTE);
    let (before, from) = (bed.machine.cpu_time(), bed.machine.now());
    bed.run_for(MINUTE);
    let used = bed.machine.cpu_time() - before;
    Ok(used.as_secs_f64() / (bed.machine.now() - from).as_secs_f64())
}

/// How it was once nearly all was huge, or in the end.
struct Reached {
    until: UntilHuge,
    /// The manager's CPU time, in seconds.
    used: f64,
    /// The part of the cycles of touches that went into translation afterwards.
    translation: f64,
    happened: Happened,
}

fn reach(system: System, load: Load, setting: &Setting<'_>) -> Result<Reached, Error> {
    let mut bed = bed(system, setting)?;
    let pids: Vec<_> = (0..load.processes)
        .map(|_| bed.start(Busy::new(load.bytes, load.bytes, REST)))
        .collect();
    let all = load.processes * load.bytes;
    let until = until_huge(&mut bed, &pids, all, LIMIT);
    let used = bed.machine.cpu_time().as_secs_f64();
    let happened = bed.happened();
    let before = bed.machine.all_counts();
    bed.run_for(COUNTED);
    let after = bed.machine.all_counts();
    Ok(Reached {
        until,
        used,
        translation: share(
            after.translation - before.translation,
            after.cycles - before.cycles,
        ),
        happened,
    })
}
