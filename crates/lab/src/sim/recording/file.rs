//! A recording in a file, as it is before it runs.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use mega_core::{Observation, RegionObservation};
use mega_record::programs::Survey;
use mega_record::{Ending, Reader};

use crate::error::Error;

/// A recording.
pub(super) struct Recorded {
    path: PathBuf,
    /// What it is called in tables.
    pub(super) name: String,
    pub(super) survey: Survey,
    /// What its first look saw.
    pub(super) first: Observation,
    /// CPUs of the machine that it was made on.
    pub(super) cpus: u32,
}

impl Recorded {
    /// Reads it once. Says on standard error where it was cut off or is damaged: what lies before is used.
    ///
    /// # Errors
    /// Where it cannot be read, is no recording, or has no look.
    pub(super) fn of(path: &Path) -> Result<Self, Error> {
        let mut reader = open(path)?;
        let mut survey = Survey::of(reader.by_ref());
        let usable = reader.usable();
        let Some(first) = survey.first.take() else {
            return Err(Error::Failed(format!(
                "cannot simulate {}: the recording has no look ({usable})",
                path.display()
            )));
        };
        if usable.ending != Ending::Whole {
            eprintln!("mega lab: {}: {usable}", path.display());
        }
        let name = path.file_stem().unwrap_or(path.as_os_str());
        Ok(Recorded {
            path: path.to_owned(),
            name: name.to_string_lossy().into_owned(),
            survey,
            first,
            cpus: reader.header().cpus.max(1),
        })
    }

    /// Its looks, from the beginning.
    pub(super) fn looks(&self) -> Result<Reader<BufReader<File>>, Error> {
        open(&self.path)
    }

    /// Bytes resident at its first look.
    pub(super) fn resident_at_first(&self) -> u64 {
        let regions = self.first.processes.iter().flat_map(|seen| &seen.regions);
        regions.map(RegionObservation::resident_bytes).sum()
    }

    /// Whether it was measured of any of its processes how often it touches memory.
    pub(super) fn touches_measured(&self) -> bool {
        let mut processes = self.survey.processes.values();
        processes.any(|process| process.touches_measured)
    }

    /// The part of its resident memory that huge pages mapped when it was recorded, as a mean over its looks.
    pub(super) fn blind(&self) -> f64 {
        let sum = |of: fn(&mega_record::programs::Surveyed) -> f64| -> f64 {
            self.survey.processes.values().map(of).sum()
        };
        let resident = sum(|process| process.mean_resident);
        if resident > 0.0 {
            sum(|process| process.mean_blind) / resident
        } else {
            0.0
        }
    }

    /// What it has, in words.
    pub(super) fn in_words(&self) -> String {
        let count = self.survey.processes.len();
        let measured = if self.touches_measured() {
            "touches were measured"
        } else {
            "nobody measured how often it touches its memory, so each page that was accessed is touched once between two looks"
        };
        format!(
            "{}, {:.0} s of {count} {} ({measured})",
            self.path.display(),
            self.survey.length.as_secs_f64(),
            if count == 1 { "process" } else { "processes" }
        )
    }
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, Error> {
    let cannot = |why: &dyn std::fmt::Display| {
        Error::Failed(format!(
            "cannot read the recording {}: {why}",
            path.display()
        ))
    };
    let file = File::open(path).map_err(|error| cannot(&error))?;
    Reader::new(BufReader::new(file)).map_err(|error| cannot(&error))
}
