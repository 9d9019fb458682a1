//! What managing costs, and how soon it helps, as memory grows from 16 GiB to 4 TiB.

use std::time::Duration;

use mega_core::{Machine as _, bytes};
use mega_sim::kernel::Pid;

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
    about: "A program uses three quarters of a machine with 16 GiB to 4 TiB. First faults take huge pages, and what counts is the manager's CPU time in the second minute after all of it is filled. Then, up to 1 TiB, faults take base pages (thp and hawkeye: huge ones), a tenth of the memory is hot: the program goes over it, rests for 50 ms and begins again, and after each eighty times it goes over all of its memory, so every four seconds at most, and less often the longer that takes; what counts is how soon after all is filled 95 % of the memory is huge, how much is by then or after 15 minutes, and which part of the cycles of the touches goes into translation in the minute after that. Above 64 GiB, of 4 (256 GiB) or 16 (1 TiB) passes over the hot part one is done until then, and the others take as long, but while the touch meter looks. At 4 TiB a program with base pages would take more memory to simulate than most machines have.",
    memory: LARGEST,
    scale: 1,
    reasons: &[],
    run,
};

const SIZES: [u64; 5] = [16 << 30, 64 << 30, 256 << 30, 1 << 40, LARGEST];
/// Up to here the program is simulated page by page. Two such machines at a time, as two CPUs run them, take 6.9 GiB.
const BY_PAGES: u64 = 1 << 40;
/// Up to here each pass of the program over its hot part is done; of a larger one, one in as many as it is larger.
const EACH_PASS: u64 = 64 << 30;
const WITH_HUGE_FAULTS: [System; 4] = [INGENS_HUGE, HAWKEYE, MEGA_HUGE, ADAPTIVE_HUGE];
const FROM_THE_START: [System; 5] = [THP, INGENS, HAWKEYE, MEGA, ADAPTIVE];
const MINUTE: Duration = Duration::from_secs(60);
/// How exactly it is told when memory is filled, and by when it is, on the largest machine, too.
const STEP: Duration = Duration::from_secs(1);
const FILLED_BY: Duration = Duration::from_secs(3600);
/// Between two passes of a program over all that it has: so short that each look finds what is used.
const REST: Duration = Duration::from_secs(4);
/// How long it is waited for huge pages.
const LIMIT: Duration = Duration::from_secs(900);
/// How long translation is counted after that: fifteen passes over all at most, and half as many of the largest.
const COUNTED: Duration = Duration::from_secs(60);

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
                "time until 95 % is huge, once all is filled",
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

/// The manager's share of a core in the second minute after the program has filled its memory.
fn cost(system: System, size: u64, setting: &Setting<'_>) -> Result<f64, Error> {
    let mut bed = Testbed::new(system, &[size], setting.scale, hardware::trident_server())?;
    let all = size / 4 * 3;
    let pid = bed.start(Regions::new(all, REST));
    until_filled(&mut bed, pid, all)?;
    bed.run_for(MINUTE);
    let (before, from) = (bed.machine.cpu_time(), bed.machine.now());
    bed.run_for(MINUTE);
    let used = bed.machine.cpu_time() - before;
    Ok(used.as_secs_f64() / (bed.machine.now() - from).as_secs_f64())
}

/// Runs until a process has all of its memory: zeroing it takes a minute for 150 GiB, and what is not there costs nobody anything.
fn until_filled(bed: &mut Testbed, pid: Pid, all: u64) -> Result<(), Error> {
    if bed.run_until(FILLED_BY, STEP, |bed| bed.mapped(pid).resident() >= all) {
        return Ok(());
    }
    bed.without_fault(pid, "a program that fills its memory")?;
    Err(Error::Failed(format!(
        "simulating a program with {}: its memory is not filled after {FILLED_BY:?}; choose another --scale",
        bytes::format(all)
    )))
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
    let (busy, stands_for) = Busy::new(all, all, REST).standing_for(size / EACH_PASS);
    let pid = bed.start(busy);
    until_filled(&mut bed, pid, all)?;
    let filled = bed.machine.now();
    let until = until_huge(&mut bed, &[pid], all, LIMIT);
    let until = UntilHuge {
        time: until.time.map(|time| time - filled.as_secs_f64()),
        ..until
    };
    let happened = bed.happened();
    // The core counts each pass that is done.
    stands_for.set(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scale::Scale;

    /// What a manager costs counts once there is all that it has to manage.
    #[test]
    fn a_program_is_waited_for_until_it_has_all_of_its_memory() {
        let (size, all) = (64 << 20, 48 << 20);
        let hardware = hardware::trident_server();
        let mut bed = Testbed::new(MEGA_HUGE, &[size], Scale::new(1), hardware).unwrap();
        let pid = bed.start(Regions::new(all, REST));
        bed.run_for(Duration::from_millis(5));
        assert!(bed.mapped(pid).resident() < all);
        until_filled(&mut bed, pid, all).unwrap();
        assert_eq!(bed.mapped(pid).resident(), all);
        let too_much = until_filled(&mut bed, pid, all + 1).unwrap_err();
        assert!(too_much.to_string().contains("not filled"), "{too_much}");
    }
}
