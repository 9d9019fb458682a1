//! `memcached`: a real memcached on memory that the page cache has fragmented.

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::experiments::latency::{P50, P99, P99_9, P99_99, with_latencies};
use crate::live::free_blocks::{FREE_2MIB, FREE_4MIB, free_blocks};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{HUGE, MANAGER_CPU, OPERATIONS, RESIDENT, Sample};
use crate::live::run::Run;
use crate::live::server::load::Load;
use crate::live::server::memcached::{MEMCACHED, start};
use crate::live::server::memcached_text::MemcachedText;
use crate::live::server::requests::Request;
use crate::resident;

/// Bytes that a value of 4 KiB takes at most of memcached's memory: its slab classes grow by a quarter.
const BYTES_OF_4_KIB: u64 = 5 << 10;
/// Clients: two for each thread of `memtier_benchmark`'s four by default, as one thread sees to all of them.
const CLIENTS: usize = 8;
/// Memory that is fragmented before, as a multiple of the server's.
const FRAGMENTED: u64 = 4;

pub(super) const MEMCACHED_UNDER_LOAD: Experiment = Experiment {
    name: "memcached",
    title: "memcached on fragmented memory",
    about: "Memory of four times the server's size is fragmented with the page cache (after Trident, section 4; the \
            rest of the machine's memory stays as it is). Then a fresh memcached with one thread gets values of 4 KiB, \
            is asked for them and given new ones, 10 to 1, uniformly at random by 8 clients. memcached advises \
            nothing, so the khugepaged mode shows base pages with khugepaged beside them.",
    paper: Some(PaperFigure {
        source: "Trident, table 5 (99 % of latencies below, in ms)",
        systems: &["4KB", "THP", "Trident"],
        rows: &[
            ("Memcached, no fragmentation", &["1.53", "1.52", "1.53"]),
            ("Memcached, fragmentation", &["1.55", "1.55", "1.54"]),
        ],
    }),
    programs: &[MEMCACHED],
    metrics: &[
        OPERATIONS,
        P50,
        P99,
        P99_9,
        P99_99,
        FREE_2MIB,
        FREE_4MIB,
        RESIDENT,
        HUGE,
        MANAGER_CPU,
    ],
    goals: &[Goal::best_static(OPERATIONS.id, Bound::AtLeast(0.95))],
    modes: super::server_modes,
    // The fragmenter has all of its memory at one moment, and holds three quarters of it when the server comes.
    most_resident: 5,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let mut fragmenter = run.workload_beside("fragment")?;
    fragmenter
        .arg("--method=trident")
        .arg(format!("--size={}", FRAGMENTED * run.size))
        .arg("--folder")
        .arg(run.scratch);
    let (fragmenter, _) = run.ready_workload(fragmenter)?;
    let server = start(run, run.size)?;
    let load = Load {
        port: server.port(),
        connections: CLIENTS,
        value_bytes: 4 << 10,
        placement: run.placement,
    };
    let keys = run.size / BYTES_OF_4_KIB;
    load.send_all::<MemcachedText>(run, (0..keys).map(Request::Set))?;
    let loaded = load.get_and_set::<MemcachedText>(run, &server, keys)?;
    let resident = resident::of(server.pid())?;
    let [free_2mib, free_4mib] = free_blocks()?;
    server.stop()?;
    fragmenter.finish()?;
    let sample = Sample::default()
        .with(OPERATIONS, loaded.rate())
        .with(FREE_2MIB, free_2mib)
        .with(FREE_4MIB, free_4mib)
        .with(RESIDENT, resident.resident_bytes as f64)
        .with(HUGE, resident.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?);
    Ok(with_latencies(sample, &loaded))
}
