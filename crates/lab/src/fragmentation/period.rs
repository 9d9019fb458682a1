//! One period of compaction under a policy, with the counts of the kernel and the module.

use std::sync::Arc;

use mega_core::compaction::{self, CompactionPolicy, Compactor, Goal, Mechanism, Unit};
use mega_core::promotion::Parameters;
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::physical::vmstat::CompactionStatistics;
use mega_linux::physical::{self, PhysicalMemory};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What happened in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Period {
    /// Free blocks at its end.
    pub(super) free_blocks: u64,
    /// Blocks that were tried, and those of them that are free now.
    pub(super) tried: u64,
    pub(super) emptied: u64,
    /// The kernel's own counts (`/proc/vmstat`), over the period; pages scanned are the module's too.
    pub(super) migrate_scanned: u64,
    pub(super) free_scanned: u64,
    pub(super) isolated: u64,
    pub(super) migrated: u64,
    pub(super) failed: u64,
}

/// A policy at work on this machine.
pub(super) struct Compaction {
    kernel: Arc<dyn Kernel>,
    policy: Option<Box<dyn CompactionPolicy>>,
    memory: PhysicalMemory,
}

/// MEGA's machine had 16 GB; budgets are scaled from it to this one.
pub(super) const PAPER_BYTES: u64 = 16 << 30;

impl Compaction {
    /// `policy` by name, or `none`, with its budget scaled from the paper's machine to this one's memory: as many
    /// bytes per period for every policy that has a budget.
    pub(super) fn new(policy: &str, memory_bytes: u64) -> Result<Self, Error> {
        let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
        let memory = PhysicalMemory::with_module(Arc::clone(&kernel)).map_err(of_linux)?;
        let policy = match policy {
            "none" => None,
            name => Some(build(name, memory_bytes)?),
        };
        Ok(Compaction {
            kernel,
            policy,
            memory,
        })
    }

    /// One period: looks, selects within the budget, empties, and counts.
    pub(super) fn period(&mut self) -> Result<Period, Error> {
        let before = self.statistics()?;
        let mut period = Period::default();
        match &mut self.policy {
            None => {}
            Some(policy) if policy.mechanism() == Mechanism::Kernel => {
                physical::compact_memory(self.kernel.as_ref()).map_err(of_linux)?;
            }
            Some(policy) => {
                let observation = self.memory.observe_physical().map_err(of_linux)?;
                let goal = Goal {
                    unit: Unit::Block,
                    count: u64::MAX,
                    pages: policy.budget_pages(),
                };
                let targets = policy.select(&observation, &goal);
                let emptied = self.memory.empty(&targets).map_err(of_linux)?;
                period.tried = emptied.len() as u64;
                period.migrate_scanned = emptied.iter().map(|emptied| emptied.counts.scanned).sum();
                period.emptied = emptied
                    .iter()
                    .filter(|emptied| emptied.stopped.is_free())
                    .count() as u64;
            }
        }
        let counted = self.statistics()?.since(&before);
        Ok(Period {
            free_blocks: self.free_blocks()?,
            // The kernel counts its own compaction here, the module that of chosen blocks.
            migrate_scanned: counted.migrate_scanned + period.migrate_scanned,
            free_scanned: counted.free_scanned,
            isolated: counted.isolated,
            migrated: counted.migrated,
            failed: counted.failed,
            ..period
        })
    }

    /// Free blocks now.
    pub(super) fn free_blocks(&self) -> Result<u64, Error> {
        let memory =
            mega_linux::observe::memory::observe(self.kernel.as_ref()).map_err(of_linux)?;
        Ok(memory.contiguity / mega_core::HUGE_PAGE_SIZE)
    }

    fn statistics(&self) -> Result<CompactionStatistics, Error> {
        CompactionStatistics::read(self.kernel.as_ref()).map_err(of_linux)
    }
}

/// Budgets are whole MiB; Ingens goes over so much of each of two zones, half of the others' budget.
fn build(name: &str, memory_bytes: u64) -> Result<Box<dyn CompactionPolicy>, Error> {
    let mut parameters = Parameters::new();
    let half = (100 * memory_bytes / PAPER_BYTES).max(1);
    #[allow(clippy::cast_precision_loss)] // some thousands at most
    let half = half as f64;
    match name {
        "mega" | "trident" => parameters.insert("budget".to_owned(), 2.0 * half),
        "ingens" => parameters.insert("budget".to_owned(), half),
        _ => None,
    };
    compaction::build(name, &parameters).map_err(|error| Error::Failed(error.to_string()))
}

/// The memory of this machine, in bytes.
pub(super) fn machine_bytes() -> Result<u64, Error> {
    mega_linux::observe::memory::observe(&LiveKernel)
        .map(|memory| memory.total)
        .map_err(of_linux)
}

pub(super) fn of_linux(error: mega_linux::Error) -> Error {
    match error.exit_kind() {
        mega_linux::error::ExitKind::Missing => Error::Missing(error.to_string()),
        mega_linux::error::ExitKind::Failed => Error::Failed(error.to_string()),
    }
}
