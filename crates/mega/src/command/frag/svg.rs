//! Physical memory drawn as a picture.

use std::fmt::Write;

use mega_core::HUGE_PAGE_SIZE;
use mega_core::bytes;
use mega_core::compaction::PhysicalObservation;
use mega_linux::physical::Source;

use super::map::{self, Cell, Row};

/// Cells in a row, and pixels per cell.
const COLUMNS: usize = 128;
const CELL: usize = 7;
/// Cells that the whole picture should need at most.
const MOST_CELLS: usize = 96 * COLUMNS;

const LEFT: usize = 110;
const LINE: usize = 18;
const WIDTH: usize = LEFT + COLUMNS * CELL + 20;

pub(super) fn draw(observation: &PhysicalObservation, source: Source) -> String {
    let blocks = observation.zones.iter().map(|zone| zone.blocks.len()).sum();
    let per_cell = map::blocks_per_cell(blocks, MOST_CELLS);
    let mut body = String::new();
    let mut y = LINE;
    // Writing to a string does not fail.
    let _ = writeln!(
        body,
        r#"<text x="10" y="{y}" font-weight="600">Physical memory: one square is {}; FMFI at order 9: {:.2}</text>"#,
        bytes::format(per_cell * HUGE_PAGE_SIZE),
        observation.fmfi(9),
    );
    y += LINE;
    y = legend(&mut body, y, source);
    for zone in &observation.zones {
        y += LINE;
        let _ = writeln!(
            body,
            r#"<text x="10" y="{y}" font-weight="600">node {} zone {}: {} free, FMFI {:.2}</text>"#,
            zone.node,
            zone.kind.name(),
            bytes::format(zone.free_pages() * mega_core::BASE_PAGE_SIZE),
            zone.fmfi(9),
        );
        y += LINE / 2;
        for row in map::rows(zone, per_cell, COLUMNS) {
            draw_row(&mut body, &row, per_cell, y);
            y += CELL;
        }
        y += LINE / 2;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" viewBox=\"0 0 {WIDTH} {y}\" \
         font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <rect width=\"{WIDTH}\" height=\"{y}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn legend(body: &mut String, y: usize, source: Source) -> usize {
    let cell = |movable, unmovable, accessed| Cell {
        blocks: 1,
        unmovable_blocks: u32::from(unmovable > 0),
        free: 512 - movable - unmovable,
        movable,
        unmovable,
        accessed,
    };
    let mut entries = vec![
        ("free", cell(0, 0, None)),
        ("movable, few", cell(64, 0, None)),
        ("movable, many", cell(448, 0, None)),
        ("unmovable", cell(0, 256, None)),
    ];
    let note = match source {
        Source::Module => {
            entries.push(("hot", cell(448, 0, Some(512))));
            ""
        }
        Source::PageFlags => "heat is not known without the kernel module",
    };
    let mut x = 10;
    for (name, cell) in entries {
        square(body, &cell, x, y - 9, name);
        let _ = writeln!(body, r#"<text x="{}" y="{y}">{name}</text>"#, x + 12);
        x += 120;
    }
    let _ = writeln!(body, r#"<text x="{x}" y="{y}">{note}</text>"#);
    y + LINE / 2
}

fn draw_row(body: &mut String, row: &Row, per_cell: u64, y: usize) {
    let address = row.first_block * HUGE_PAGE_SIZE;
    let _ = writeln!(
        body,
        r#"<text x="{}" y="{}" font-size="7" text-anchor="end">{address:#x}</text>"#,
        LEFT - 6,
        y + CELL - 1,
    );
    for (index, cell) in row
        .cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| !cell.is_absent())
    {
        let address = (row.first_block + index as u64 * per_cell) * HUGE_PAGE_SIZE;
        let title = format!(
            "{address:#x}: {} free, {} movable, {} unmovable pages",
            cell.free, cell.movable, cell.unmovable
        );
        square(body, cell, LEFT + index * CELL, y, &title);
    }
}

fn square(body: &mut String, cell: &Cell, x: usize, y: usize, title: &str) {
    let side = CELL - 1;
    let _ = writeln!(
        body,
        r#"<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{}"><title>{title}</title></rect>"#,
        colour(cell)
    );
}

/// Green where free; from light to dark blue as it fills, towards orange as it is hot; red where something
/// is unmovable, the darker the more.
fn colour(cell: &Cell) -> String {
    const FREE: [f64; 3] = [198.0, 232.0, 199.0];
    if cell.unmovable > 0 {
        let whole = f64::from(cell.free + cell.movable + cell.unmovable);
        return mix(
            [244.0, 190.0, 185.0],
            [160.0, 20.0, 20.0],
            f64::from(cell.unmovable) / whole,
        );
    }
    if cell.movable == 0 {
        return mix(FREE, FREE, 0.0);
    }
    let cold = [[205.0, 222.0, 245.0], [20.0, 60.0, 140.0]];
    let hot = [[255.0, 224.0, 178.0], [230.0, 110.0, 0.0]];
    let heat = cell.heat().unwrap_or(0.0);
    let [light, dark] = if heat >= 0.5 { hot } else { cold };
    mix(light, dark, cell.occupancy())
}

fn mix(from: [f64; 3], to: [f64; 3], part: f64) -> String {
    let part = part.clamp(0.0, 1.0);
    let mixed: Vec<String> = from
        .iter()
        .zip(to)
        .map(|(from, to)| format!("{:.0}", from + (to - from) * part))
        .collect();
    format!("rgb({})", mixed.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::compaction::{Block, BlockObservation, ZoneKind, ZoneObservation};

    #[test]
    fn the_picture_has_one_square_for_each_cell_with_memory() {
        let blocks: Vec<_> = (0..300)
            .map(|index| BlockObservation::free(Block::containing(index * 512)))
            .collect();
        let zone = ZoneObservation {
            node: 0,
            kind: ZoneKind::Normal,
            start_pfn: 0,
            spanned: 300 * 512,
            free_areas: vec![0; 11],
            reserve: 0,
            blocks,
        };
        let picture = draw(
            &PhysicalObservation { zones: vec![zone] },
            Source::PageFlags,
        );
        assert_eq!(
            picture
                .matches("512 free, 0 movable, 0 unmovable pages")
                .count(),
            300
        );
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("heat is not known"));
    }

    #[test]
    fn colours_stay_in_range() {
        let cell = Cell {
            blocks: 1,
            unmovable_blocks: 1,
            unmovable: 512,
            ..Cell::default()
        };
        assert_eq!(colour(&cell), "rgb(160,20,20)");
    }
}
