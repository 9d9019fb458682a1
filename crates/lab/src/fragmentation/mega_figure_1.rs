//! MEGA figure 1: contiguous memory after rounds of allocating and freeing, beside a sparse program.
//!
//! The paper allocates 10 of 16 GB in objects of 8 KB, frees all, and doubles the object size up to 128 MB. Meanwhile
//! another program works on 420 MB that lie all over memory. Here that program gives a random page back and touches it
//! again for every few pages that the first one allocates. So its pages are always spread over what was allocated last.
//! Each round has seven periods of compaction: six while it allocates, one at its end.

use std::fmt::Write;

use mega_core::bytes;
use mega_core::table::Table;
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::period::{Compaction, PAPER_BYTES, Period, machine_bytes};
use crate::error::Error;
use crate::mapping::PAGE;
use crate::random::{Random, below};

const SMALLEST_OBJECT: usize = 8 << 10;
const LARGEST_OBJECT: usize = 128 << 20;
const PERIODS_WHILE_ALLOCATING: usize = 6;

/// One policy's run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    policy: String,
    memory_bytes: u64,
    free_blocks_at_start: u64,
    rounds: Vec<Round>,
}

/// One object size.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    object_bytes: usize,
    /// At the end, all freed and one period of compaction later.
    free_blocks: u64,
    migrated: u64,
}

pub(super) fn measure(policy: &str) -> Result<Measurement, Error> {
    let memory_bytes = machine_bytes()?;
    let mut compaction = Compaction::new(policy, memory_bytes)?;
    let free_blocks_at_start = compaction.free_blocks()?;
    let scaled = |paper: u64| {
        let bytes = u128::from(paper) * u128::from(memory_bytes) / u128::from(PAPER_BYTES);
        usize::try_from(bytes).map_err(|_| Error::Failed("too much memory".to_owned()))
    };
    let mut sparse = Sparse::new(scaled(420 << 20)?)?;
    let mut objects = Contents::map(scaled(10 << 30)?)?;

    let sizes = std::iter::successors(Some(SMALLEST_OBJECT), |size| Some(size * 2));
    let mut rounds = Vec::new();
    for object_bytes in sizes.take_while(|&size| size <= LARGEST_OBJECT) {
        let mut periods = allocate(&mut objects, &mut sparse, object_bytes, &mut compaction)?;
        objects.read_all()?;
        let object = object_bytes / PAGE;
        for first in (0..objects.pages()).step_by(object) {
            objects.free(first..first + object)?;
        }
        periods.push(compaction.period()?);
        sparse.contents.read_all()?;
        rounds.push(Round {
            object_bytes,
            free_blocks: compaction.free_blocks()?,
            migrated: periods.iter().map(|period| period.migrated).sum(),
        });
    }
    Ok(Measurement {
        policy: policy.to_owned(),
        memory_bytes,
        free_blocks_at_start,
        rounds,
    })
}

/// Touches all objects, one after the other, with the sparse program at work meanwhile.
fn allocate(
    objects: &mut Contents,
    sparse: &mut Sparse,
    object_bytes: usize,
    compaction: &mut Compaction,
) -> Result<Vec<Period>, Error> {
    // The sparse program renews all its pages once in a round.
    let every = (objects.pages() / sparse.contents.pages()).max(1);
    let period = objects.pages().div_ceil(PERIODS_WHILE_ALLOCATING);
    let object = object_bytes / PAGE;
    let mut periods = Vec::new();
    for page in 0..objects.pages() {
        objects.touch(page);
        // It runs between two allocations, not in the middle of one.
        if (page + 1) % object.max(every) == 0 {
            for _ in 0..(object / every).max(1) {
                sparse.renew_one()?;
            }
        }
        if (page + 1) % period == 0 {
            periods.push(compaction.period()?);
        }
    }
    Ok(periods)
}

/// A program whose pages lie all over memory.
struct Sparse {
    contents: Contents,
    random: Random,
}

impl Sparse {
    fn new(bytes: usize) -> Result<Self, Error> {
        let mut contents = Contents::map(bytes)?;
        (0..contents.pages()).for_each(|page| contents.touch(page));
        Ok(Sparse {
            contents,
            random: Random::new(1),
        })
    }

    fn renew_one(&mut self) -> Result<(), Error> {
        let page = below(self.random.word(), self.contents.pages());
        self.contents.free(page..page + 1)?;
        self.contents.touch(page);
        Ok(())
    }
}

pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::from(
        "MEGA figure 1: memory free in 2 MiB blocks after each round, as a share of what was free at the start\n\
         (the paper, Linux: 10.9 GB before, 8.3 GB after the first round, none at 32 MB and above)\n\n",
    );
    text += &free_after_each_round(measurements).to_string();
    let find = |name: &str| measurements.iter().find(|m| m.policy == name);
    if let (Some(none), Some(mega), Some(ingens)) = (find("none"), find("mega"), find("ingens")) {
        let kept = |measurement: &Measurement| measurement.kept_per_thousand(none);
        let _ = writeln!(
            text,
            "\nblocks kept free beyond those without compaction, per 1000 pages moved, over all rounds:\n\
             MEGA {:.2}, Ingens {:.2}, ratio {:.2}",
            kept(mega),
            kept(ingens),
            kept(mega) / kept(ingens)
        );
    }
    text
}

fn free_after_each_round(measurements: &[Measurement]) -> Table {
    let policies = measurements
        .iter()
        .map(|measurement| measurement.policy.as_str());
    let headings: Vec<&str> = std::iter::once("object size").chain(policies).collect();
    let mut table = Table::new(&headings);
    let rounds = measurements
        .iter()
        .map(|measurement| measurement.rounds.len());
    for index in 0..rounds.max().unwrap_or(0) {
        let mut at = measurements.iter().filter_map(|m| m.rounds.get(index));
        let size = at.next().map_or(0, |round| round.object_bytes);
        let mut row = vec![bytes::format(size as u64)];
        row.extend(measurements.iter().map(|measurement| {
            let share = measurement.rounds.get(index).map_or(0.0, |round| {
                percent(round.free_blocks, measurement.free_blocks_at_start)
            });
            format!("{share:.1} %")
        }));
        table.row(row);
    }
    let mut moved = vec!["pages moved".to_owned()];
    let counts = measurements.iter().map(|measurement| measurement.moved());
    moved.extend(counts.map(|count| count.to_string()));
    table.row(moved);
    table
}

#[allow(clippy::cast_precision_loss)] // counts of pages and blocks, far below 2^53
impl Measurement {
    /// Pages migrated in all rounds.
    fn moved(&self) -> u64 {
        self.rounds.iter().map(|round| round.migrated).sum()
    }

    /// Free blocks at the end of each round beyond those of `none`, summed over the rounds, for 1000 pages migrated.
    fn kept_per_thousand(&self, none: &Measurement) -> f64 {
        let share = |measurement: &Measurement, round: &Round| {
            percent(round.free_blocks, measurement.free_blocks_at_start) / 100.0
        };
        let kept: f64 = self
            .rounds
            .iter()
            .zip(&none.rounds)
            .map(|(with, without)| share(self, with) - share(none, without))
            .sum();
        match self.moved() {
            0 => 0.0,
            moved => kept * self.free_blocks_at_start as f64 * 1000.0 / moved as f64,
        }
    }
}

#[allow(clippy::cast_precision_loss)] // counts of blocks, far below 2^53
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}
