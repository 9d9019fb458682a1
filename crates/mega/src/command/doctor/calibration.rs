//! What touches cost on this machine, in words.

use std::fmt::Write;
use std::path::Path;

use mega_core::bytes;
use mega_core::table::Table;
use mega_core::worth::calibration::{find, sizes};
use mega_core::worth::{Calibration, Estimate, Point, Touching};
use mega_linux::calibrate::{self, Origin, Stored};
use mega_linux::kernel::Kernel;

use super::picture;
use crate::exit::Failure;
use crate::output;

/// Columns of the longest bar.
const BAR: f64 = 40.0;
/// The ways of touching that the table shows: the ends of what programs do.
const SHOWN: [(Touching, &str); 5] = [
    (Touching::Serial, "one by one"),
    (Touching::Overlapped, "overlapped"),
    (Touching::Visits, "visits"),
    (Touching::Neighbours, "neighbours"),
    (Touching::Stream, "stream"),
];

/// A calibration, or why there is none.
pub(super) type Known = Result<Calibration, String>;

/// The one that is kept, if it is of use.
pub(super) fn kept(kernel: &dyn Kernel) -> Result<Known, Failure> {
    Ok(match calibrate::load(kernel)? {
        Stored::Valid(calibration) => Ok(*calibration),
        Stored::Not(why) => Err(why),
    })
}

/// A new one, which is kept.
pub(super) fn make(kernel: &dyn Kernel) -> Result<Calibration, Failure> {
    let progress = output::progress("measuring what touches cost", 100);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 100
    let mut show = |share: f64| progress.set_position((share * 100.0) as u64);
    let made = calibrate::measure_and_keep(kernel, "you asked for it".to_owned(), &mut show);
    progress.finish_and_clear();
    let (calibration, origin) = made?;
    if let Origin::Measured {
        not_kept: Some(why),
        ..
    } = origin
    {
        output::say(&format!("the calibration is not kept: {why}"));
    }
    Ok(calibration)
}

/// Draws it into a file.
pub(super) fn draw(known: &Known, file: &Path) -> Result<(), Failure> {
    let calibration = known.as_ref().map_err(|why| {
        Failure::Failed(format!(
            "cannot draw what touches cost: {why}; add --calibrate"
        ))
    })?;
    std::fs::write(file, picture::draw(calibration))
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))
}

pub(super) fn in_words(known: &Known) -> String {
    match known {
        Ok(calibration) => table_and_bars(calibration),
        Err(why) => format!(
            "what touches cost on this machine is not known: {why}; `mega doctor --calibrate` measures it\n"
        ),
    }
}

fn table_and_bars(calibration: &Calibration) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "nanoseconds for each touch of a base page, and how many of them a huge page saves (95 %):\n"
    );
    let _ = writeln!(text, "{}", table(&calibration.points));
    if let Some(apart) = &calibration.apart {
        let _ = writeln!(
            text,
            "the same where the frames of base pages lie apart, as many of a program do:\n"
        );
        let _ = writeln!(text, "{}", table(apart));
    }
    let _ = writeln!(
        text,
        "share of the time of touches that a huge page saves:\n"
    );
    for size in calibration.working_sets() {
        for (touching, name) in &SHOWN[..2] {
            if let Some(point) = find(&calibration.points, size, *touching) {
                let _ = writeln!(
                    text,
                    "{:>11}  {name:<10}  {}",
                    bytes::format(size),
                    bar(point)
                );
            }
        }
    }
    let _ = writeln!(
        text,
        "\nto make a region huge takes {}; {} where its block is backed",
        milliseconds(calibration.promotion),
        milliseconds(calibration.copy)
    );
    text
}

fn table(points: &[Point]) -> Table {
    let headings: Vec<&str> = std::iter::once("working set")
        .chain(SHOWN.map(|(_, heading)| heading))
        .collect();
    let mut table = Table::new(&headings);
    for size in sizes(points) {
        let cells = SHOWN.map(|(touching, _)| find(points, size, touching).map_or_else(dash, cell));
        table.row(std::iter::once(bytes::format(size)).chain(cells));
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}

fn cell(point: &Point) -> String {
    let Estimate { value, low, high } = point.saved;
    format!("{:.1}: {value:.1} ({low:.1} to {high:.1})", point.ns)
}

fn bar(point: &Point) -> String {
    let share = (point.saved.value / point.ns).clamp(0.0, 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to BAR
    let length = (share * BAR).round() as usize;
    format!("{} {:.0} %", "#".repeat(length), share * 100.0)
        .trim_start()
        .to_owned()
}

fn milliseconds(seconds: Estimate) -> String {
    let Estimate { value, low, high } = seconds.scaled(1e3);
    format!("{value:.2} ms of CPU time ({low:.2} to {high:.2})")
}
