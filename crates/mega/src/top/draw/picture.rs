//! The picture of `mega top` in the guide, drawn from what the terminal would show.

use std::fmt::Write;
use std::path::Path;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::scene;

/// Pixels of one character: DejaVu Sans Mono at a size of 13.29 is 8 wide.
const WIDTH: usize = 8;
const HEIGHT: usize = 17;
const BORDER: usize = 12;

const PAPER: &str = "#ffffff";
const INK: &str = "#222222";
const FAINT: &str = "#777777";

/// The picture of a screen.
fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (
        usize::from(buffer.area.width),
        usize::from(buffer.area.height),
    );
    let (width, height) = (columns * WIDTH + 2 * BORDER, rows * HEIGHT + 2 * BORDER);
    let mut body = String::new();
    for (row, cells) in buffer.content.chunks(columns).enumerate() {
        draw_row(&mut body, cells, BORDER + row * HEIGHT);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"'DejaVu Sans Mono', monospace\" font-size=\"13.29\" xml:space=\"preserve\">\n\
         <rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{PAPER}\" stroke=\"{FAINT}\"/>\n{body}</svg>\n",
        width - 2,
        height - 2
    )
}

/// Neighbours that look alike are one piece of text.
fn draw_row(body: &mut String, cells: &[Cell], y: usize) {
    let mut column = 0;
    for run in cells.chunk_by(|a, b| look(a) == look(b)) {
        let text: String = run.iter().map(Cell::symbol).collect();
        let (x, length) = (BORDER + column * WIDTH, run.len() * WIDTH);
        column += run.len();
        let (ink, paper, bold) = look(&run[0]);
        // Writing to a string does not fail.
        if paper != PAPER {
            let _ = writeln!(
                body,
                r#"<rect x="{x}" y="{y}" width="{length}" height="{HEIGHT}" fill="{paper}"/>"#
            );
        }
        // A viewer may drop spaces at the ends.
        let shown = text.trim();
        if shown.is_empty() {
            continue;
        }
        let x = x + (text.chars().count() - text.trim_start().chars().count()) * WIDTH;
        let length = shown.chars().count() * WIDTH;
        let weight = if bold { r#" font-weight="600""# } else { "" };
        let text = shown.replace('&', "&amp;").replace('<', "&lt;");
        let base = y + 13;
        let _ = writeln!(
            body,
            r#"<text x="{x}" y="{base}" textLength="{length}" lengthAdjust="spacingAndGlyphs" fill="{ink}"{weight}>{text}</text>"#
        );
    }
}

/// Ink, paper, and whether it is bold.
fn look(cell: &Cell) -> (&'static str, &'static str, bool) {
    let style = cell.modifier;
    let ink = match cell.fg {
        // On white, somewhat darker than on black.
        Color::Indexed(74) => "#0072b2",
        Color::Indexed(214) => "#b06a00",
        Color::Indexed(202) => "#d55e00",
        Color::Indexed(36) => "#00805f",
        _ if style.contains(Modifier::DIM) => FAINT,
        _ => INK,
    };
    let bold = style.contains(Modifier::BOLD);
    match style.contains(Modifier::REVERSED) {
        true => (PAPER, ink, bold),
        false => (ink, PAPER, bold),
    }
}

/// `make pictures` draws them anew.
#[test]
fn the_pictures_in_the_guide_are_what_is_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    for (name, state) in [
        ("top.svg", scene::busy((100, 24))),
        ("top-process.svg", scene::opened((100, 24))),
    ] {
        let picture = svg(&scene::buffer_of(&state, scene::THEME));
        let path = folder.join(name);
        if std::env::var_os("MEGA_BLESS").is_some() {
            std::fs::write(&path, &picture).expect("written");
        }
        let drawn = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(drawn == picture, "{name} differs: `make pictures` draws it");
    }
}
