//! Observations made by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::promotion::{Parameters, build};
use mega_core::{
    Action, ActionKind, FailureMemory, MemoryObservation, Observation, PageSize, Policy, ProcessId,
    ProcessObservation, Region, RegionObservation, RegionRef,
};

pub(crate) const GIB: u64 = 1 << 30;

/// A machine with nothing scarce.
pub(crate) const PLENTY: MemoryObservation = MemoryObservation {
    total: 64 * GIB,
    available: 48 * GIB,
    free: 40 * GIB,
    contiguity: 32 * GIB,
    nodes: Vec::new(),
};

pub(crate) fn process(pid: u32) -> ProcessId {
    ProcessId {
        pid,
        start_time: 1000 + u64::from(pid),
    }
}

/// The region with this number.
pub(crate) fn region(index: u64) -> Region {
    Region::containing((1 << 40) + index * mega_core::HUGE_PAGE_SIZE)
}

pub(crate) fn target(pid: u32, index: u64) -> RegionRef {
    RegionRef {
        process: process(pid),
        region: region(index),
    }
}

/// A region of base pages: its number, base pages mapped, base pages accessed.
pub(crate) fn base(index: u64, mapped: u16, accessed: u16) -> RegionObservation {
    let (region, page_size) = (region(index), PageSize::Base);
    RegionObservation {
        region,
        mapped,
        accessed,
        page_size,
        zero_filled: None,
        swapped: 0,
    }
}

/// A huge page: its number, whether it was accessed, base pages counted as zero-filled.
pub(crate) fn huge(index: u64, accessed: bool, zero_filled: Option<u16>) -> RegionObservation {
    let accessed = if accessed { 512 } else { 0 };
    RegionObservation {
        page_size: PageSize::Huge,
        zero_filled,
        swapped: 0,
        ..base(index, 512, accessed)
    }
}

pub(crate) fn observation(
    memory: MemoryObservation,
    processes: &[(u32, Vec<RegionObservation>)],
) -> Observation {
    let processes = processes
        .iter()
        .map(|(pid, regions)| ProcessObservation {
            process: process(*pid),
            cpu_time: None,
            regions: regions.clone(),
            accesses_known: true,
            node: None,
            cgroup: None,
        })
        .collect();
    Observation {
        interval: Duration::from_secs(5),
        idle_cpus: None,
        processes,
        memory,
        giant_pages: false,
        free_zero: false,
        counted: BTreeMap::new(),
        glances: Vec::new(),
    }
}

/// The same on a machine that has giant pages.
pub(crate) fn with_giant_pages(observation: Observation) -> Observation {
    Observation {
        giant_pages: true,
        ..observation
    }
}

/// The same on one that gives back the zero-filled huge pages of spans too.
pub(crate) fn with_free_zero(observation: Observation) -> Observation {
    Observation {
        free_zero: true,
        ..with_giant_pages(observation)
    }
}

/// One process with these regions, on a machine with nothing scarce.
pub(crate) fn seen(regions: Vec<RegionObservation>) -> Observation {
    observation(PLENTY, &[(1, regions)])
}

pub(crate) fn policy(name: &str, parameters: &[(&str, f64)]) -> Box<dyn Policy> {
    let parameters: Parameters = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect();
    build(name, &parameters).unwrap()
}

/// What the policy decides when it has seen the same `times` times.
pub(crate) fn decides(
    policy: &mut dyn Policy,
    observation: &Observation,
    times: usize,
) -> Vec<Action> {
    (0..times)
        .map(|_| policy.decide(observation, &FailureMemory::default()))
        .last()
        .unwrap_or_default()
}

pub(crate) fn promote(pid: u32, index: u64) -> Action {
    Action {
        kind: ActionKind::Promote,
        target: target(pid, index),
    }
}

/// A huge page in a giant one: its number, whether the giant page was accessed, base pages counted as
/// zero-filled.
pub(crate) fn giant(index: u64, accessed: bool, zero_filled: Option<u16>) -> RegionObservation {
    RegionObservation {
        page_size: PageSize::Giant,
        ..huge(index, accessed, zero_filled)
    }
}

/// Something done to the span with this number.
pub(crate) fn of_span(kind: ActionKind, pid: u32, index: u64) -> Action {
    Action {
        kind,
        target: target(pid, index * mega_core::REGIONS_PER_SPAN as u64),
    }
}

pub(crate) fn demote(pid: u32, index: u64) -> Action {
    Action {
        kind: ActionKind::Demote,
        target: target(pid, index),
    }
}
