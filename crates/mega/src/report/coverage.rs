//! How much of some processes' memory huge pages map: `mega coverage --json`.

use std::collections::BTreeMap;

use mega_core::coverage::{Coverage, Part};
use mega_core::{HUGE_PAGE_SIZE, MemoryObservation};
use serde::Serialize;

use super::{HostPage, MachineSupply};

/// What `mega coverage --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CoverageReport {
    pub(crate) version: u32,
    /// Whether each process has its `min`; false where `--min` was given and there is no process.
    pub(crate) holds: bool,
    /// Those that were asked about, by pid.
    pub(crate) processes: Vec<ProcessCoverage>,
    /// Processes of the selection that mega cannot observe.
    pub(crate) refused: u64,
    /// Free blocks of 2 MiB.
    pub(crate) free_blocks: u64,
    /// What the machine could give; `null` where a process was asked about and no blocks are lacking.
    pub(crate) machine: Option<MachineSupply>,
    /// By which pages the host maps these; `null` where the machine is no guest.
    pub(crate) host_page: Option<HostPage>,
}

/// The coverage of one process. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProcessCoverage {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// Who manages it; `null` for nobody.
    pub(crate) managed: Option<Managed>,
    /// `huge` to `mapped`, 0 to 1; `null` where nothing is mapped.
    pub(crate) coverage: Option<f64>,
    /// What was asked for, or what its selection promises, 0 to 1; `null` where neither is.
    pub(crate) min: Option<f64>,
    /// What has a physical page, in memory of the kind that huge pages are for.
    pub(crate) mapped: u64,
    /// Of that, in huge or giant pages.
    pub(crate) huge: u64,
    /// Of that, in regions that base pages map, by what is in the way.
    pub(crate) rest: BTreeMap<&'static str, Part>,
    /// Of that, at addresses that no huge page fits, at most.
    pub(crate) misaligned: u64,
    /// Promotions until `min`, or all of it, is reached, each with a free block; `null` where it is not reached even then.
    pub(crate) blocks_needed: Option<u64>,
    /// Blocks for which its memory cgroup has room; `null` without a limit.
    pub(crate) blocks_allowed: Option<u64>,
    /// What the kernel counts as pinned of all its memory.
    pub(crate) pinned: u64,
    /// The most that VFIO has pinned of it; `null` without VFIO.
    pub(crate) pinned_by_vfio: Option<u64>,
    /// Whether it runs a virtual machine by KVM, so that these are the sizes behind a guest's memory.
    pub(crate) runs_guest: bool,
    /// What would help, in words.
    pub(crate) help: Vec<String>,
}

/// Who manages a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Managed {
    /// The manager's pid.
    pub(crate) by_pid: u32,
    /// The selection; `run` for `mega run`.
    pub(crate) selection: String,
    pub(crate) policy: String,
    /// What the selection promises, 0 to 1.
    pub(crate) promised: Option<f64>,
    /// The memory that it promises that of; `null` for all.
    pub(crate) coverage_of: Option<Vec<String>>,
    /// Failed promotions of the selection since the start, by cause.
    pub(crate) failures: BTreeMap<String, u64>,
}

impl ProcessCoverage {
    /// What a look at a process found, with no help yet.
    pub(crate) fn new(
        pid: u32,
        name: String,
        managed: Option<Managed>,
        found: &Coverage,
        min: Option<f64>,
        blocks_allowed: Option<u64>,
    ) -> Self {
        let named =
            |(obstacle, part): (&mega_core::coverage::Obstacle, &Part)| (obstacle.name(), *part);
        let rest: BTreeMap<&'static str, Part> = found.rest.iter().map(named).collect();
        let in_regions: u64 = found.huge + rest.values().map(|part| part.bytes).sum::<u64>();
        ProcessCoverage {
            pid,
            name,
            managed,
            coverage: found.ratio(),
            min,
            mapped: found.mapped,
            huge: found.huge,
            misaligned: found.mapped.saturating_sub(in_regions),
            rest,
            blocks_needed: found.promotions_to(min.unwrap_or(1.0)),
            blocks_allowed,
            pinned: 0,
            pinned_by_vfio: None,
            runs_guest: false,
            help: Vec::new(),
        }
    }

    /// Whether it has its `min`; true where there is none.
    pub(crate) fn holds(&self) -> bool {
        let both = self.coverage.zip(self.min);
        both.is_none_or(|(coverage, least)| coverage >= least)
    }

    /// How much is in the way so.
    pub(crate) fn part(&self, name: &str) -> Part {
        self.rest.get(name).copied().unwrap_or_default()
    }
}

/// The free blocks of 2 MiB.
pub(crate) fn free_blocks(memory: &MemoryObservation) -> u64 {
    memory.contiguity / HUGE_PAGE_SIZE
}
