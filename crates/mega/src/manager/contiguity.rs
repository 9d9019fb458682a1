//! Keeps blocks free for the promotions to come, by the kernel module.

use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::ahead::{MigrationPace, keep_ahead};
use mega_core::compaction::{BestRatio, CompactionPolicy, Emptied};
use mega_core::engine::Unmet;
use mega_linux::physical::PhysicalMemory;
use mega_linux::{Error, Host};

use crate::report::CompactionReport;

/// Keeps contiguity ahead of promotions, by MEGA's compaction and within its budget per period.
pub(crate) struct Contiguity {
    memory: PhysicalMemory,
    policy: Box<dyn CompactionPolicy>,
    pace: MigrationPace,
    done: CompactionReport,
}

impl Contiguity {
    /// `None` in a dry run and without the module. mega manages without it, too.
    pub(crate) fn open(host: &Host) -> Option<Self> {
        if host.is_dry_run() {
            return None;
        }
        let memory = PhysicalMemory::with_module(Arc::clone(host.kernel())).ok()?;
        let policy: Box<dyn CompactionPolicy> = Box::new(BestRatio::default());
        let pace = MigrationPace::of(policy.as_ref());
        Some(Contiguity {
            memory,
            policy,
            pace,
            done: CompactionReport::default(),
        })
    }

    /// Empties what is `unmet`, as far as the budget of the period allows at the time `now`. Returns what came of it.
    ///
    /// # Errors
    /// Where the module refuses to work at all.
    pub(crate) fn keep_ahead(
        &mut self,
        unmet: &[Unmet],
        now: Duration,
    ) -> Result<Vec<Emptied>, Error> {
        let policy = self.policy.as_mut();
        let emptied = keep_ahead(&mut self.memory, policy, &mut self.pace, unmet, now)?;
        emptied.iter().for_each(|emptied| self.done.add(emptied));
        Ok(emptied)
    }

    /// What was done since the start.
    pub(crate) fn done(&self) -> CompactionReport {
        self.done
    }
}
