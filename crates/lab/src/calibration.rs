//! `mega lab calibration`: what touches cost on a simulated core, beside what was measured on a real one.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mega_core::table::Table;
use mega_core::worth::calibration::find;
use mega_core::worth::{Calibration, Point, Touching};
use mega_core::{PageSize, bytes};
use mega_linux::calibrate::{self, Stored};
use mega_linux::kernel::LiveKernel;
use mega_sim::translation::{PROCESSORS, Processor, SAPPHIRE_RAPIDS, Walk, touch_time};
use serde::Serialize;

use crate::Error;

/// The ways of touching that a simulated core can tell apart.
const WAYS: [Touching; 3] = [
    Touching::Serial,
    Touching::SerialVisits,
    Touching::Neighbours,
];
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Measured touches and simulated ones.
#[derive(Debug, Serialize)]
struct Comparison {
    /// The processor that was measured.
    measured: String,
    /// The name of the processor that is simulated.
    simulated: &'static str,
    rows: Vec<Row>,
}

/// One working set, touched in one way.
#[derive(Debug, Serialize)]
struct Row {
    working_set_bytes: u64,
    touching: Touching,
    measured: Measured,
    /// Translated on the machine itself; `null` where the core cannot be simulated so.
    native: Option<Simulated>,
    /// Translated in a guest whose host maps by huge pages.
    in_a_guest: Option<Simulated>,
}

/// The lowest and the highest of what was measured.
#[derive(Debug, Serialize)]
struct Measured {
    /// Nanoseconds for each touch of a base page.
    ns: (f64, f64),
    /// Nanoseconds of it that a huge page saves.
    saved_ns: (f64, f64),
}

#[derive(Debug, Serialize)]
struct Simulated {
    /// Nanoseconds for each touch of a base page.
    ns: f64,
    /// Nanoseconds of it that a huge page saves.
    saved_ns: f64,
}

/// Simulates what was measured; returns both as a table, or as JSON.
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
    let comparison = compare(&measured, &args.cpu);
    if args.json {
        return serde_json::to_string_pretty(&comparison)
            .map_err(|error| Error::Failed(error.to_string()));
    }
    Ok(comparison.to_string())
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
fn compare(measured: &[Calibration], processor: &Processor) -> Comparison {
    let first = measured.first();
    let sizes = first.map(Calibration::working_sets).unwrap_or_default();
    let pairs = sizes
        .into_iter()
        .flat_map(|size| WAYS.map(|way| (size, way)));
    let rows = pairs.filter_map(|(size, way)| {
        let points = measured.iter().map(|known| point(known, size, way));
        let points = points.collect::<Option<Vec<_>>>()?;
        let [native, in_a_guest] = WALKS.map(|walk| {
            touch_time(processor, walk, size, way).map(|point| Simulated {
                ns: point.ns,
                saved_ns: point.saved.value,
            })
        });
        Some(Row {
            working_set_bytes: size,
            touching: way,
            measured: Measured {
                ns: ends(points.iter().map(|point| point.ns)),
                saved_ns: ends(points.iter().map(|point| point.saved.value)),
            },
            native,
            in_a_guest,
        })
    });
    Comparison {
        measured: first.map_or_else(String::new, |first| first.valid_for.processor.clone()),
        simulated: processor.name,
        rows: rows.collect(),
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        for row in &self.rows {
            let measured = [spread(row.measured.ns), spread(row.measured.saved_ns)];
            let simulated = [&row.native, &row.in_a_guest]
                .into_iter()
                .flat_map(|known| {
                    let numbers = known.as_ref().map(|known| [known.ns, known.saved_ns]);
                    numbers.map_or_else(Default::default, |numbers| {
                        numbers.map(|ns| format!("{ns:.1}"))
                    })
                });
            let way = row.touching.name().to_owned();
            let begin = [bytes::format(row.working_set_bytes), way];
            table.row(begin.into_iter().chain(measured).chain(simulated));
        }
        write!(
            f,
            "nanoseconds for each touch of a base page, and how many of them a huge page saves:\nmeasured on {}, simulated for {}\n\n{table}",
            self.measured, self.simulated
        )
    }
}

fn point(calibration: &Calibration, size: u64, way: Touching) -> Option<&Point> {
    find(&calibration.points, size, way)
}

/// The lowest and the highest.
fn ends(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    (
        numbers.clone().fold(f64::INFINITY, f64::min),
        numbers.fold(f64::NEG_INFINITY, f64::max),
    )
}

/// Both, or the only one.
fn spread((lowest, highest): (f64, f64)) -> String {
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
        let comparison = compare(&[calibration.clone(), slower], &SKYLAKE_SP);
        let text = comparison.to_string();
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("iB")).collect();
        let sizes = calibration.working_sets();
        assert_eq!(rows.len(), sizes.len() * WAYS.len(), "{text}");
        assert!(rows.iter().all(|row| row.contains(" to ")), "{text}");
        let saved = point(&calibration, sizes[1], Touching::Serial)
            .unwrap()
            .saved;
        let told = format!("{:.1}", saved.value);
        assert!(
            rows[WAYS.len()].matches(&told).count() >= 2,
            "{told}: {text}"
        );
        let json = serde_json::to_value(&comparison).unwrap();
        let row = &json["rows"][WAYS.len()];
        assert_eq!(row["working_set_bytes"], sizes[1]);
        assert_eq!(row["measured"]["saved_ns"][0], saved.value);
        let simulated = row["native"]["saved_ns"].as_f64().unwrap();
        assert!((simulated - saved.value).abs() < 0.1, "{simulated}");
    }

    /// A calibration of an Intel Xeon of Emerald Rapids, whose core is that of Sapphire Rapids.
    const XEON: &str = include_str!("../../../docs/results/calibration/xeon-6-207.json");

    /// From where the page tables are beyond the L2 cache: what huge pages save grows with the working set in the model as on the
    /// machine, and is of the same size. It is less than on the machine, which others use, too.
    #[test]
    fn a_calibrated_machine_and_the_model_of_its_processor_agree_on_what_is_saved() {
        let calibration: Calibration = serde_json::from_str(XEON).unwrap();
        let sizes = calibration.working_sets().into_iter();
        let large = sizes.filter(|size| *size >= 128 << 20);
        let saved: Vec<(f64, f64)> = large
            .map(|size| {
                let measured = point(&calibration, size, Touching::Serial).unwrap();
                let simulated = touch_time(&SAPPHIRE_RAPIDS, WALKS[1], size, Touching::Serial);
                (measured.saved.value, simulated.unwrap().saved.value)
            })
            .collect();
        assert!(saved.len() >= 3, "{saved:?}");
        assert!(saved.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1));
        let is_alike =
            |(measured, simulated): &(f64, f64)| (0.5..=6.0).contains(&(measured / simulated));
        assert!(saved.iter().all(is_alike), "{saved:?}");
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
