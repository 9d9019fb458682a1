//! What the simulated machine takes of the real one: 64 million base pages in 256 GiB, and a step of a policy over them.
//!
//! `cargo bench -p mega-sim --bench machine [-- GIB]`

use std::time::{Duration, Instant};

use mega_core::engine::{Budgets, Engine};
use mega_core::promotion::{self, Parameters};
use mega_core::{BASE_PAGE_SIZE, Machine};
use mega_sim::address_space::Advice;
use mega_sim::physical::Layout;
use mega_sim::{Costs, Kernel, Settings, SimulatedMachine};

const GIB: u64 = 1 << 30;
/// Looks before the one that is timed: the first one makes the policy's records.
const BEFORE: usize = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).filter(|one| !one.starts_with('-'));
    let gib: u64 = arguments.next().map_or(Ok(256), |text| text.parse())?;
    // The program has all of it; an eighth more is for page tables and what the kernel keeps free.
    let layout = Layout::one_node((gib + gib / 8).max(1) * GIB)?;
    let kernel = Kernel::new(&layout, Settings::default(), Costs::trident_server());
    let mut machine = SimulatedMachine::new(kernel, 8);

    let pages = gib * GIB / BASE_PAGE_SIZE;
    let began = Instant::now();
    let (pid, start) = {
        let kernel = machine.kernel_mut();
        let pid = kernel.spawn(0);
        (pid, kernel.map(pid, gib * GIB, Advice::None))
    };
    touch(&mut machine, pid, start, pages)?;
    say("faults", pages, began.elapsed());

    let began = Instant::now();
    touch(&mut machine, pid, start, pages)?;
    say("touches of mapped pages", pages, began.elapsed());

    for name in ["mega", "adaptive"] {
        let policy = promotion::build(name, &Parameters::new())?;
        let budgets = Budgets {
            cpu_share: 1.0,
            copy_bytes_per_second: 0,
            ..Budgets::default()
        };
        let mut engine = Engine::new(policy, budgets, Duration::from_secs(5));
        for _ in 0..BEFORE {
            engine.step(&mut machine)?;
            machine.rest(Duration::from_secs(5));
            touch(&mut machine, pid, start, pages)?;
        }
        let began = Instant::now();
        engine.step(&mut machine)?;
        let took = began.elapsed();
        println!(
            "a step of {name} over {pages} base pages: {:.3} s",
            took.as_secs_f64()
        );
    }
    let state = machine.kernel().state_bytes();
    println!(
        "state of the simulated machine: {:.2} GiB",
        gibibytes(state)
    );
    println!("most real memory in use: {:.2} GiB", gibibytes(peak()?));
    Ok(())
}

fn touch(
    machine: &mut SimulatedMachine,
    pid: mega_sim::kernel::Pid,
    start: u64,
    pages: u64,
) -> Result<(), mega_sim::kernel::Fault> {
    let kernel = machine.kernel_mut();
    for page in 0..pages {
        kernel.touch(pid, start + page * BASE_PAGE_SIZE)?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn say(what: &str, count: u64, took: Duration) {
    let rate = count as f64 / took.as_secs_f64() / 1e6;
    println!(
        "{what}: {count} in {:.2} s, {rate:.1} million a second",
        took.as_secs_f64()
    );
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

/// The most memory that this process had resident, in bytes.
fn peak() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kib
        .ok_or("/proc/self/status has no line VmHWM")?
        .parse::<u64>()?
        << 10)
}
