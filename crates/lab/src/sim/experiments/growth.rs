//! What managing costs, and how soon it helps, as memory grows from 16 GiB to 4 TiB.

use std::time::Duration;

use mega_core::{Machine as _, bytes};

use super::names;
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::programs::{Regions, Resident};
use crate::sim::system::{ADAPTIVE, ADAPTIVE_HUGE, MEGA, MEGA_HUGE, System};
use crate::sim::testbed::Testbed;

/// The largest machine: frames are numbered by 30 bits.
const LARGEST: u64 = (4 << 40) - (4 << 30);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "growth",
    title: "what managing costs, and how soon it helps, as memory grows",
    source: "beyond the papers",
    about: "A program uses three quarters of a machine with 16 GiB to 4 TiB. First faults take huge pages, and what counts is the manager's CPU time in the second of two minutes. Then, up to 64 GiB, faults take base pages, and what counts is how soon 95 % of the memory is huge.",
    memory: LARGEST,
    scale: 1,
    run,
};

const SIZES: [u64; 5] = [16 << 30, 64 << 30, 256 << 30, 1 << 40, LARGEST];
/// Up to here the program is simulated page by page.
const BY_PAGES: u64 = 64 << 30;
const SYSTEMS: [System; 2] = [MEGA, ADAPTIVE];
const WITH_HUGE_FAULTS: [System; 2] = [MEGA_HUGE, ADAPTIVE_HUGE];
const MINUTE: Duration = Duration::from_secs(60);
/// Between two sweeps of a program: so short that each look finds what is used.
const REST: Duration = Duration::from_secs(4);
/// How exactly, and how long, it is waited for huge pages.
const STEP: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(900);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    let (mut costs, mut times) = (Vec::new(), Vec::new());
    for size in SIZES {
        let size = setting.scale.bytes(size);
        (setting.progress)(&bytes::format(size));
        let of = WITH_HUGE_FAULTS.map(|system| cost(system, size, setting));
        let [mega, adaptive] = of;
        costs.push(Row::ours(
            bytes::format(size),
            vec![Some(mega?), Some(adaptive?)],
        ));
    }
    for size in SIZES.into_iter().filter(|size| *size <= BY_PAGES) {
        let size = setting.scale.bytes(size);
        let mut row = Vec::new();
        for system in SYSTEMS {
            (setting.progress)(&format!(
                "{}, base pages, {}",
                bytes::format(size),
                system.name
            ));
            let (time, what) = time(system, size, setting)?;
            row.push(time);
            super::add(&mut happened, what);
        }
        times.push(Row::ours(bytes::format(size), row));
    }
    let table =
        |title, unit, rows| Table::new(title, unit, names(&SYSTEMS), rows).better(Better::Lower);
    Ok(Findings {
        memory_bytes: setting.scale.bytes(LARGEST),
        tables: vec![
            table(
                "CPU time of the manager, of one core, with huge pages from faults",
                Unit::Share,
                costs,
            )
            .by_course(),
            table(
                "time until 95 % is huge, from base pages",
                Unit::Seconds,
                times,
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

/// Seconds until nearly all is huge; `None` where it does not come to that.
fn time(
    system: System,
    size: u64,
    setting: &Setting<'_>,
) -> Result<(Option<f64>, Happened), Error> {
    let mut bed = Testbed::new(system, &[size], setting.scale, hardware::trident_server())?;
    let all = size / 4 * 3;
    let pid = bed.start(Resident::new(all, all, REST));
    let mut found = None;
    while found.is_none() && bed.machine.now() < LIMIT {
        bed.run_for(STEP);
        if bed.mapped(pid).huge >= all / 100 * 95 {
            found = Some(bed.machine.now().as_secs_f64());
        }
    }
    Ok((found, bed.happened()))
}
