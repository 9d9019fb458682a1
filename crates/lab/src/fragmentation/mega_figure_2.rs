//! MEGA figure 2 and table 7: three quarters of memory allocated, half of that freed in pieces of 1 MB.
//!
//! The paper allocates 12 of 16 GB, frees 50 % in pieces of 1 MB and goes on using the rest, for two minutes of
//! 5 s periods; then the program ends, and a minute more is recorded. Here the pieces are malloc's: 1 MiB of
//! data and malloc's header, which make 257 pages, so that pieces and blocks are not aligned with each
//! other; and which half is freed is drawn at random.

use std::fmt::Write;
use std::sync::Arc;

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::module::Device;
use mega_linux::module::interface::{Region, ScanTask, TASK_CLEAR};
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::period::{Compaction, Period, machine_bytes, of_linux};
use crate::error::Error;
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

    let bytes = usize::try_from(memory_bytes / 4 * 3)
        .map_err(|_| Error::Failed("too much memory".to_owned()))?;
    let mut contents = Contents::map(bytes.min(super::contents::available()? / 20 * 19))?;
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

#[allow(clippy::cast_precision_loss)] // small numbers
pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::from(
        "MEGA figure 2: free 2 MiB blocks while half-freed memory is compacted, and after the program ended\n",
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "(the paper: Ingens falls behind, MEGA nearly doubles the blocks throughout)\n"
    );
    let _ = writeln!(
        text,
        "{:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   {:>8} {:>8} {:>9}",
        "policy", "start", "freed", "period 1", "6", "12", "24", "ended +1", "+12", "gained"
    );
    for measurement in measurements {
        let at = |period: usize| {
            measurement
                .under_pressure
                .get(period)
                .map_or(0, |p| p.free_blocks)
        };
        let after = |period: usize| {
            measurement
                .afterwards
                .get(period)
                .map_or(0, |p| p.free_blocks)
        };
        let _ = writeln!(
            text,
            "{:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   {:>8} {:>8} {:>9}",
            measurement.policy,
            measurement.free_blocks_at_start,
            measurement.free_blocks_after_freeing,
            at(0),
            at(5),
            at(11),
            at(23),
            after(0),
            after(11),
            measurement.gained(UNDER_PRESSURE),
        );
    }
    let _ = writeln!(
        text,
        "\nMEGA table 7: per period under pressure\n{:<22} {:>9} {:>12} {:>12} {:>12} {:>12} {:>9} {:>16}",
        "",
        "scanned",
        "free scanned",
        "isolated",
        "migrated",
        "failed",
        "blocks",
        "blocks/1000 mig."
    );
    for (name, row) in [
        (
            "paper: Ingens",
            ["55256", "149993", "2918", "1432", "1.16", "-", "-"],
        ),
        (
            "paper: MEGA",
            ["7537", "350702", "14906", "7352", "0.94", "-", "-"],
        ),
    ] {
        let [a, b, c, d, e, f, g] = row;
        let _ = writeln!(
            text,
            "{name:<22} {a:>9} {b:>12} {c:>12} {d:>12} {e:>12} {f:>9} {g:>16}"
        );
    }
    for measurement in measurements {
        let mean = |count: fn(&Period) -> u64| measurement.total(count) / UNDER_PRESSURE as f64;
        let _ = writeln!(
            text,
            "{:<22} {:>9.0} {:>12.0} {:>12.0} {:>12.0} {:>12.2} {:>9.1} {:>16.2}",
            format!("here:  {}", measurement.policy),
            mean(|p| p.migrate_scanned),
            mean(|p| p.free_scanned),
            mean(|p| p.isolated),
            mean(|p| p.migrated),
            mean(|p| p.failed),
            measurement.gained(UNDER_PRESSURE) / UNDER_PRESSURE as f64,
            measurement.gained_per_thousand(UNDER_PRESSURE),
        );
    }
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

/// Blocks gained per page migrated: what one selection gains within the budget, from memory in the same state, and how
/// that goes on. The more was compacted, the less there is to choose from: in the end everything that can be is, by
/// whatever policy, and at the same cost.
fn compare(mega: &Measurement, ingens: &Measurement) -> String {
    let ratio = |periods| mega.gained_per_thousand(periods) / ingens.gained_per_thousand(periods);
    let mut text = String::from(
        "\nblocks gained per 1000 pages migrated at equal budget, after so many periods\n",
    );
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
        "MEGA's selection to Ingens's, from the same memory at the budget of one period: {selection:.2} (bar 2.0: {verdict});\nover the whole run, at the end of which MEGA has compacted all there is: {:.2}",
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
