//! Section 5.4: what hzmem's daemon uses of a CPU while a program fills more than is configured, sleeps so that pages
//! get cold, and touches some of them again.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::content::{Content, Source};
use super::memory::{self, Mapper, Memory, Setup};
use super::{faults, state, table};
use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE};
use crate::random::{Random, below};
use crate::statistics::median;

/// The program's memory, in percent of what is configured.
const AMOUNT: u64 = 150;
/// Cycles of touching and sleeping after the memory is filled, and the part of the pages that each touches.
const CYCLES: usize = 4;
const PART: usize = 5;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    configured: u64,
    period_ms: u64,
    cycles: Vec<Cycle>,
}

/// From the begin of the touching to the end of the sleep.
#[derive(Debug, Serialize, Deserialize)]
struct Cycle {
    filling: bool,
    seconds: f64,
    daemon_seconds: f64,
    compressions: u64,
    scanned: u64,
}

pub(super) fn measure(setup: &Setup, quick: bool) -> Result<Measurement, Error> {
    memory::set_up(Memory::Hzmem, setup)?;
    let source = Source::new(Content::Text)
        .map_err(|error| Error::io("make what memory is filled with", error))?;
    let bytes = usize::try_from(setup.configured * AMOUNT / 100).unwrap_or(usize::MAX);
    let mut mapper = Mapper::new(Memory::Hzmem)?;
    let mut area = mapper
        .map(bytes / HUGE_PAGE * HUGE_PAGE)
        .map_err(|error| Error::io("map memory of hzmem", error))?;
    let mut cycles = Vec::new();
    let mut filled = 0;
    let pages = area.bytes() / HUGE_PAGE;
    while filled < pages {
        cycles.push(cycle(setup, true, || {
            fill_what_is_free(&source, &mut area, &mut filled)
        })?);
    }
    let mut random = Random::new(7);
    for _ in 0..if quick { 2 } else { CYCLES } {
        cycles.push(cycle(setup, false, || touch(&source, &area, &mut random))?);
    }
    Ok(Measurement {
        configured: setup.configured,
        period_ms: setup.period_ms,
        cycles,
    })
}

fn cycle(
    setup: &Setup,
    filling: bool,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Cycle, Error> {
    let (cpu, counts) = (state::daemon_cpu()?, state::mount()?.counts);
    let start = Instant::now();
    work()?;
    faults::rest(setup)?;
    let seconds = start.elapsed().as_secs_f64();
    let after = state::mount()?.counts;
    Ok(Cycle {
        filling,
        seconds,
        daemon_seconds: state::daemon_cpu()?.saturating_sub(cpu).as_secs_f64(),
        compressions: after.compressions.saturating_sub(counts.compressions),
        scanned: after.pages_scanned.saturating_sub(counts.pages_scanned),
    })
}

/// Writes pages until no huge page is free, at least one.
fn fill_what_is_free(source: &Source, area: &mut Area, filled: &mut usize) -> Result<(), Error> {
    for page in area.bytes_mut().chunks_mut(HUGE_PAGE).skip(*filled) {
        source
            .fill(page, *filled as u64)
            .map_err(|error| Error::io(format!("write page {filled} of hzmem"), error))?;
        *filled += 1;
        if state::free()? < HUGE_PAGE as u64 {
            break;
        }
    }
    Ok(())
}

/// Reads some pages, and compares them.
fn touch(source: &Source, area: &Area, random: &mut Random) -> Result<(), Error> {
    let pages = area.bytes() / HUGE_PAGE;
    for _ in 0..pages / PART {
        let number = below(random.word(), pages);
        let page = &area.words()[number * HUGE_PAGE / 8..][..HUGE_PAGE / 8];
        if !source.is_in(page, number as u64) {
            return Err(Error::Failed(format!(
                "page {number} does not hold what was written to it"
            )));
        }
    }
    Ok(())
}

pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::new();
    for measurement in measurements {
        text += &report_one(measurement);
    }
    text
}

#[allow(clippy::cast_precision_loss)]
fn report_one(measurement: &Measurement) -> String {
    let mut rows = vec![
        [
            "cycle",
            "seconds",
            "daemon CPU",
            "of a CPU",
            "pages scanned",
            "compressed",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let share = |cycle: &Cycle| cycle.daemon_seconds / cycle.seconds;
    for cycle in &measurement.cycles {
        rows.push(vec![
            if cycle.filling {
                "fill, sleep"
            } else {
                "touch, sleep"
            }
            .to_owned(),
            format!("{:.1}", cycle.seconds),
            format!("{:.2} s", cycle.daemon_seconds),
            format!("{:.1} %", share(cycle) * 100.0),
            cycle.scanned.to_string(),
            cycle.compressions.to_string(),
        ]);
    }
    let total: f64 = measurement.cycles.iter().map(|cycle| cycle.seconds).sum();
    let daemon: f64 = measurement
        .cycles
        .iter()
        .map(|cycle| cycle.daemon_seconds)
        .sum();
    let worst = measurement.cycles.iter().map(share).fold(0.0, f64::max);
    let per_page: Vec<f64> = measurement
        .cycles
        .iter()
        .filter(|cycle| cycle.compressions > 0)
        .map(|cycle| cycle.daemon_seconds * 1e3 / cycle.compressions as f64)
        .collect();
    let per_page = median(&per_page).map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
    format!(
        "CPU of hzmem's daemon, {} of text in {} of memory, a look every {:.1} s\n\n{}\n\
         average {:.1} % of one CPU, worst cycle {:.1} %; {per_page} for each page compressed\n\
         paper: 11.0 % on average, 16.6 % at worst, with daemons on two nodes. Emulation makes a compressed page many \
         times dearer than a CPU does; the share grows with it.\n",
        mega_core::bytes::format(measurement.configured * AMOUNT / 100),
        mega_core::bytes::format(measurement.configured),
        Duration::from_millis(measurement.period_ms).as_secs_f64(),
        table(&rows),
        daemon / total * 100.0,
        worst * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_over_all_time_and_the_worst_is_one_cycle() {
        let cycle = |seconds, daemon_seconds| Cycle {
            filling: false,
            seconds,
            daemon_seconds,
            compressions: 10,
            scanned: 100,
        };
        let text = report(&[Measurement {
            configured: 64 << 20,
            period_ms: 10_000,
            cycles: vec![cycle(90.0, 9.0), cycle(10.0, 3.0)],
        }]);
        assert!(
            text.contains("average 12.0 % of one CPU, worst cycle 30.0 %"),
            "{text}"
        );
    }
}
