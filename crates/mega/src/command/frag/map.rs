//! The map of blocks. A cell stands for some neighbouring blocks, so that any memory fits a screen or a page.

use mega_core::compaction::{BlockObservation, PAGES_PER_BLOCK, ZoneObservation};

/// Some neighbouring blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// Blocks with memory in it.
    pub(super) blocks: u32,
    /// Blocks of them with an unmovable page.
    pub(super) unmovable_blocks: u32,
    /// Base pages free.
    pub(super) free: u32,
    /// Base pages in use that can be migrated.
    pub(super) movable: u32,
    /// Base pages in use that cannot.
    pub(super) unmovable: u32,
    /// Base pages accessed since the last look, where that is known.
    pub(super) accessed: Option<u32>,
}

impl Cell {
    /// Whether there is memory at all.
    pub(super) fn is_absent(&self) -> bool {
        self.blocks == 0
    }

    /// The part of its memory that is in use, 0 to 1.
    pub(super) fn occupancy(&self) -> f64 {
        share(
            self.movable + self.unmovable,
            self.free + self.movable + self.unmovable,
        )
    }

    /// The part of its memory that was accessed, 0 to 1, where that is known.
    pub(super) fn heat(&self) -> Option<f64> {
        self.accessed
            .map(|accessed| share(accessed, self.blocks * u32::from(PAGES_PER_BLOCK)))
    }

    fn add(&mut self, block: &BlockObservation) {
        self.blocks += 1;
        self.unmovable_blocks += u32::from(block.unmovable > 0);
        self.free += u32::from(block.free);
        self.movable += u32::from(block.movable);
        self.unmovable += u32::from(block.unmovable);
        if let Some(accessed) = block.accessed {
            *self.accessed.get_or_insert(0) += u32::from(accessed);
        }
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 {
        0.0
    } else {
        f64::from(part.min(whole)) / f64::from(whole)
    }
}

/// One row of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The index of its first block.
    pub(super) first_block: u64,
    /// Its cells.
    pub(super) cells: Vec<Cell>,
}

/// Blocks per cell, a power of two, so that about `most` cells are enough for `blocks`.
pub(super) fn blocks_per_cell(blocks: usize, most: usize) -> u64 {
    (blocks.div_ceil(most.max(1)).max(1) as u64).next_power_of_two()
}

/// The rows of `zone` that have memory, with `columns` cells each, starting at a multiple of a row's length.
pub(super) fn rows(zone: &ZoneObservation, per_cell: u64, columns: usize) -> Vec<Row> {
    let per_row = per_cell.saturating_mul(columns as u64).max(1);
    let mut rows: Vec<Row> = Vec::new();
    for block in &zone.blocks {
        let index = block.block.index();
        let first_block = index / per_row * per_row;
        if rows.last().is_none_or(|row| row.first_block != first_block) {
            rows.push(Row {
                first_block,
                cells: vec![Cell::default(); columns],
            });
        }
        let cell = usize::try_from((index - first_block) / per_cell).ok();
        let row = rows.last_mut().map(|row| &mut row.cells);
        if let Some(cell) = row.zip(cell).and_then(|(cells, cell)| cells.get_mut(cell)) {
            cell.add(block);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::compaction::{Block, ZoneKind};
    use proptest::prelude::*;

    fn zone(indices: &[u64]) -> ZoneObservation {
        let block = |&index: &u64| BlockObservation {
            free: 100,
            movable: 400,
            unmovable: 12,
            ..BlockObservation::free(Block::containing(index * 512))
        };
        ZoneObservation {
            node: 0,
            kind: ZoneKind::Normal,
            start_pfn: 0,
            spanned: 0,
            free_areas: Vec::new(),
            reserve: 0,
            blocks: indices.iter().map(block).collect(),
        }
    }

    #[test]
    fn holes_are_empty_cells_and_rows_without_memory_are_left_out() {
        let rows = rows(&zone(&[0, 1, 5, 40]), 2, 4);
        let cells: Vec<(u64, Vec<u32>)> = rows
            .iter()
            .map(|row| {
                (
                    row.first_block,
                    row.cells.iter().map(|cell| cell.blocks).collect(),
                )
            })
            .collect();
        assert_eq!(cells, [(0, vec![2, 0, 1, 0]), (40, vec![1, 0, 0, 0])]);
    }

    proptest! {
        #[test]
        fn every_block_is_in_one_cell(
            indices in prop::collection::btree_set(0u64..5000, 0..200), most in 1usize..100,
        ) {
            let indices: Vec<u64> = indices.into_iter().collect();
            let per_cell = blocks_per_cell(indices.len(), most);
            prop_assert!(per_cell.is_power_of_two());
            let rows = rows(&zone(&indices), per_cell, 64);
            let blocks: u32 = rows.iter().flat_map(|row| &row.cells).map(|cell| cell.blocks).sum();
            prop_assert_eq!(blocks as usize, indices.len());
        }
    }
}
