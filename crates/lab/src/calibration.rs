//! `mega lab calibration`: what touches cost on a simulated core, beside what was measured on a real one.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mega_core::table::Table;
use mega_core::worth::{Calibration, Point, Touching};
use mega_core::{PageSize, bytes};
use mega_linux::calibrate::{self, Stored};
use mega_linux::kernel::LiveKernel;
use mega_sim::translation::{PROCESSORS, Processor, SAPPHIRE_RAPIDS, Walk, touch_time};

use crate::Error;

/// The ways of touching that a simulated core can tell apart.
const WAYS: [Touching; 2] = [Touching::Serial, Touching::Neighbours];
/// Where a simulated core translates: on the machine itself, and in a guest whose host maps by huge pages.
const WALKS: [Walk; 2] = [Walk::Native, Walk::Nested(PageSize::Huge)];

/// `mega lab calibration`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Calibrations that `mega doctor --calibrate` made: of several, the lowest and the highest number [default: the one that is
    /// kept of this machine]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The processor that is simulated
    #[arg(long, value_name = "NAME", default_value = SAPPHIRE_RAPIDS.name, value_parser = processor())]
    cpu: Processor,
}

/// Simulates what was measured; returns both as a table.
///
/// # Errors
/// When a file cannot be read or is no calibration, or when nothing is kept of this machine.
pub fn run(args: &Args) -> Result<String, Error> {
    let measured = if args.files.is_empty() {
        vec![kept()?]
    } else {
        let read = args.files.iter().map(|file| read(file));
        read.collect::<Result<_, _>>()?
    };
    Ok(side_by_side(&measured, &args.cpu))
}

fn processor() -> impl TypedValueParser<Value = Processor> {
    let known = PROCESSORS.map(|processor| processor.name);
    PossibleValuesParser::new(known).try_map(|asked| {
        let named = PROCESSORS.iter().find(|processor| processor.name == asked);
        named.map(|&processor| *processor).ok_or("it is not known")
    })
}

fn kept() -> Result<Calibration, Error> {
    let attempted = "what touches cost on this machine";
    match calibrate::load(&LiveKernel).map_err(|error| Error::from_linux(&error, attempted))? {
        Stored::Valid(calibration) => Ok(*calibration),
        Stored::Not(why) => Err(Error::Missing(format!(
            "{attempted} is not known: {why}; `mega doctor --calibrate` measures it"
        ))),
    }
}

fn read(file: &Path) -> Result<Calibration, Error> {
    let attempted = || format!("reading the calibration {}", file.display());
    let text = std::fs::read(file).map_err(|error| Error::io(attempted(), error))?;
    let calibration: Calibration = serde_json::from_slice(&text)
        .map_err(|error| Error::Failed(format!("{}: {error}", attempted())))?;
    match calibration.nonsense() {
        None => Ok(calibration),
        Some(why) => Err(Error::Failed(format!("{}: {why}", attempted()))),
    }
}

/// A row for each working set and way that all of them measured.
fn side_by_side(measured: &[Calibration], processor: &Processor) -> String {
    let mut table = Table::new(&[
        "working set",
        "touches",
        "measured",
        "saved",
        "simulated",
        "saved",
        "in a guest",
        "saved",
    ]);
    let sizes = measured.first().map(Calibration::working_sets);
    for size in sizes.unwrap_or_default() {
        for way in WAYS {
            let points: Vec<&Point> = measured
                .iter()
                .filter_map(|calibration| point(calibration, size, way))
                .collect();
            if points.len() < measured.len() {
                continue;
            }
            let mut row = vec![bytes::format(size), way.name().to_owned()];
            row.push(spread(points.iter().map(|point| point.ns)));
            row.push(spread(points.iter().map(|point| point.saved.value)));
            for simulated in WALKS.map(|walk| touch_time(processor, walk, size, way)) {
                row.extend(simulated.map_or([String::new(), String::new()], |point| {
                    [point.ns, point.saved.value].map(|ns| format!("{ns:.1}"))
                }));
            }
            table.row(row);
        }
    }
    let first = measured.first();
    let machine = first.map_or("nothing", |first| first.valid_for.processor.as_str());
    format!(
        "nanoseconds for each touch of a base page, and how many of them a huge page saves:\nmeasured on {machine}, simulated for {}\n\n{table}",
        processor.name
    )
}

fn point(calibration: &Calibration, size: u64, way: Touching) -> Option<&Point> {
    let mut points = calibration.points.iter();
    points.find(|point| point.working_set == size && point.touching == way)
}

/// The lowest and the highest, or the only one.
fn spread(numbers: impl Iterator<Item = f64> + Clone) -> String {
    let lowest = numbers.clone().fold(f64::INFINITY, f64::min);
    let highest = numbers.fold(f64::NEG_INFINITY, f64::max);
    if lowest < highest {
        format!("{lowest:.1} to {highest:.1}")
    } else {
        format!("{lowest:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_sim::Costs;
    use mega_sim::translation::{SKYLAKE_SP, calibrate};

    /// A simulated core's own calibration stands beside it, and of two that differ both ends are shown.
    #[test]
    fn what_was_measured_stands_beside_what_is_simulated() {
        let costs = Costs::of(&SKYLAKE_SP);
        let calibration = calibrate(&SKYLAKE_SP, Walk::Native, &costs, 8 << 20);
        let mut slower = calibration.clone();
        for point in &mut slower.points {
            point.ns += 1.0;
        }
        let text = side_by_side(&[calibration.clone(), slower], &SKYLAKE_SP);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("iB")).collect();
        let sizes = calibration.working_sets();
        assert_eq!(rows.len(), sizes.len() * WAYS.len(), "{text}");
        assert!(rows.iter().all(|row| row.contains(" to ")), "{text}");
        let saved = point(&calibration, sizes[1], Touching::Serial)
            .unwrap()
            .saved;
        let told = format!("{:.1}", saved.value);
        assert!(rows[2].matches(&told).count() >= 2, "{told}: {text}");
    }

    #[test]
    fn what_is_no_calibration_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(
            error.contains(&file.path().display().to_string()),
            "{error}"
        );
    }
}
