//! Trident figure 7: pages moved per 1 GiB chunk, by smart and by sequential compaction.
//!
//! The paper fills memory with the pages of a file and reads it at random, so that what reclaim frees lies in small
//! holes: FMFI 0.95. A guest without a disk has no such file; here anonymous memory is filled, and of each
//! 512 MiB a random share between 5 % and 85 % of the pages is kept, page by page at random. That leaves no
//! whole block free, and chunks that are as unequally full as the paper's figure 6 has them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use mega_core::compaction::{
    self, Candidate, Compactor, Goal, HUGE_ORDER, PhysicalObservation, Unit, candidates,
};
use mega_core::policy::Parameters;
use mega_linux::kernel::LiveKernel;
use mega_linux::physical::PhysicalMemory;
use serde::{Deserialize, Serialize};

use super::contents::{Contents, available};
use super::period::of_linux;
use crate::error::Error;
use crate::mapping::PAGE;
use crate::random::{Random, below};

/// Chunks to empty.
const CHUNKS: u64 = 3;
/// Memory with one density: 512 MiB.
const STRETCH: usize = (512 << 20) / PAGE;

/// Pages that one page of page table entries maps.
const PAGES_PER_TABLE: usize = 512;

/// One policy's run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    policy: String,
    fmfi: f64,
    /// Pages in use of every chunk that could be emptied, ascending.
    occupancy: Vec<u32>,
    /// What was done for each chunk that was tried.
    chunks: Vec<Chunk>,
    /// Pages that sequential scanning moves away from unmovable ones in vain: by the forecast, not done.
    in_vain: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Chunk {
    emptied: bool,
    migrated: u64,
    /// Pages in use of the chunk with the fewest of all that could be emptied, when this one was selected.
    least: u64,
}

pub(super) fn measure(policy: &str) -> Result<Measurement, Error> {
    let mut memory = PhysicalMemory::with_module(Arc::new(LiveKernel)).map_err(of_linux)?;
    let mut policy = compaction::build(policy, &Parameters::new())
        .map_err(|error| Error::Failed(error.to_string()))?;
    let contents = fragment()?;

    let before = memory.observe_physical().map_err(of_linux)?;
    let mut measurement = Measurement {
        policy: policy.name().to_owned(),
        fmfi: before.fmfi(HUGE_ORDER),
        occupancy: occupancy(&before),
        chunks: Vec::new(),
        in_vain: 0,
    };
    let mut tried = BTreeSet::new();
    while measurement.emptied() < CHUNKS {
        let observation = memory.observe_physical().map_err(of_linux)?;
        let goal = Goal {
            unit: Unit::Chunk,
            count: 1,
            pages: u64::MAX,
        };
        let targets = policy.select(&observation, &goal);
        let vain = targets.iter().filter(|target| !target.empties);
        measurement.in_vain += vain.map(|target| u64::from(target.pages)).sum::<u64>();
        let Some(target) = targets.iter().find(|target| target.empties) else {
            break;
        };
        if !tried.insert(target.first_pfn) {
            break; // it could not be emptied before, and nothing better is left
        }
        let least = occupancy(&observation)
            .first()
            .map_or(0, |&pages| u64::from(pages));
        for report in memory.empty(&[*target]).map_err(of_linux)? {
            measurement.chunks.push(Chunk {
                emptied: report.stopped.is_free(),
                migrated: report.counts.migrated,
                least,
            });
        }
        contents.read_all()?;
    }
    Ok(measurement)
}

/// Fills memory and thins it out.
fn fragment() -> Result<Contents, Error> {
    let mut contents = Contents::map(available()? / 100 * 99)?;
    // The page tables first: they are unmovable, and lie together while memory is still empty.
    (0..contents.pages())
        .step_by(PAGES_PER_TABLE)
        .for_each(|page| contents.touch(page));
    (0..contents.pages()).for_each(|page| contents.touch(page));
    let mut random = Random::new(7);
    for stretch in (0..contents.pages()).step_by(STRETCH) {
        let keep = 5 + below(random.word(), 81);
        for page in stretch..(stretch + STRETCH).min(contents.pages()) {
            if below(random.word(), 100) >= keep {
                contents.free(page..page + 1)?;
            }
        }
    }
    Ok(contents)
}

/// Pages to move for each chunk that could be emptied, ascending.
fn occupancy(observation: &PhysicalObservation) -> Vec<u32> {
    let chunks = observation
        .zones
        .iter()
        .flat_map(|zone| candidates(zone, Unit::Chunk));
    let mut occupancy: Vec<u32> = chunks
        .filter(Candidate::is_worth_emptying)
        .map(|chunk| chunk.movable)
        .collect();
    occupancy.sort_unstable();
    occupancy
}

impl Measurement {
    fn emptied(&self) -> u64 {
        self.chunks.iter().filter(|chunk| chunk.emptied).count() as u64
    }

    fn migrated(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.migrated).sum()
    }

    /// Pages in the least occupied chunk at each selection: the optimum of the selection.
    fn least(&self) -> u64 {
        self.chunks
            .iter()
            .filter(|chunk| chunk.emptied)
            .map(|chunk| chunk.least)
            .sum()
    }

    /// Pages in the least occupied chunks at the start, as many as were emptied. Lower than what can be reached
    /// where the kernel, which chooses where pages go, puts some into a chunk that is emptied next.
    fn least_at_start(&self) -> u64 {
        let count = usize::try_from(self.emptied()).unwrap_or(usize::MAX);
        self.occupancy
            .iter()
            .take(count)
            .map(|&pages| u64::from(pages))
            .sum()
    }
}

#[allow(clippy::cast_precision_loss)] // counts of pages, far below 2^53
pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::from(
        "Trident figure 7: pages moved per 1 GiB chunk (the paper: smart compaction moves up to 85 % fewer bytes)\n\n",
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{:<11} {:>6} {:>10} {:>8} {:>12} {:>14} {:>16} {:>15}",
        "policy",
        "FMFI",
        "candidates",
        "emptied",
        "moved/chunk",
        "in vain/chunk",
        "least at choice",
        "least at start"
    );
    for measurement in measurements {
        let emptied = measurement.emptied().max(1) as f64;
        let _ = writeln!(
            text,
            "{:<11} {:>6.3} {:>10} {:>8} {:>12.0} {:>14.0} {:>16.0} {:>15.0}",
            measurement.policy,
            measurement.fmfi,
            measurement.occupancy.len(),
            measurement.emptied(),
            measurement.migrated() as f64 / emptied,
            measurement.in_vain as f64 / emptied,
            measurement.least() as f64 / emptied,
            measurement.least_at_start() as f64 / emptied,
        );
    }
    let find = |name: &str| {
        measurements
            .iter()
            .find(|measurement| measurement.policy == name)
    };
    if let (Some(smart), Some(sequential)) = (find("trident"), find("sequential")) {
        let per_chunk =
            |m: &Measurement| (m.migrated() + m.in_vain) as f64 / m.emptied().max(1) as f64;
        let fewer = (1.0 - per_chunk(smart) / per_chunk(sequential).max(1.0)) * 100.0;
        let above =
            |optimum: u64| (smart.migrated() as f64 / (optimum as f64).max(1.0) - 1.0) * 100.0;
        let at_choice = above(smart.least());
        let met = at_choice <= 5.0 && smart.emptied() == CHUNKS;
        let _ = writeln!(
            text,
            "\nsmart compaction moves {fewer:.0} % fewer pages per chunk than sequential, and {at_choice:.1} % more than \
             the least occupied chunk\nhad when it was chosen (bar 5 %: {}); {:.1} % more than the least occupied \
             chunks had at the start, because the\nkernel puts some of what is moved into the chunks that come next",
            if met { "met" } else { "NOT MET" },
            above(smart.least_at_start()),
        );
    }
    text
}
