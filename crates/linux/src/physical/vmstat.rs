//! `/proc/vmstat`: what the kernel counts of its own compaction, since boot.

use std::path::Path;

use mega_core::compaction::MigrationCounts;

use crate::Error;
use crate::kernel::Kernel;

/// The kernel's counts of compaction and migration since boot, all causes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStatistics {
    /// Pages scanned for migration (`compact_migrate_scanned`).
    pub migrate_scanned: u64,
    /// Pages scanned in search of free ones (`compact_free_scanned`).
    pub free_scanned: u64,
    /// Pages isolated, in use and free ones together (`compact_isolated`).
    pub isolated: u64,
    /// Pages migrated (`pgmigrate_success`).
    pub migrated: u64,
    /// Pages whose migration failed (`pgmigrate_fail`).
    pub failed: u64,
}

/// The value of the line `name` in the text of `/proc/vmstat`; `None` where there is no such line.
#[must_use]
pub fn event(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

impl CompactionStatistics {
    /// Reads them.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Missing`] where the kernel was built without compaction.
    pub fn read(kernel: &dyn Kernel) -> Result<Self, Error> {
        let path = Path::new("/proc/vmstat");
        let text = kernel.read(path).map_err(Error::io("read", path))?;
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| Error::Missing {
            feature: "the kernel's memory compaction (compact_* in /proc/vmstat)".to_owned(),
            remedy: "boot a kernel built with CONFIG_COMPACTION=y, as Debian's are".to_owned(),
        })
    }

    /// The counts in the text of `/proc/vmstat`; `None` where one is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| event(text, name);
        Some(CompactionStatistics {
            migrate_scanned: value("compact_migrate_scanned")?,
            free_scanned: value("compact_free_scanned")?,
            isolated: value("compact_isolated")?,
            migrated: value("pgmigrate_success")?,
            failed: value("pgmigrate_fail")?,
        })
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        CompactionStatistics {
            migrate_scanned: self.migrate_scanned.saturating_sub(earlier.migrate_scanned),
            free_scanned: self.free_scanned.saturating_sub(earlier.free_scanned),
            isolated: self.isolated.saturating_sub(earlier.isolated),
            migrated: self.migrated.saturating_sub(earlier.migrated),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }
}

impl From<CompactionStatistics> for MigrationCounts {
    fn from(statistics: CompactionStatistics) -> Self {
        MigrationCounts {
            scanned: statistics.migrate_scanned,
            isolated: statistics.isolated,
            migrated: statistics.migrated,
            failed: statistics.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pgmigrate_success 7\npgmigrate_fail 1\ncompact_migrate_scanned 20\n\
        compact_free_scanned 30\ncompact_isolated 14\ncompact_isolated_x 99\n";

    #[test]
    fn each_count_is_found_by_its_whole_name() {
        let expected = CompactionStatistics {
            migrate_scanned: 20,
            free_scanned: 30,
            isolated: 14,
            migrated: 7,
            failed: 1,
        };
        assert_eq!(CompactionStatistics::parse(TEXT), Some(expected));
    }

    #[test]
    fn a_kernel_without_compaction_has_none() {
        assert_eq!(
            CompactionStatistics::parse("pgmigrate_success 7\npgmigrate_fail 1\n"),
            None
        );
    }
}
