//! A heat map: how much of which addresses was used when.

use std::collections::BTreeSet;
use std::time::Duration;

use mega_core::{ActionKind, Call, CallKind, HUGE_PAGE_SIZE, Outcome, ProcessObservation};
use serde::Serialize;

use crate::look::{Acted, Compacted};

/// Cells from left to right of a map that is read as text.
pub const COLUMNS: usize = 64;

/// How finely a map is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Cells from left to right, at least one.
    pub columns: usize,
    /// Cells from top to bottom, at most, and at least one.
    pub most_rows: usize,
}

impl Resolution {
    /// For a terminal.
    pub const TEXT: Resolution = Resolution {
        columns: COLUMNS,
        most_rows: 32,
    };
}

/// One process's memory over time.
#[derive(Debug, Serialize)]
pub struct HeatMap {
    /// Of the process.
    pub pid: u32,
    /// The time that a column stands for.
    pub column_seconds: f64,
    /// Looks in each column.
    pub looks: Vec<u64>,
    /// By address. What was never mapped has none.
    pub rows: Vec<Row>,
    /// What the manager's compaction did, by time. It is no process's own.
    pub compacted: Vec<CompactedCell>,
}

/// Blocks and chunks that compaction tried to empty in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactedCell {
    /// Free then.
    pub emptied: u64,
    /// Not free then.
    pub failed: u64,
    /// Base pages moved for that.
    pub pages_migrated: u64,
}

/// Some regions.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The first address.
    pub start: u64,
    /// The first address after the last.
    pub end: u64,
    /// By time.
    pub cells: Vec<Cell>,
}

/// Some regions for some time: base pages, each counted at each look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Mapped.
    pub mapped: u64,
    /// Of them in huge pages, which hide which of them were used.
    pub huge: u64,
    /// Of them mapped at looks that knew what was accessed.
    pub known: u64,
    /// Of them accessed since the look before.
    pub accessed: u64,
    /// Regions that a manager made huge or giant.
    pub promoted: u64,
    /// Regions that it broke up.
    pub demoted: u64,
    /// What it tried and failed at.
    pub failed: u64,
    /// Calls by which the program mapped some of it anew.
    pub mapped_anew: u64,
    /// Calls by which the program gave some of it up: munmap, `MADV_DONTNEED`.
    pub given_up: u64,
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown {
    /// Nothing was mapped.
    Nothing,
    /// What was accessed is not known.
    Unknown,
    /// So much of it was accessed, 0 to 1.
    Used(f64),
    /// Huge pages map most of it: which of their base pages were accessed cannot be seen. Whether any was.
    Blind(bool),
}

impl Cell {
    /// What it shows.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a shade")]
    pub fn shown(&self) -> Shown {
        match self {
            Cell { mapped: 0, .. } => Shown::Nothing,
            Cell { known: 0, .. } => Shown::Unknown,
            Cell { mapped, huge, .. } if huge * 2 > *mapped => Shown::Blind(self.accessed > 0),
            Cell {
                known, accessed, ..
            } => Shown::Used(*accessed as f64 / *known as f64),
        }
    }
}

impl HeatMap {
    /// An empty map of these regions, by number, from the beginning until then. `None` without regions.
    #[must_use]
    pub fn new(
        pid: u32,
        regions: &BTreeSet<u64>,
        until: Duration,
        resolution: Resolution,
    ) -> Option<Self> {
        let columns = resolution.columns.max(1);
        let regions: Vec<u64> = regions.iter().copied().collect();
        let each = regions.len().div_ceil(resolution.most_rows.max(1)).max(1);
        let row = |regions: &[u64]| {
            let (first, last) = (regions.first()?, regions.last()?);
            Some(Row {
                start: first * HUGE_PAGE_SIZE,
                end: (last + 1) * HUGE_PAGE_SIZE,
                cells: vec![Cell::default(); columns],
            })
        };
        let rows: Vec<Row> = regions.chunks(each).filter_map(row).collect();
        // So that the last look falls into the last column.
        let length = until + Duration::from_nanos(1);
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let column_seconds = length.as_secs_f64() / columns as f64;
        (!rows.is_empty()).then_some(HeatMap {
            pid,
            column_seconds,
            looks: vec![0; columns],
            rows,
            compacted: vec![CompactedCell::default(); columns],
        })
    }

    fn column(&self, at: Duration) -> usize {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a column"
        )]
        let column = (at.as_secs_f64() / self.column_seconds) as usize;
        column.min(self.looks.len().saturating_sub(1))
    }

    /// Adds an action of a manager on this process. What never was mapped has no place.
    pub fn add_action(&mut self, acted: &Acted) {
        let column = self.column(acted.at);
        let start = acted.action.target.region.start();
        let place = self.rows.partition_point(|row| row.end <= start);
        let row = self.rows.get_mut(place).filter(|row| row.start <= start);
        let Some(cell) = row.and_then(|row| row.cells.get_mut(column)) else {
            return;
        };
        match acted.outcome {
            Outcome::Done { .. } | Outcome::Remapped { .. } => match acted.action.kind {
                ActionKind::Promote | ActionKind::PromoteGiant => cell.promoted += 1,
                ActionKind::Demote | ActionKind::DemoteGiant | ActionKind::FreeZero => {
                    cell.demoted += 1;
                }
            },
            Outcome::Failed(_) => cell.failed += 1,
            Outcome::AlreadySo | Outcome::NotTried => {}
        }
    }

    /// Adds what compaction did.
    pub fn add_compacted(&mut self, compacted: &Compacted) {
        let column = self.column(compacted.at);
        let Some(cell) = self.compacted.get_mut(column) else {
            return;
        };
        let emptied = &compacted.emptied;
        match emptied.stopped.is_free() {
            true => cell.emptied += 1,
            false => cell.failed += 1,
        }
        cell.pages_migrated = cell.pages_migrated.saturating_add(emptied.counts.migrated);
    }

    /// Adds a call of this process.
    pub fn add_call(&mut self, call: &Call) {
        let Some(range) = call.kind.range() else {
            return;
        };
        let column = self.column(call.at);
        let first = self.rows.partition_point(|row| row.end <= range.start);
        let rows = self.rows.iter_mut().skip(first);
        for row in rows.take_while(|row| row.start < range.end) {
            let Some(cell) = row.cells.get_mut(column) else {
                continue;
            };
            match call.kind {
                CallKind::Mapped(_) => cell.mapped_anew += 1,
                _ => cell.given_up += 1,
            }
        }
    }

    /// What a row's cells show from left to right: each what was seen at its looks, or at the last look before where it has none.
    pub fn shown<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = Shown> + 'a {
        let mut last = Shown::Nothing;
        row.cells.iter().zip(&self.looks).map(move |(cell, looks)| {
            if *looks > 0 {
                last = cell.shown();
            }
            last
        })
    }

    /// Adds a look, at which the process was there or not.
    pub fn add(&mut self, at: Duration, seen: Option<&ProcessObservation>) {
        let column = self.column(at);
        if let Some(looks) = self.looks.get_mut(column) {
            *looks += 1;
        }
        let Some(seen) = seen else {
            return;
        };
        let mut place = 0;
        for region in &seen.regions {
            let start = region.region.start();
            // Both are in address order.
            while self.rows.get(place).is_some_and(|row| row.end <= start) {
                place += 1;
            }
            let row = self.rows.get_mut(place);
            let Some(cell) = row.and_then(|row| row.cells.get_mut(column)) else {
                return;
            };
            let mapped = u64::from(region.mapped);
            cell.mapped += mapped;
            cell.huge += if region.is_huge() { mapped } else { 0 };
            if seen.accesses_known {
                cell.known += mapped;
                cell.accessed += u64::from(region.accessed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::{PageSize, ProcessId, Region, RegionObservation};

    fn seen(accesses_known: bool, regions: &[(u64, u16, PageSize)]) -> ProcessObservation {
        let region = |&(index, accessed, page_size): &(u64, u16, PageSize)| RegionObservation {
            region: Region::containing(index * HUGE_PAGE_SIZE),
            mapped: 512,
            accessed,
            page_size,
            zero_filled: None,
            swapped: 0,
        };
        ProcessObservation {
            process: ProcessId {
                pid: 1,
                start_time: 1,
            },
            cpu_time: None,
            regions: regions.iter().map(region).collect(),
            accesses_known,
            node: None,
            cgroup: None,
        }
    }

    #[test]
    fn actions_fall_where_and_when_they_were_done() {
        let regions = (100..104).collect();
        let mut heat =
            HeatMap::new(1, &regions, Duration::from_secs(64), Resolution::TEXT).expect("rows");
        let acted = |index: u64, kind, outcome| Acted {
            at: Duration::from_secs(32),
            action: mega_core::Action {
                kind,
                target: mega_core::RegionRef {
                    process: ProcessId {
                        pid: 1,
                        start_time: 1,
                    },
                    region: Region::containing(index * HUGE_PAGE_SIZE),
                },
            },
            outcome,
        };
        let done = Outcome::Done {
            resident_before: 0,
            resident_after: HUGE_PAGE_SIZE,
        };
        heat.add_action(&acted(101, ActionKind::Promote, done));
        heat.add_action(&acted(103, ActionKind::Demote, done));
        let busy = Outcome::Failed(mega_core::Cause::Busy);
        heat.add_action(&acted(103, ActionKind::Demote, busy));
        heat.add_action(&acted(99, ActionKind::Promote, done));
        heat.add_action(&acted(104, ActionKind::Promote, done));
        let cell = |row: usize| heat.rows[row].cells[31];
        assert_eq!((cell(1).promoted, cell(1).demoted), (1, 0));
        let last = cell(3);
        assert_eq!((last.promoted, last.demoted, last.failed), (0, 1, 1));
        let cells = heat.rows.iter().flat_map(|row| &row.cells);
        assert_eq!(cells.map(|cell| cell.promoted).sum::<u64>(), 1);
    }

    #[test]
    fn each_look_falls_into_its_column_and_each_region_into_its_row() {
        let regions = (100..100 + 64).chain([9000]).collect();
        let mut heat =
            HeatMap::new(1, &regions, Duration::from_secs(64), Resolution::TEXT).expect("rows");
        assert_eq!(heat.rows.len(), 22, "three regions in each");
        let (base, huge) = (PageSize::Base, PageSize::Huge);
        let first = seen(false, &[(100, 512, base)]);
        let last = seen(
            true,
            &[
                (100, 512, base),
                (102, 0, base),
                (103, 512, huge),
                (9000, 0, base),
            ],
        );
        heat.add(Duration::ZERO, Some(&first));
        heat.add(Duration::from_secs(40), None);
        heat.add(Duration::from_secs(64), Some(&last));
        let shown = |row: usize, column: usize| heat.shown(&heat.rows[row]).nth(column).unwrap();
        assert_eq!(shown(0, 0), Shown::Unknown);
        assert_eq!(shown(0, 30), Shown::Unknown, "nobody looked");
        assert_eq!(shown(0, 50), Shown::Nothing, "it was not there");
        assert_eq!(shown(0, COLUMNS - 1), Shown::Used(0.5));
        assert_eq!(shown(1, COLUMNS - 1), Shown::Blind(true));
        assert_eq!(shown(21, COLUMNS - 1), Shown::Used(0.0));
        assert!(HeatMap::new(1, &BTreeSet::new(), Duration::ZERO, Resolution::TEXT).is_none());
    }
}
