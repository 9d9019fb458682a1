//! What a manager's compaction did, added up.

use std::collections::BTreeMap;

use mega_core::compaction::{Emptied, Unit};
use mega_core::{BASE_PAGE_SIZE, bytes};
use serde::Serialize;

use super::counted;
use crate::look::Compacted;

/// What a manager's compaction tried to empty, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompactionCounts {
    /// Blocks that it tried to empty.
    pub blocks: u64,
    /// Chunks that it tried to empty.
    pub chunks: u64,
    /// By what came of it: `emptied`, `busy` and so on.
    pub stopped: BTreeMap<&'static str, u64>,
    /// Base pages moved, those of vain attempts among them.
    pub pages_migrated: u64,
    /// Base pages that could not be moved.
    pub pages_failed: u64,
    /// The time that it took, in seconds.
    pub seconds: f64,
}

impl CompactionCounts {
    /// Adds one.
    pub fn add(&mut self, compacted: &Compacted) {
        let Emptied {
            target,
            stopped,
            counts,
            took,
        } = compacted.emptied;
        match target.unit {
            Unit::Block => self.blocks += 1,
            Unit::Chunk => self.chunks += 1,
        }
        *self.stopped.entry(stopped.name()).or_default() += 1;
        self.pages_migrated = self.pages_migrated.saturating_add(counts.migrated);
        self.pages_failed = self.pages_failed.saturating_add(counts.failed);
        self.seconds += took.as_secs_f64();
    }

    /// Blocks and chunks that it tried to empty.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.blocks + self.chunks
    }

    /// As "3 blocks, 1 chunk: 2 emptied, 2 busy; 6.00 MiB moved in 1.2 ms"; `None` where nothing was tried.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let units = [(self.blocks, "block"), (self.chunks, "chunk")];
        let units = units.into_iter().filter(|(count, _)| *count > 0);
        let units: Vec<String> = units
            .map(|(count, unit)| match count {
                1 => format!("1 {unit}"),
                _ => format!("{count} {unit}s"),
            })
            .collect();
        let stopped = self.stopped.iter().map(|(name, count)| (*name, *count));
        let moved = self.pages_migrated.saturating_mul(BASE_PAGE_SIZE);
        (!units.is_empty()).then(|| {
            format!(
                "{}: {}; {} moved in {:.1} ms",
                units.join(", "),
                counted(stopped),
                bytes::format(moved),
                self.seconds * 1000.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use mega_core::compaction::{MigrationCounts, Stopped, ToEmpty};

    #[test]
    fn what_came_of_it_is_told() {
        let mut counts = CompactionCounts::default();
        assert_eq!(counts.in_words(), None);
        let mut add = |unit, stopped, migrated| {
            counts.add(&Compacted {
                at: Duration::ZERO,
                emptied: Emptied {
                    target: ToEmpty {
                        unit,
                        first_pfn: 0,
                        pages: 512,
                        empties: true,
                    },
                    stopped,
                    counts: MigrationCounts {
                        migrated,
                        ..MigrationCounts::default()
                    },
                    took: Duration::from_micros(500),
                },
            });
        };
        add(Unit::Block, Stopped::Emptied, 256);
        add(Unit::Block, Stopped::NoMemory, 256);
        add(Unit::Chunk, Stopped::Emptied, 1024);
        assert_eq!(
            counts.in_words().as_deref(),
            Some("2 blocks, 1 chunk: 2 emptied, 1 no memory; 6 MiB moved in 1.5 ms")
        );
    }
}
