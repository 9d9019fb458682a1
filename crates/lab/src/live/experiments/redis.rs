//! `redis`: a real Redis on memory that was fragmented before.

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::experiments::latency::{P50, P99, P99_9, P99_99, with_latencies};
use crate::live::free_blocks::{FREE_2MIB, FREE_4MIB, free_blocks};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, HUGE, MANAGER_CPU, Metric, OPERATIONS, RESIDENT, Sample, Unit};
use crate::live::run::Run;
use crate::live::server::load::{Load, Loaded};
use crate::live::server::redis::{BYTES_OF_4_KIB, REDIS, start};
use crate::live::server::requests::Request;
use crate::live::server::resp::Resp;
use crate::random::{Random, below};
use crate::resident;

/// Bytes that a value of 2 MiB takes of Redis's memory: with its head it does not fit the allocator's class of 2 MiB,
/// and the next is of 2.5 MiB.
const BYTES_OF_2_MIB: u64 = 5 << 19;
/// Clients of the phase with small values: two for each thread of `memtier_benchmark`'s four by default, as one thread
/// sees to all of them.
const CLIENTS: usize = 8;
/// Clients of the phase with large values (MEGA, section 4.5).
const LARGE_CLIENTS: usize = 50;
/// Large values that each client stores at least; where they are few, so are the clients.
const LARGE_EACH: usize = 4;
/// Keys of large values, from which they are drawn at random (MEGA, section 4.5), and the first of them.
const LARGE_KEYS: usize = 7_536_640;
const FIRST_LARGE_KEY: u64 = 10_000_000;
/// Memory that is fragmented before, as a multiple of the server's.
const FRAGMENTED: u64 = 4;
/// With less memory too few large values would be stored.
const LEAST: u64 = 64 << 20;

const LARGE_SETS: Metric = Metric::new(
    "large_sets_per_second",
    "SETs of 2 MiB per second",
    Unit::PerSecond,
    Better::Higher,
);
const LARGE_P99: Metric = Metric::new(
    "large_p99_ns",
    "99 % of latencies of SETs of 2 MiB below",
    Unit::Nanoseconds,
    Better::Lower,
);
const LARGE_MAX: Metric = Metric::new(
    "large_max_ns",
    "longest latency of a SET of 2 MiB",
    Unit::Nanoseconds,
    Better::Lower,
);

pub(super) const REDIS_UNDER_LOAD: Experiment = Experiment {
    name: "redis",
    title: "Redis on fragmented memory",
    about: "Memory of four times the server's size is fragmented as in MEGA, section 4.5 (scaled from 200 GiB of 256; \
            the rest of the machine's memory stays as it is). Then a fresh redis-server gets values of 4 KiB for half \
            of its size; is asked for them and given new ones, 10 to 1, uniformly at random by 8 clients; and gets \
            values of 2 MiB for the other half, under random keys, by 50 clients. Redis advises nothing, so the \
            khugepaged mode shows base pages with khugepaged beside them.",
    paper: Some(PaperFigure {
        source: "MEGA, tables 9 and 10 (SETs of 2 MiB)",
        systems: &["Ingens", "MEGA"],
        rows: &[
            ("Throughput (req/s)", &["501.54", "638.05"]),
            ("99th latency", &["278ms", "104ms"]),
            ("99.9th latency", &["421ms", "260ms"]),
            ("99.99th latency", &["505ms", "266ms"]),
            ("#2MB blocks", &["42", "14"]),
            ("#4MB blocks", &["58", "1146"]),
        ],
    }),
    programs: &[REDIS],
    metrics: &[
        OPERATIONS,
        P50,
        P99,
        P99_9,
        P99_99,
        LARGE_SETS,
        LARGE_P99,
        LARGE_MAX,
        FREE_2MIB,
        FREE_4MIB,
        RESIDENT,
        HUGE,
        MANAGER_CPU,
    ],
    goals: &[Goal::best_static(OPERATIONS.id, Bound::AtLeast(0.95))],
    modes: super::server_modes,
    // The fragmenter holds half of its memory when the server comes. With the server, and the clients' buffers.
    most_resident: 4,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    run.require(LEAST)?;
    let mut fragmenter = run.workload_beside("fragment")?;
    fragmenter
        .arg("--method=mega")
        .arg(format!("--size={}", FRAGMENTED * run.size));
    let (fragmenter, _) = run.ready_workload(fragmenter)?;
    let server = start(run)?;
    let load = Load {
        port: server.port(),
        connections: CLIENTS,
        value_bytes: 4 << 10,
        placement: run.placement,
    };
    let keys = run.size / 2 / BYTES_OF_4_KIB;
    load.send_all::<Resp>(run, (0..keys).map(Request::Set))?;
    let small = load.get_and_set::<Resp>(run, &server, keys)?;
    let large = large_sets(run, server.port())?;
    let resident = resident::of(server.pid())?;
    let [free_2mib, free_4mib] = free_blocks()?;
    server.stop()?;
    fragmenter.finish()?;
    let sample = Sample::default()
        .with(OPERATIONS, small.rate())
        .with(LARGE_SETS, large.rate())
        .with(LARGE_P99, large.latency_at(99.0))
        .with(LARGE_MAX, large.latency_at(100.0))
        .with(FREE_2MIB, free_2mib)
        .with(FREE_4MIB, free_4mib)
        .with(RESIDENT, resident.resident_bytes as f64)
        .with(HUGE, resident.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?);
    Ok(with_latencies(sample, &small))
}

/// SETs of 2 MiB under random keys, for half of the server's memory.
fn large_sets(run: &Run<'_>, port: u16) -> Result<Loaded, Error> {
    let sets = usize::try_from(run.size / 2 / BYTES_OF_2_MIB).unwrap_or(usize::MAX);
    let mut random = Random::new(run.seed);
    let requests = std::iter::repeat_with(move || {
        Request::Set(FIRST_LARGE_KEY + below(random.word(), LARGE_KEYS) as u64)
    });
    let load = Load {
        port,
        connections: (sets / LARGE_EACH).clamp(1, LARGE_CLIENTS),
        value_bytes: 2 << 20,
        placement: run.placement,
    };
    load.send_all::<Resp>(run, requests.take(sets))
}
