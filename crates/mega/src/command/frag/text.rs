//! Physical memory drawn in a terminal.

use std::fmt::Write;

use mega_core::BASE_PAGE_SIZE;
use mega_core::bytes;
use mega_core::compaction::{HUGE_ORDER, PhysicalObservation, ZoneObservation};
use mega_core::table::Table;
use mega_linux::physical::Source;

use super::map::{self, Cell};

/// Cells in a row of the map.
const COLUMNS: usize = 64;
/// Cells that the whole map should need at most: about 24 rows.
const MOST_CELLS: usize = 24 * COLUMNS;

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const BRIGHT_YELLOW: &str = "\x1b[93m";
const RESET: &str = "\x1b[0m";

pub(super) fn draw(observation: &PhysicalObservation, source: Source, colours: bool) -> String {
    let mut text = free_lists(observation);
    // Writing to a string does not fail.
    let _ = writeln!(text);
    let blocks = observation.zones.iter().map(|zone| zone.blocks.len()).sum();
    let per_cell = map::blocks_per_cell(blocks, MOST_CELLS);
    for zone in &observation.zones {
        let _ = writeln!(text, "{}", title(zone));
        for row in map::rows(zone, per_cell, COLUMNS) {
            let address = row.first_block * mega_core::HUGE_PAGE_SIZE;
            let _ = writeln!(text, "{address:>14x} {}", line(&row.cells, colours));
        }
    }
    let _ = writeln!(text, "\n{}", legend(per_cell, source));
    text
}

fn title(zone: &ZoneObservation) -> String {
    format!("node {} zone {}", zone.node, zone.kind.name())
}

/// Free areas per zone and order, and the fragmentation index below them.
fn free_lists(observation: &PhysicalObservation) -> String {
    let orders = observation
        .zones
        .iter()
        .map(|zone| zone.free_areas.len())
        .max()
        .unwrap_or(0);
    let mut headings: Vec<String> = vec!["free areas of order".to_owned()];
    headings.extend((0..orders).map(|order| order.to_string()));
    headings.extend(["free", "in 2 MiB"].map(str::to_owned));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for zone in &observation.zones {
        let mut cells = vec![title(zone)];
        cells.extend((0..orders).map(|order| zone.free_areas.get(order).unwrap_or(&0).to_string()));
        cells.push(pages(zone.free_pages()));
        cells.push(pages(zone.free_pages_from(HUGE_ORDER)));
        table.row(cells);
    }
    let mut cells = vec!["FMFI, all zones".to_owned()];
    cells.extend((0..orders).map(|order| format!("{:.2}", observation.fmfi(order))));
    cells.push(pages(observation.free_pages()));
    let contiguous = observation
        .zones
        .iter()
        .map(|zone| zone.free_pages_from(HUGE_ORDER))
        .sum();
    cells.push(pages(contiguous));
    table.row(cells);
    table.to_string()
}

fn pages(count: u64) -> String {
    bytes::format(count.saturating_mul(BASE_PAGE_SIZE))
}

fn line(cells: &[Cell], colours: bool) -> String {
    let mut line = String::new();
    let mut current = "";
    for cell in cells {
        let (glyph, colour) = look(cell);
        if colours && colour != current {
            line.push_str(if colour.is_empty() { RESET } else { colour });
            current = colour;
        }
        line.push(glyph);
    }
    if !current.is_empty() {
        line.push_str(RESET);
    }
    line.trim_end().to_owned()
}

/// The character for a cell, which says all but the heat, and its colour.
fn look(cell: &Cell) -> (char, &'static str) {
    if cell.is_absent() {
        return (' ', "");
    }
    if cell.unmovable_blocks * 2 >= cell.blocks {
        return (
            if cell.unmovable_blocks == cell.blocks {
                'U'
            } else {
                'u'
            },
            RED,
        );
    }
    if cell.movable + cell.unmovable == 0 {
        return ('.', GREEN);
    }
    let glyph = match cell.occupancy() {
        part if part < 0.25 => '░',
        part if part < 0.5 => '▒',
        part if part < 0.75 => '▓',
        _ => '█',
    };
    let hot = cell.heat().is_some_and(|heat| heat >= 0.5);
    (glyph, if hot { BRIGHT_YELLOW } else { YELLOW })
}

fn legend(per_cell: u64, source: Source) -> String {
    let size = bytes::format(per_cell * mega_core::HUGE_PAGE_SIZE);
    let heat = match source {
        Source::Module => "bright yellow: at least half accessed since the last compaction",
        Source::PageFlags => {
            "heat is not known: it needs the kernel module (/dev/mega), and so do exact counts of pinned pages"
        }
    };
    format!(
        "one character is {size}: . free, ░ ▒ ▓ █ up to 25, 50, 75, 100 % in use, \
         u half of the blocks or more have unmovable pages, U all\n{heat}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::compaction::{Block, BlockObservation, ZoneKind};

    fn memory() -> PhysicalObservation {
        let block = |index: u64, movable, unmovable| BlockObservation {
            free: 512 - movable - unmovable,
            movable,
            unmovable,
            ..BlockObservation::free(Block::containing(index * 512))
        };
        let occupancy = [
            (0, 0),
            (1, 0),
            (128, 0),
            (256, 0),
            (384, 0),
            (512, 0),
            (5, 1),
        ];
        let blocks = (64..)
            .zip(occupancy)
            .map(|(index, (movable, unmovable))| block(index, movable, unmovable));
        PhysicalObservation {
            zones: vec![ZoneObservation {
                node: 0,
                kind: ZoneKind::Normal,
                start_pfn: 64 * 512,
                spanned: 7 * 512,
                free_areas: vec![512, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                reserve: 0,
                blocks: blocks.collect(),
            }],
        }
    }

    #[test]
    fn each_kind_of_block_has_its_character() {
        let text = draw(&memory(), Source::PageFlags, false);
        assert!(text.contains("       8000000 .░▒▓██U\n"), "{text}");
        assert!(text.contains("FMFI, all zones"), "{text}");
        assert!(text.contains("heat is not known"), "{text}");
        assert!(!text.contains('\x1b'), "no colours were asked for");
    }

    #[test]
    fn colours_end_with_the_line() {
        let text = draw(&memory(), Source::Module, true);
        for line in text.lines().filter(|line| line.contains('\x1b')) {
            assert!(line.ends_with(RESET), "{line:?}");
        }
        assert!(text.contains(GREEN));
    }
}
