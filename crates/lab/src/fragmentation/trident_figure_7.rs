//! Trident figure 7: pages moved per 1 GiB chunk, by smart and by sequential compaction.
//!
//! The paper fills memory with the pages of a file and reads it at random, so reclaim frees small holes: FMFI 0.95. A
//! guest without a disk has no such file. Here a program fills anonymous memory and thins it out ([`fragment`]). That
//! leaves chunks as unequally full as in the paper's figure 6.

use std::collections::BTreeMap;
use std::sync::Arc;

use mega_core::compaction::{
    self, Candidate, CompactionPolicy, Compactor, Goal, HUGE_ORDER, PhysicalObservation, Unit,
    candidates,
};
use mega_core::promotion::Parameters;
use mega_core::table::Table;
use mega_linux::kernel::LiveKernel;
use mega_linux::physical::PhysicalMemory;
use serde::{Deserialize, Serialize};

use super::fragment::fragment;
use super::period::of_linux;
use crate::error::Error;

/// Times that memory is fragmented anew.
const ROUNDS: u64 = 3;
/// Chunks to empty each time.
const CHUNKS: u64 = 2;
/// How often a chunk is tried: a page that is busy for a moment, on a slow machine for longer, keeps it from being emptied.
const ATTEMPTS: u32 = 3;

/// One policy's run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    policy: String,
    rounds: Vec<Round>,
}

/// What was done to one fragmented memory.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
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
    /// Pages in use of the chunk with the fewest of all that could be emptied, when this one was first selected; 0 where it
    /// is tried again.
    least: u64,
}

pub(super) fn measure(policy: &str) -> Result<Measurement, Error> {
    let mut memory = PhysicalMemory::with_module(Arc::new(LiveKernel)).map_err(of_linux)?;
    let mut policy = compaction::build(policy, &Parameters::new())
        .map_err(|error| Error::Failed(error.to_string()))?;
    let rounds = (0..ROUNDS).map(|seed| round(&mut memory, policy.as_mut(), seed));
    let rounds = rounds.collect::<Result<_, _>>()?;
    Ok(Measurement {
        policy: policy.name().to_owned(),
        rounds,
    })
}

fn round(
    memory: &mut PhysicalMemory,
    policy: &mut dyn CompactionPolicy,
    seed: u64,
) -> Result<Round, Error> {
    let contents = fragment(seed, 5..=85)?;
    let before = memory.observe_physical().map_err(of_linux)?;
    let mut round = Round {
        fmfi: before.fmfi(HUGE_ORDER),
        occupancy: occupancy(&before),
        chunks: Vec::new(),
        in_vain: 0,
    };
    let mut attempts = BTreeMap::new();
    while round.emptied() < CHUNKS {
        let observation = memory.observe_physical().map_err(of_linux)?;
        let goal = Goal {
            unit: Unit::Chunk,
            count: 1,
            pages: u64::MAX,
        };
        let targets = policy.select(&observation, &goal);
        let vain = targets.iter().filter(|target| !target.empties);
        round.in_vain += vain.map(|target| u64::from(target.pages)).sum::<u64>();
        let Some(target) = targets.iter().find(|target| target.empties) else {
            break;
        };
        let attempt = attempts.entry(target.first_pfn).or_insert(0);
        *attempt += 1;
        if *attempt > ATTEMPTS {
            break; // it could not be emptied before, and nothing better is left
        }
        // A chunk that is tried again is still that of the first choice.
        let least = match *attempt {
            1 => occupancy(&observation).first().copied().unwrap_or(0),
            _ => 0,
        };
        for report in memory.empty(&[*target]).map_err(of_linux)? {
            round.chunks.push(Chunk {
                emptied: report.stopped.is_free(),
                migrated: report.counts.migrated,
                least: u64::from(least),
            });
        }
        contents.read_all()?;
    }
    Ok(round)
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

impl Round {
    fn emptied(&self) -> u64 {
        self.chunks.iter().filter(|chunk| chunk.emptied).count() as u64
    }

    fn migrated(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.migrated).sum()
    }

    /// Pages in the least occupied chunk at each selection: the optimum of the selection.
    fn least(&self) -> u64 {
        let emptied = self.chunks.iter().filter(|chunk| chunk.emptied);
        emptied.map(|chunk| chunk.least).sum()
    }

    /// Pages in the least occupied chunks at the start, as many as were emptied. Lower than what can be reached
    /// where the kernel, which chooses where pages go, puts some into a chunk that is emptied next.
    fn least_at_start(&self) -> u64 {
        let count = usize::try_from(self.emptied()).unwrap_or(usize::MAX);
        let least = self.occupancy.iter().take(count);
        least.map(|&pages| u64::from(pages)).sum()
    }
}

#[allow(clippy::cast_precision_loss)] // counts of pages, far below 2^53
impl Measurement {
    fn total(&self, count: fn(&Round) -> u64) -> f64 {
        self.rounds.iter().map(count).sum::<u64>() as f64
    }

    /// The mean over all chunks emptied.
    fn per_chunk(&self, count: fn(&Round) -> u64) -> f64 {
        self.total(count) / self.total(Round::emptied).max(1.0)
    }

    fn mean(&self, value: fn(&Round) -> f64) -> f64 {
        self.rounds.iter().map(value).sum::<f64>() / self.rounds.len().max(1) as f64
    }
}

pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::from(
        "Trident figure 7: pages moved per 1 GiB chunk (the paper: smart compaction moves up to 85 % fewer bytes)\n\n",
    );
    let mut table = Table::new(&[
        "policy",
        "FMFI",
        "candidates",
        "emptied",
        "moved/chunk",
        "in vain/chunk",
        "least at choice",
        "least at start",
    ]);
    for measurement in measurements {
        #[allow(clippy::cast_precision_loss)] // some chunks
        let candidates = measurement.mean(|round| round.occupancy.len() as f64);
        let whole = |value: f64| format!("{value:.0}");
        table.row([
            measurement.policy.to_string(),
            format!("{:.3}", measurement.mean(|round| round.fmfi)),
            format!("{candidates:.1}"),
            whole(measurement.total(Round::emptied)),
            whole(measurement.per_chunk(Round::migrated)),
            whole(measurement.per_chunk(|round| round.in_vain)),
            whole(measurement.per_chunk(Round::least)),
            whole(measurement.per_chunk(Round::least_at_start)),
        ]);
    }
    text += &table.to_string();
    let find = |name: &str| {
        measurements
            .iter()
            .find(|measurement| measurement.policy == name)
    };
    if let (Some(smart), Some(sequential)) = (find("trident"), find("sequential")) {
        text += &compare(smart, sequential);
    }
    text
}

fn compare(smart: &Measurement, sequential: &Measurement) -> String {
    let moved = |m: &Measurement| m.per_chunk(|round| round.migrated() + round.in_vain);
    let fewer = |than: f64| (1.0 - than / moved(sequential).max(1.0)) * 100.0;
    let above = |optimum: f64| (smart.total(Round::migrated) / optimum.max(1.0) - 1.0) * 100.0;
    let at_choice = above(smart.total(Round::least));
    let emptied: u64 = smart.rounds.iter().map(Round::emptied).sum();
    let wanted = CHUNKS * smart.rounds.len() as u64;
    format!(
        "\nsmart compaction moves {:.0} % fewer pages per chunk than sequential; in sequential's own memory the least \
         occupied\nchunks had {:.0} % fewer than it moved. Smart compaction moved {at_choice:.1} % more than the least \
         occupied chunk had when it\nwas chosen (bar 5 %: {}), {:.1} % more than the least occupied chunks had at the \
         start: the kernel puts some of what\nis moved into the chunks that come next\n",
        fewer(moved(smart)),
        fewer(sequential.per_chunk(Round::least)),
        if at_choice > 5.0 {
            "NOT MET".to_owned()
        } else if emptied < wanted {
            format!("NOT MET: only {emptied} of {wanted} chunks were emptied")
        } else {
            "met".to_owned()
        },
        above(smart.total(Round::least_at_start)),
    )
}
