//! `mega workload`: programs with known behaviour, which say what they do.
//!
//! With `--json` each prints JSON lines on standard output: first `ready` when its memory is as it says
//! ([`report::Ready`]), at the end `done` ([`report::Done`]), and in between `resting` each time it rests on request
//! ([`report::Resting`]).

mod access;
mod arguments;
mod btree;
mod bursts;
mod chase;
mod chunks;
mod churn;
mod cross_sections;
mod crowd;
mod cycle;
mod first_touch;
mod fork;
mod fragment;
mod graph;
mod graph_bfs;
mod grow;
mod hash_join;
mod hot_cold;
mod look_ups;
mod matrix;
mod mixed;
mod objects;
mod orders;
mod paced;
pub(crate) mod pin;
mod probe;
mod random;
pub mod rates;
pub mod report;
mod search;
mod slices;
mod small;
mod sparse;
mod stop;
mod stride;
mod wide;
mod xs_lookup;
mod zeros;

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use crate::error::Error;
use arguments::{Common, Growth, Parallel};
pub(crate) use cross_sections::{MATERIALS, NUCLIDES, POINT};
use report::{Done, Reporter};
use stop::Stop;

/// Runs a program with known behaviour, for tests and experiments
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    workload: Workload,
}

/// Which program.
#[derive(Clone, Debug, Subcommand)]
enum Workload {
    /// Updates random words all over its memory; the sum of all words shows whether any was lost
    #[command(visible_alias = "gups")]
    Random(Parallel),
    /// Follows one random cycle through all cache lines of its memory
    Chase(Parallel),
    /// Reads random cache lines, none of which waits for another, as often as `chase` does
    Paced(Common),
    /// Looks up random keys in a B+-tree that fills its memory
    Btree(Parallel),
    /// Searches a random graph breadth first, from one random root after the other
    GraphBfs(Parallel),
    /// Probes a hash table built from one relation with the tuples of another
    HashJoin(Parallel),
    /// Looks up cross sections of materials at random energies
    XsLookup(Parallel),
    /// Visits its memory in steps of 32 KiB
    Stride(Common),
    /// Touches all of its memory in pieces, then uses one piece in six at random
    Chunks(Common),
    /// Maps, writes, reads and frees all of its memory again and again
    Cycle(Common),
    /// Multiplies matrices that stay in the cache
    Matrix(Common),
    /// Touches one page in eight once, never again, then idles
    Sparse(Common),
    /// Uses every page of the first half of its memory again and again, the second half only once
    HotCold(Common),
    /// Asks for huge pages and leaves three in four of their base pages zero
    Zeros(Common),
    /// Touches page by page and times each first touch
    Grow {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        growth: Growth,
    },
    /// Updates random words of memory within the TLB's reach
    Small(Common),
    /// Maps, fills, checks and unmaps pieces of memory again and again
    Churn(Common),
    /// Grows as `grow`, touches another area of the same size as `sparse`, then works as `random`
    Mixed(Common),
    /// Works as `random` while another thread times mapping and unmapping memory
    Probe(Common),
    /// Starts children that each work as `random` on a part of the memory
    Fork {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        family: fork::Family,
    },
    /// Starts many processes that touch a part of the memory once and rest
    Crowd {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        crowd: crowd::Size,
    },
    /// Touches one page in each region of a large address space, again and again
    Wide(Common),
    /// Fragments physical memory and holds what it keeps until its end
    Fragment {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        how: fragment::How,
    },
}

/// Runs the workload; fails when its memory does not hold at the end what it wrote there.
///
/// # Errors
/// When memory cannot be mapped, standard output cannot be written, standard input says something that is not understood,
/// or data was lost.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let (common, name) = args.workload.common_and_name();
    if common.no_huge_pages {
        rustix::thread::disable_transparent_huge_pages(true)
            .map_err(|e| Error::io("disabling huge pages for this process by prctl", e))?;
    }
    if common.pin {
        pin::keep_to_last()?;
    }
    std::thread::sleep(Duration::from_millis(common.delay));
    let mut reporter = Reporter::new(name, common.seed, common.json);
    let mut stop = match args.workload.operations() {
        Some(operations) => Stop::after(operations),
        None => Stop::new(common.seconds, common.until_eof),
    };
    let done = args.workload.run(&mut reporter, &mut stop)?;
    stop.check()?;
    finish(&mut reporter, done)
}

impl Workload {
    /// How many operations it is to end after, where it is told.
    fn operations(&self) -> Option<u64> {
        match self {
            Workload::Random(parallel)
            | Workload::Chase(parallel)
            | Workload::Btree(parallel)
            | Workload::GraphBfs(parallel)
            | Workload::HashJoin(parallel)
            | Workload::XsLookup(parallel) => parallel.operations,
            _ => None,
        }
    }

    fn common_and_name(&self) -> (&Common, &'static str) {
        match self {
            Workload::Random(parallel) => (&parallel.common, "random"),
            Workload::Chase(parallel) => (&parallel.common, "chase"),
            Workload::Btree(parallel) => (&parallel.common, "btree"),
            Workload::GraphBfs(parallel) => (&parallel.common, "graph-bfs"),
            Workload::HashJoin(parallel) => (&parallel.common, "hash-join"),
            Workload::XsLookup(parallel) => (&parallel.common, "xs-lookup"),
            Workload::Paced(common) => (common, "paced"),
            Workload::Stride(common) => (common, "stride"),
            Workload::Chunks(common) => (common, "chunks"),
            Workload::Cycle(common) => (common, "cycle"),
            Workload::Matrix(common) => (common, "matrix"),
            Workload::Sparse(common) => (common, "sparse"),
            Workload::HotCold(common) => (common, "hot-cold"),
            Workload::Zeros(common) => (common, "zeros"),
            Workload::Grow { common, .. } => (common, "grow"),
            Workload::Small(common) => (common, "small"),
            Workload::Churn(common) => (common, "churn"),
            Workload::Mixed(common) => (common, "mixed"),
            Workload::Fork { common, .. } => (common, "fork"),
            Workload::Crowd { common, .. } => (common, "crowd"),
            Workload::Wide(common) => (common, "wide"),
            Workload::Fragment { common, .. } => (common, "fragment"),
            Workload::Probe(common) => (common, "probe"),
        }
    }

    fn run(&self, reporter: &mut Reporter, stop: &mut Stop) -> Result<Done, Error> {
        match self {
            Workload::Random(parallel) => random::run(parallel, reporter, stop),
            Workload::Chase(parallel) => chase::run(parallel, reporter, stop),
            Workload::Btree(parallel) => btree::run(parallel, reporter, stop),
            Workload::GraphBfs(parallel) => graph_bfs::run(parallel, reporter, stop),
            Workload::HashJoin(parallel) => hash_join::run(parallel, reporter, stop),
            Workload::XsLookup(parallel) => xs_lookup::run(parallel, reporter, stop),
            Workload::Paced(common) => paced::run(common, reporter, stop),
            Workload::Stride(common) => stride::run(common, reporter, stop),
            Workload::Chunks(common) => chunks::run(common, reporter, stop),
            Workload::Cycle(common) => cycle::run(common, reporter, stop),
            Workload::Matrix(common) => matrix::run(common, reporter, stop),
            Workload::Sparse(common) => sparse::run(common, reporter, stop),
            Workload::HotCold(common) => hot_cold::run(common, reporter, stop),
            Workload::Zeros(common) => zeros::run(common, reporter, stop),
            Workload::Small(common) => small::run(common, reporter, stop),
            Workload::Churn(common) => churn::run(common, reporter, stop),
            Workload::Mixed(common) => mixed::run(common, reporter, stop),
            Workload::Grow { common, growth } => grow::run(common, growth, reporter, stop),
            Workload::Fork { common, family } => fork::run(common, family, reporter, stop),
            Workload::Crowd { common, crowd } => crowd::run(common, crowd, reporter, stop),
            Workload::Wide(common) => wide::run(common, reporter, stop),
            Workload::Fragment { common, how } => fragment::run(common, how, reporter, stop),
            Workload::Probe(common) => probe::run(common, reporter, stop),
        }
    }
}

fn finish(reporter: &mut Reporter, done: Done) -> Result<ExitCode, Error> {
    let verified = done.verified;
    reporter.done(done)?;
    if verified {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Error::Failed(
        "the memory does not hold what was written there: data was lost".into(),
    ))
}
