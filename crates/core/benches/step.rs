//! What a step of the engine costs if it wants a million regions at once: `cargo bench -p mega-core`.
//!
//! It prints the CPU time, in milliseconds per million regions, that engine and policy take without the machine, and
//! compares that with a plain pass over the observation. The bar is 100 ms with `adaptive` and the default budgets: it exits with 1
//! above. With names of policies (`cargo bench -p mega-core --bench step -- adaptive`) it measures no others.

#![allow(clippy::expect_used)] // As in a test: what cannot be measured ends it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use mega_core::engine::{Budgets, Engine};
use mega_core::promotion::{Parameters, build, registry};
use mega_core::{
    Action, ActionKind, Cause, HUGE_PAGE_SIZE, Machine, MemoryObservation, Observation, Outcome,
    PageSize, ProcessId, ProcessObservation, Region, RegionObservation, RegionRef,
};

const REGIONS: u64 = 1_000_000;
/// What a step of `adaptive` may take, in milliseconds.
const BAR_MS: f64 = 100.0;
const INTERVAL: Duration = Duration::from_secs(5);
/// Steps before those that are measured: histories fill up, and what failed is known.
const WARM_UP: usize = 12;
const MEASURED: usize = 9;

/// Reports what was prepared, and says at once that every action ended so.
struct Prepared {
    next: Option<Observation>,
    outcome: Outcome,
    clock: Duration,
}

impl Machine for Prepared {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.clock
    }

    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn observe(&mut self) -> Result<Observation, Infallible> {
        Ok(self.next.take().unwrap_or_default())
    }

    fn count_zero_filled(&mut self, _target: RegionRef) -> Option<u16> {
        None
    }

    fn promotion_seconds(&self) -> Option<f64> {
        None
    }

    fn rest(&mut self, _time: Duration) {}

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        vec![self.outcome; actions.len()]
    }
}

/// A million regions of base pages in so many processes, each used to some extent.
fn observation(processes: u64) -> Observation {
    let region = |index: u64| RegionObservation {
        region: Region::containing((1 << 40) + index * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed: u16::try_from(257 + index * 7919 % 256).unwrap_or(512),
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    };
    let process = |pid: u64| ProcessObservation {
        process: ProcessId {
            pid: u32::try_from(pid).unwrap_or(u32::MAX),
            start_time: 1,
        },
        cpu_time: None,
        regions: (0..REGIONS / processes).map(region).collect(),
        accesses_known: true,
        node: None,
        cgroup: None,
    };
    let total = 8 * REGIONS * HUGE_PAGE_SIZE;
    Observation {
        interval: INTERVAL,
        processes: (1..=processes).map(process).collect(),
        memory: MemoryObservation {
            total,
            available: total / 2,
            free: total / 2,
            contiguity: total / 2,
            nodes: Vec::new(),
        },
        idle_cpus: None,
        giant_pages: false,
        free_zero: false,
        counted: BTreeMap::new(),
        glances: Vec::new(),
    }
}

/// CPU time of this thread, which is all that a step costs, whoever else is at work.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    milliseconds(times[times.len() / 2])
}

/// The median of a step, and how many actions were wanted in the last.
fn step(policy: &str, seen: &Observation, budgets: Budgets, outcome: Outcome) -> (f64, u64) {
    let policy = build(policy, &Parameters::new()).expect("defaults are in range");
    let mut engine = Engine::new(policy, budgets, INTERVAL);
    let mut machine = Prepared {
        next: None,
        outcome,
        clock: Duration::ZERO,
    };
    let mut times = Vec::new();
    let mut wanted = 0;
    for round in 0..WARM_UP + MEASURED {
        machine.next = Some(seen.clone());
        machine.clock += INTERVAL;
        let start = cpu_time();
        let report = engine.step(&mut machine);
        let took = cpu_time().saturating_sub(start);
        let Ok(report) = report;
        let done = report.actions;
        wanted = done.deferred_by_budget
            + done.backed_off
            + done.done[ActionKind::Promote]
            + done.failed();
        if round >= WARM_UP {
            times.push(took);
        }
    }
    (median(times), wanted)
}

fn plain_pass(seen: &Observation) -> f64 {
    let pass = || {
        let start = cpu_time();
        let regions = seen.processes.iter().flat_map(|process| &process.regions);
        let sum = regions.fold(0, |sum, region| {
            sum + u64::from(region.mapped) + u64::from(region.accessed)
        });
        black_box(sum);
        cpu_time().saturating_sub(start)
    };
    median((0..MEASURED).map(|_| pass()).collect())
}

/// Whether this policy was asked for: where none was named, all are.
fn is_asked_for(policy: &str) -> bool {
    // Cargo adds options of its own.
    let mut named = std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with('-'));
    let first = named.next();
    first.is_none_or(|first| first == policy || named.any(|name| name == policy))
}

fn main() -> ExitCode {
    let mut is_met = true;
    let budgets = Budgets::default();
    let everything = Budgets {
        cpu_share: 1.0,
        standstill: 1.0,
        copy_bytes_per_second: u64::MAX >> 8,
    };
    let promoted = Outcome::Done {
        resident_before: HUGE_PAGE_SIZE,
        resident_after: HUGE_PAGE_SIZE,
    };
    let busy = Outcome::Failed(Cause::Busy);
    println!(
        "{:<18} {:>9} {:<24} {:>9} {:>8} {:>7}",
        "policy", "processes", "budget and outcome", "wanted", "ms", "ratio"
    );
    for processes in [1, 100] {
        let seen = observation(processes);
        let plain = plain_pass(&seen);
        println!(
            "{:<18} {processes:>9} {:<24} {:>9} {plain:>8.2}",
            "plain pass", "", ""
        );
        let print = |name: &str, what: &str, (ms, wanted): (f64, u64)| {
            let ratio = ms / plain;
            println!("{name:<18} {processes:>9} {what:<24} {wanted:>9} {ms:>8.2} {ratio:>7.1}");
        };
        for info in registry().iter().filter(|info| is_asked_for(info.name)) {
            let (ms, wanted) = step(info.name, &seen, budgets, promoted);
            is_met &= info.name != "adaptive" || ms <= BAR_MS;
            print(info.name, "default, promoted", (ms, wanted));
        }
        if is_asked_for("adaptive") {
            print(
                "adaptive",
                "unlimited, all busy",
                step("adaptive", &seen, everything, busy),
            );
        }
    }
    if is_met {
        ExitCode::SUCCESS
    } else {
        eprintln!("step: `adaptive` took more than {BAR_MS} ms");
        ExitCode::from(1)
    }
}
