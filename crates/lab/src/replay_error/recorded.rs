//! A recorded program, and what replays of it predict.

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use mega_core::engine::{Budgets, Engine};
use mega_core::promotion::{self, Parameters};
use mega_record::replay::{ReplayedMachine, Terms, follow};
use mega_record::{Ending, Look, Reader};
use tempfile::TempDir;

use super::outcome::{Outcome, place};
use crate::Error;
use crate::workload::report::Ready;

/// A program's recording, and where its memory was.
pub(super) struct Recording {
    /// In which the file lies.
    pub(super) folder: TempDir,
    pub(super) ready: Ready,
    /// What the program and its recorder took to end, once they were told. What was recorded meanwhile is not compared.
    pub(super) ending: Duration,
}

impl Recording {
    pub(super) const FILE: &'static str = "program.rec";

    /// What a policy would have made of the program.
    pub(super) fn replay(&self, policy: &str, interval: Duration) -> Result<Outcome, Error> {
        let failed = |why: String| Error::Failed(format!("cannot replay the recording: {why}"));
        let policy = promotion::build(policy, &Parameters::new())
            .map_err(|error| failed(error.to_string()))?;
        let file = File::open(self.folder.path().join(Self::FILE))
            .map_err(|error| Error::io("open the recording", error))?;
        let mut reader =
            Reader::new(BufReader::new(file)).map_err(|error| failed(error.to_string()))?;
        let looks: Vec<Look> = reader.by_ref().collect();
        if reader.usable().ending != Ending::Whole {
            return Err(failed(reader.usable().to_string()));
        }
        // The last look cannot be later than the recorder's end.
        let last = looks.last().map(|look| look.at).unwrap_or_default();
        let until = last.saturating_sub(self.ending);
        let looks = looks.into_iter().filter(|look| look.at <= until);
        let machine = ReplayedMachine::new(reader.header(), looks, Terms::default());
        let engine = Engine::new(policy, Budgets::default(), interval);
        let (course, _) = follow(engine, machine);
        let regions = course.promoted.iter();
        Ok(Outcome {
            resident: course.last.resident,
            huge: course.last.huge,
            regions: regions
                .filter_map(|target| place(&self.ready, target.region.start()))
                .collect(),
        })
    }
}
