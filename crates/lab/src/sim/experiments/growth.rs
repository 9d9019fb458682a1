//! What managing costs, and how soon it helps, as memory grows from 16 GiB to 4 TiB.

use std::time::Duration;

use mega_core::{Machine as _, bytes};

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

/// The largest machine: frames are numbered by 30 bits.
const LARGEST: u64 = (4 << 40) - (4 << 30);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "growth",
    title: "what managing costs, and how soon it helps, as memory grows",
    source: "beyond the papers",
    about: "A program uses three quarters of a machine with 16 GiB to 4 TiB. First faults take huge pages, and what counts is the manager's CPU time in the second of two minutes. Then, up to 64 GiB, faults take base pages (thp and hawkeye: huge ones), a tenth of the memory is hot and gone over twenty times a second, and all of it every four seconds; what counts is how soon 95 % of the memory is huge, how much is by then or after 15 minutes, and which part of the cycles of the touches goes into translation in the 20 seconds after that.",
    memory: LARGEST,
    scale: 1,
    run,
};

const SIZES: [u64; 5] = [16 << 30, 64 << 30, 256 << 30, 1 << 40, LARGEST];
/// Up to here the program is simulated page by page.
const BY_PAGES: u64 = 64 << 30;
const WITH_HUGE_FAULTS: [System; 4] = [INGENS_HUGE, HAWKEYE, MEGA_HUGE, ADAPTIVE_HUGE];
const FROM_THE_START: [System; 5] = [THP, INGENS, HAWKEYE, MEGA, ADAPTIVE];
const MINUTE: Duration = Duration::from_secs(60);
/// Between two passes of a program over all that it has: so short that each look finds what is used.
const REST: Duration = Duration::from_secs(4);
/// How long it is waited for huge pages.
const LIMIT: Duration = Duration::from_secs(900);
/// How long translation is counted after that: five passes over all.
const COUNTED: Duration = Duration::from_secs(20);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    let mut costs = Vec::new();
    let (mut times, mut parts, mut walks) = (Vec::new(), Vec::new(), Vec::new());
    for size in SIZES {
        let size = setting.scale.bytes(size);
        let mut row = Vec::new();
        for system in WITH_HUGE_FAULTS {
            (setting.progress)(&format!("{}, {}", bytes::format(size), system.name));
            row.push(Some(cost(system, size, setting)?));
        }
        costs.push(Row::ours(bytes::format(size), row));
    }
    for size in SIZES.into_iter().filter(|size| *size <= BY_PAGES) {
        let size = setting.scale.bytes(size);
        let mut all = Vec::new();
        for system in FROM_THE_START {
            let name = bytes::format(size);
            (setting.progress)(&format!("{name}, from the start, {}", system.name));
            let reached = reach(system, size, setting)?;
            super::add(&mut happened, reached.happened.clone());
            all.push(reached);
        }
        let of = |value: &dyn Fn(&Reached) -> Option<f64>| {
            Row::ours(bytes::format(size), all.iter().map(value).collect())
        };
        times.push(of(&|reached| reached.until.time));
        parts.push(of(&|reached| Some(reached.until.huge)));
        walks.push(of(&|reached| Some(reached.translation)));
    }
    let from_start = |title, unit, rows, better| {
        Table::new(title, unit, names(&FROM_THE_START), rows).better(better)
    };
    Ok(Findings {
        memory_bytes: setting.scale.bytes(LARGEST),
        tables: vec![
            Table::new(
                "CPU time of the manager, of one core, with huge pages from faults",
                Unit::Share,
                names(&WITH_HUGE_FAULTS),
                costs,
            )
            .better(Better::Lower)
            .by_course()
            .uncounted(),
            from_start(
                "time until 95 % is huge",
                Unit::Seconds,
                times,
                Better::Lower,
            ),
            from_start(
                "part that is huge then, or after 15 minutes",
                Unit::Share,
                parts,
                Better::Higher,
            ),
            from_start(
                "cycles of touches in translation after that",
                Unit::Share,
                walks,
                Better::Lower,
            ),
        ],
        happened,
    })
}

/// The manager's share of a core in the second minute.
fn cost(system: System, size: u64, setting: &Setting<'_>) -> Result<f64, Error> {
    let mut bed = Testbed::new(system, &[size], setting.scale, hardware::trident_server())?;
    bed.start(Regions::new(size / 4 * 3, REST));
    bed.run_for(MINUTE);
    let (before, from) = (bed.machine.cpu_time(), bed.machine.now());
    bed.run_for(MINUTE);
    let used = bed.machine.cpu_time() - before;
    Ok(used.as_secs_f64() / (bed.machine.now() - from).as_secs_f64())
}

/// How it was once nearly all was huge, or in the end.
struct Reached {
    until: UntilHuge,
    /// The part of the cycles of touches that went into translation afterwards.
    translation: f64,
    happened: Happened,
}

fn reach(system: System, size: u64, setting: &Setting<'_>) -> Result<Reached, Error> {
    let mut bed = Testbed::new(system, &[size], setting.scale, hardware::trident_server())?;
    let all = size / 4 * 3;
    let pid = bed.start(Busy::new(all, all, REST));
    let until = until_huge(&mut bed, &[pid], all, LIMIT);
    let happened = bed.happened();
    let counts = |bed: &Testbed| bed.machine.counts(pid).unwrap_or_default();
    let before = counts(&bed);
    bed.run_for(COUNTED);
    let after = counts(&bed);
    Ok(Reached {
        until,
        translation: share(
            after.translation - before.translation,
            after.cycles - before.cycles,
        ),
        happened,
    })
}
