//! Trident tables 3 and 4, and figure 7 for the kernel's own compaction: the memory that 1 GiB and 2 MiB pages map for
//! programs of different shapes, how often a 1 GiB page found no chunk, and what the kernel moved to empty chunks.
//!
//! The programs run one after the other on the patched kernel, with free and with fragmented memory, under one
//! mechanism: faults alone, or faults and then a policy until it finds nothing more to do. If memory is free, the pool
//! of zeroed chunks is full when a program begins. If memory is fragmented, the pool begins to fill with the program,
//! by emptying chunks. The experiment gives the pool up before it promotes, because promotion cannot use what the pool
//! holds.

use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::{Compactor, HUGE_ORDER};
use mega_core::engine::{Budgets, Engine, Totals};
use mega_core::promotion::{self, MachineSetting, Parameters};
use mega_core::{ActionKind, Cause};
use mega_linux::kernel::LiveKernel;
use mega_linux::physical::PhysicalMemory;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, process};
use serde::{Deserialize, Serialize};

use super::fragment::fragment;
use super::giant_settings::{self, Counts, Faults};
use super::period::of_linux;
use super::shape::{Program, Shape};
use crate::error::Error;
use crate::resident;

/// Shares of memory that stay in use, in percent: they leave room for a program.
const KEPT: std::ops::RangeInclusive<usize> = 5..=45;
/// Spans of a program.
const SPANS: u32 = 2;
/// A step of the engine, and the pause before it.
const INTERVAL: Duration = Duration::from_millis(200);
/// So many steps without a change are the end: the engine leaves alone for 64 what failed for good, as it seems, and a
/// region of which a page was just being moved seems so.
const QUIET_STEPS: u32 = 67;
/// The mechanism that is none beside the page fault.
const FAULT_ONLY: &str = "fault-only";

/// What is compared: faults alone, then policies.
pub(super) const MECHANISMS: &[&str] = &[FAULT_ONLY, "trident-nc", "trident", "trident-1g-only"];

/// One mechanism's run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    pub(super) mechanism: String,
    pub(super) cases: Vec<Case>,
}

/// What one program got.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) shape: Shape,
    pub(super) fragmented: bool,
    /// Of memory as the program found it.
    pub(super) fmfi: f64,
    /// Bytes in memory, and those of them that giant pages map, and huge pages by themselves.
    pub(super) footprint: u64,
    pub(super) giant: u64,
    pub(super) huge: u64,
    /// Promotions to a giant page that were made, and that failed for lack of a chunk.
    pub(super) promoted: u64,
    pub(super) refused: u64,
    /// What the kernel counted from the program's begin on.
    pub(super) counts: Counts,
}

pub(super) fn measure(mechanism: &str) -> Result<Measurement, Error> {
    let faults = match mechanism {
        "trident-1g-only" => Faults::GiantOrBase,
        _ => Faults::AllSizes,
    };
    let sequential = promotion::registry().iter().any(|info| {
        info.name == mechanism && info.settings.contains(&MachineSetting::SequentialChunks)
    });
    giant_settings::set_faults(faults)?;
    giant_settings::set_sequential(sequential)?;
    let mut cases = Vec::new();
    for fragmented in [false, true] {
        for (seed, shape) in (0..).zip(Shape::ALL) {
            cases.push(case(mechanism, shape, fragmented.then_some(seed))?);
        }
    }
    Ok(Measurement {
        mechanism: mechanism.to_owned(),
        cases,
    })
}

/// Runs one program, in memory that is fragmented by `seed` if there is one.
fn case(mechanism: &str, shape: Shape, seed: Option<u64>) -> Result<Case, Error> {
    let others = seed.map(|seed| fragment(seed, KEPT)).transpose()?;
    let fmfi = fmfi()?;
    giant_settings::set_pool(SPANS)?;
    if others.is_none() {
        giant_settings::wait_for_pool(u64::from(SPANS))?;
    }
    let before = Counts::read()?;
    let program = Program::start(shape)?;
    giant_settings::set_pool(0)?;
    giant_settings::wait_for_pool(0)?;
    let done = match mechanism {
        FAULT_ONLY => Totals::default(),
        policy => promote(policy, program.pid())?,
    };
    let counts = Counts::read()?.since(&before);
    let resident = resident::of(program.pid())?;
    program.finish()?;
    if let Some(others) = others {
        others.read_all()?;
    }
    let refused = done.failures[ActionKind::PromoteGiant].get(&Cause::NoMemory);
    Ok(Case {
        shape,
        fragmented: seed.is_some(),
        fmfi,
        footprint: resident.resident_bytes,
        giant: resident.giant_bytes,
        huge: resident.huge_bytes.saturating_sub(resident.giant_bytes),
        promoted: done.done[ActionKind::PromoteGiant],
        refused: refused.copied().unwrap_or(0),
        counts,
    })
}

fn fmfi() -> Result<f64, Error> {
    let mut memory = PhysicalMemory::with_module(Arc::new(LiveKernel)).map_err(of_linux)?;
    let seen = memory.observe_physical().map_err(of_linux)?;
    Ok(seen.fmfi(HUGE_ORDER))
}

/// Has a policy work on a process until it changes nothing more.
fn promote(policy: &str, pid: u32) -> Result<Totals, Error> {
    let policy = promotion::build(policy, &Parameters::new())
        .map_err(|error| Error::Failed(error.to_string()))?;
    let host = Arc::new(Host::open(HostOptions::default()).map_err(of_linux)?);
    let target = process::identify(host.kernel().as_ref(), pid).map_err(of_linux)?;
    let mut machine = LinuxMachine::new(host, MachineOptions::default());
    machine.set_targets(vec![target]);
    let budgets = Budgets {
        cpu_share: 1.0,
        copy_bytes_per_second: 1 << 40,
        standstill: 1.0,
    };
    let mut engine = Engine::new(policy, budgets, INTERVAL);
    let mut quiet = 0;
    while quiet < QUIET_STEPS {
        let report = engine.step(&mut machine).map_err(of_linux)?;
        quiet = if changes(&report.actions) == 0 {
            quiet + 1
        } else {
            0
        };
        std::thread::sleep(report.next_interval);
    }
    Ok(engine.totals().clone())
}

fn changes(actions: &Totals) -> u64 {
    actions.done.values().sum()
}
