//! The heat map of a recording as PNG: addresses from top to bottom, time from left to right, in the colours of the SVG.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use mega_record::overview::heat::{HeatMap, Resolution};
use png::{BitDepth, ColorType, Encoder};

use super::picture::colour;
use crate::Error;

/// The most cells in each direction: a screen's.
const MOST: usize = 1024;
/// A picture smaller than that is hard to see: cells become squares of several pixels.
const LEAST_PIXELS: usize = 512;
/// What was not mapped.
const WHITE: [u8; 3] = [255; 3];

/// A column for each look, as far as they fit.
pub(super) fn resolution(looks: u64) -> Resolution {
    Resolution {
        columns: usize::try_from(looks).unwrap_or(MOST).clamp(1, MOST),
        most_rows: MOST,
    }
}

/// Writes it.
///
/// # Errors
/// Where the file takes nothing.
pub(super) fn write(file: &Path, subject: &str, heat: &HeatMap) -> Result<(), Error> {
    let opened = File::create(file).map_err(|error| failed(file, &error))?;
    encode(BufWriter::new(opened), subject, heat).map_err(|error| failed(file, &error))
}

fn failed(file: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Failed(format!("cannot write {}: {why}", file.display()))
}

fn encode(
    out: impl std::io::Write,
    subject: &str,
    heat: &HeatMap,
) -> Result<(), png::EncodingError> {
    let columns = heat.rows.first().map_or(1, |row| row.cells.len());
    let (wide, high) = (size(columns), size(heat.rows.len()));
    let length = |cells: usize, size: usize| u32::try_from(cells * size).unwrap_or(u32::MAX);
    let mut encoder = Encoder::new(out, length(columns, wide), length(heat.rows.len(), high));
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.add_itxt_chunk("Title".to_owned(), subject.to_owned())?;
    encoder.add_itxt_chunk("Description".to_owned(), description(heat))?;
    let mut pixels = Vec::new();
    for row in &heat.rows {
        let colours = heat
            .shown(row)
            .map(|shown| colour(shown).map_or(WHITE, rgb));
        let line: Vec<u8> = colours
            .flat_map(|colour| std::iter::repeat_n(colour, wide).flatten())
            .collect();
        for _ in 0..high {
            pixels.extend_from_slice(&line);
        }
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()
}

/// Pixels of a cell in one direction.
fn size(cells: usize) -> usize {
    LEAST_PIXELS.div_ceil(cells.max(1)).max(1)
}

/// What the picture itself does not say.
fn description(heat: &HeatMap) -> String {
    let start = heat.rows.first().map_or(0, |row| row.start);
    let end = heat.rows.last().map_or(0, |row| row.end);
    format!(
        "memory of process {}: addresses {start:#x} to {end:#x} from top to bottom, without those that were never mapped; time from \
         left to right, {:.3} s a column; grey blue: not accessed, orange to red: accessed, blue: huge pages, grey: not known",
        heat.pid, heat.column_seconds
    )
}

/// The colour that is written as "#rrggbb".
fn rgb(colour: &str) -> [u8; 3] {
    let digits = |from: usize| {
        let digits = colour.get(from..from + 2);
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    [1, 3, 5].map(|from| digits(from).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_record::overview::heat::{Cell, Row};

    fn heat(rows: usize, columns: usize) -> HeatMap {
        let cell = |mapped, accessed| Cell {
            mapped,
            known: mapped,
            accessed,
            ..Cell::default()
        };
        let row = |index: usize| Row {
            start: index as u64,
            end: index as u64 + 1,
            cells: (0..columns)
                .map(|column| match (index, column) {
                    (0, 0) => cell(512, 512),
                    (0, _) => cell(512, 0),
                    _ => cell(0, 0),
                })
                .collect(),
        };
        HeatMap {
            pid: 7,
            column_seconds: 1.0,
            looks: vec![1; columns],
            rows: (0..rows).map(row).collect(),
            compacted: Vec::new(),
        }
    }

    #[test]
    fn each_cell_is_a_square_of_its_colour() {
        let mut file = Vec::new();
        encode(&mut file, "a program", &heat(2, 4)).unwrap();
        let decoder = png::Decoder::new(std::io::Cursor::new(file));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (512, 512));
        let pixel = |x: usize, y: usize| &pixels[(y * 512 + x) * 3..][..3];
        assert_eq!(pixel(0, 0), [0xb3, 0, 0]);
        assert_eq!(pixel(127, 255), [0xb3, 0, 0]);
        assert_eq!(pixel(128, 0), [0xe6, 0xec, 0xf2]);
        assert_eq!(pixel(511, 256), WHITE);
        let texts = &reader.info().utf8_text;
        assert!(texts.iter().any(|text| text.keyword == "Title"));
    }

    #[test]
    fn a_long_recording_is_no_larger_than_a_screen() {
        assert_eq!(resolution(1_000_000).columns, MOST);
        assert_eq!(resolution(0).columns, 1);
        assert_eq!(size(MOST), 1);
    }
}
