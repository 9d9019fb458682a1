//! MEGA figure 2 and table 7: a program allocates three quarters of memory and frees half of that in pieces of 1 MB.
//!
//! The paper allocates 12 of 16 GB, frees 50 % in pieces of 1 MB and uses the rest for two minutes of 5 s periods. Then
//! the program ends, and the paper records one more minute. Here the pieces are malloc's: 1 MiB of data and malloc's
//! header, together 257 pages, so pieces and blocks are not aligned. A random draw decides which half is freed.

use std::fmt::Write;
use std::sync::Arc;

use mega_core::table::Table;
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::module::Device;
use mega_linux::module::interface::{Region, ScanTask, TASK_CLEAR};
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::period::{Compaction, Period, machine_bytes, of_linux};
use crate::error::Error;
use crate::meminfo;
use crate::random::Random;

/// Pages of one malloc'ed piece of 1 MiB.
const PIECE: usize = 257;
/// Periods while the program runs, and after it ended: two minutes and one of the paper's 5 s.
const UNDER_PRESSURE: usize = 24;
const AFTERWARDS: usize = 12;

/// One policy's run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    policy: String,
    memory_bytes: u64,
    free_blocks_at_start: u64,
    free_blocks_after_freeing: u64,
    under_pressure: Vec<Period>,
    afterwards: Vec<Period>,
}

pub(super) fn measure(policy: &str) -> Result<Measurement, Error> {
    let memory_bytes = machine_bytes()?;
    let mut compaction = Compaction::new(policy, memory_bytes)?;
    let mut heat = Heat::open()?;
    let free_blocks_at_start = compaction.free_blocks()?;

    let bytes = (memory_bytes / 4 * 3).min(meminfo::available()? / 20 * 19);
    let bytes = usize::try_from(bytes).map_err(|_| Error::Failed("too much memory".to_owned()))?;
    let mut contents = Contents::map(bytes)?;
    (0..contents.pages()).for_each(|page| contents.touch(page));
    let mut random = Random::new(2);
    let mut piece = 0;
    while piece < contents.pages() {
        if random.word().is_multiple_of(2) {
            contents.free(piece..piece + PIECE)?;
        }
        piece += PIECE;
    }
    let free_blocks_after_freeing = compaction.free_blocks()?;

    let mut under_pressure = Vec::with_capacity(UNDER_PRESSURE);
    for _ in 0..UNDER_PRESSURE {
        contents.read_all()?;
        heat.look(&contents)?;
        under_pressure.push(compaction.period()?);
    }
    contents.read_all()?;
    drop(contents);
    let afterwards = (0..AFTERWARDS)
        .map(|_| compaction.period())
        .collect::<Result<_, _>>()?;
    Ok(Measurement {
        policy: policy.to_owned(),
        memory_bytes,
        free_blocks_at_start,
        free_blocks_after_freeing,
        under_pressure,
        afterwards,
    })
}

/// Tells the module what this process accesses, as mega's own tracker does.
struct Heat {
    device: Device,
    regions: Vec<Region>,
    this: mega_linux::kernel::ProcessHandle,
}

impl Heat {
    fn open() -> Result<Self, Error> {
        let device = Device::open(Arc::new(LiveKernel)).map_err(of_linux)?;
        let this = LiveKernel
            .open_process(std::process::id())
            .map_err(|error| Error::io("open a pidfd of this process", error))?;
        Ok(Heat {
            device,
            regions: vec![Region::default(); 512],
            this,
        })
    }

    fn look(&mut self, contents: &Contents) -> Result<(), Error> {
        let range = contents.addresses();
        let mut start = range.start;
        while start < range.end {
            let length = range.end - start;
            let mut request = ScanTask {
                flags: TASK_CLEAR,
                start,
                length,
                ..ScanTask::default()
            };
            self.device
                .scan_task(&self.this, &mut request, &mut self.regions)
                .map_err(|error| Error::io("scan this process through /dev/mega", error))?;
            if request.next <= start {
                return Err(Error::Failed(
                    "scanning through /dev/mega does not get on".to_owned(),
                ));
            }
            start = request.next;
        }
        Ok(())
    }
}

pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::from(
        "MEGA figure 2: free 2 MiB blocks while half-freed memory is compacted, and after the program ended\n",
    );
    text += "(the paper: Ingens falls behind, MEGA nearly doubles the blocks throughout)\n\n";
    text += &free_blocks(measurements).to_string();
    text += "\nMEGA table 7: per period under pressure\n\n";
    text += &per_period(measurements).to_string();
    let find = |name: &str| {
        measurements
            .iter()
            .find(|measurement| measurement.policy == name)
    };
    if let (Some(mega), Some(ingens)) = (find("mega"), find("ingens")) {
        text += &compare(mega, ingens);
    }
    text
}

/// Figure 2.
fn free_blocks(measurements: &[Measurement]) -> Table {
    let mut table = Table::new(&[
        "policy", "start", "freed", "period 1", "6", "12", "24", "ended +1", "+12", "gained",
    ]);
    for measurement in measurements {
        let at = |periods: &[Period], period: usize| {
            let blocks = periods.get(period).map_or(0, |period| period.free_blocks);
            blocks.to_string()
        };
        let (under_pressure, afterwards) = (&measurement.under_pressure, &measurement.afterwards);
        table.row([
            measurement.policy.to_string(),
            measurement.free_blocks_at_start.to_string(),
            measurement.free_blocks_after_freeing.to_string(),
            at(under_pressure, 0),
            at(under_pressure, 5),
            at(under_pressure, 11),
            at(under_pressure, 23),
            at(afterwards, 0),
            at(afterwards, 11),
            measurement.gained(UNDER_PRESSURE).to_string(),
        ]);
    }
    table
}

/// Table 7.
#[allow(clippy::cast_precision_loss)] // small numbers
fn per_period(measurements: &[Measurement]) -> Table {
    let mut table = Table::new(&[
        "",
        "scanned",
        "free scanned",
        "isolated",
        "migrated",
        "failed",
        "blocks",
        "blocks/1000 mig.",
    ]);
    table.row([
        "paper: Ingens",
        "55256",
        "149993",
        "2918",
        "1432",
        "1.16",
        "-",
        "-",
    ]);
    table.row([
        "paper: MEGA",
        "7537",
        "350702",
        "14906",
        "7352",
        "0.94",
        "-",
        "-",
    ]);
    for measurement in measurements {
        let mean = |count: fn(&Period) -> u64| measurement.total(count) / UNDER_PRESSURE as f64;
        let whole = |count: fn(&Period) -> u64| format!("{:.0}", mean(count));
        let gained = measurement.gained(UNDER_PRESSURE) / UNDER_PRESSURE as f64;
        table.row([
            format!("here: {}", measurement.policy),
            whole(|p| p.migrate_scanned),
            whole(|p| p.free_scanned),
            whole(|p| p.isolated),
            whole(|p| p.migrated),
            format!("{:.2}", mean(|p| p.failed)),
            format!("{gained:.1}"),
            format!("{:.2}", measurement.gained_per_thousand(UNDER_PRESSURE)),
        ]);
    }
    table
}

/// Blocks gained per page migrated: what one selection gains in a period, from memory in the same state, and how
/// that goes on. The more was compacted, the less there is to choose from: in the end everything that can be is, by
/// whatever policy, and at the same cost.
fn compare(mega: &Measurement, ingens: &Measurement) -> String {
    let ratio = |periods| mega.gained_per_thousand(periods) / ingens.gained_per_thousand(periods);
    let mut text = String::from("\nblocks gained per 1000 pages migrated, after so many periods\n");
    for periods in [1, 3, 6, 12, UNDER_PRESSURE] {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  {periods:>2}: MEGA {:>6.2}, Ingens {:>6.2}, ratio {:.2}",
            mega.gained_per_thousand(periods),
            ingens.gained_per_thousand(periods),
            ratio(periods)
        );
    }
    let selection = ratio(1);
    let verdict = if selection >= 2.0 { "met" } else { "NOT MET" };
    let _ = writeln!(
        text,
        "MEGA's selection to Ingens's, from the same memory in one period: {selection:.2} (bar 2.0: {verdict});\nover the whole run, at the end of which MEGA has compacted all there is: {:.2}",
        ratio(UNDER_PRESSURE)
    );
    text
}

#[allow(clippy::cast_precision_loss)] // counts of pages, far below 2^53
impl Measurement {
    fn total(&self, count: fn(&Period) -> u64) -> f64 {
        self.under_pressure.iter().map(count).sum::<u64>() as f64
    }

    /// Free blocks gained in the first `periods`.
    fn gained(&self, periods: usize) -> f64 {
        let last = self
            .under_pressure
            .iter()
            .take(periods)
            .next_back()
            .map_or(0, |period| period.free_blocks);
        last as f64 - self.free_blocks_after_freeing as f64
    }

    /// Free blocks gained in the first `periods` for 1000 pages migrated.
    fn gained_per_thousand(&self, periods: usize) -> f64 {
        let migrated: u64 = self
            .under_pressure
            .iter()
            .take(periods)
            .map(|period| period.migrated)
            .sum();
        if migrated == 0 {
            0.0
        } else {
            self.gained(periods) * 1000.0 / migrated as f64
        }
    }
}
