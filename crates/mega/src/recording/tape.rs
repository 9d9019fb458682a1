//! Records what a manager sees and does: each step's observation, and its actions with what came of them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mega_core::{Action, Observation, Outcome, RegionRef};
use mega_linux::{Host, LinuxMachine};
use mega_record::{Acted, Header, Look, Writer};

use super::{Told, free_lists};

/// A recording of one manager.
pub(crate) struct Tape {
    host: Arc<Host>,
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    began: Duration,
    told: Told,
    /// The step that is taken.
    look: Option<Look>,
}

impl Tape {
    /// Begins one.
    ///
    /// # Errors
    /// Where nothing can be written to `file`.
    pub(crate) fn begin(
        host: Arc<Host>,
        path: &Path,
        file: BufWriter<File>,
        header: &Header,
    ) -> io::Result<Self> {
        Ok(Tape {
            began: host.kernel().now(),
            writer: Writer::new(file, header)?,
            host,
            path: path.to_owned(),
            told: Told::default(),
            look: None,
        })
    }

    /// Where it is written.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn passed(&self) -> Duration {
        self.host.kernel().now().saturating_sub(self.began)
    }

    /// What the step saw, and the CPU time that looking took.
    pub(crate) fn saw(&mut self, observation: &Observation, cpu: Duration) {
        let mut observation = observation.clone();
        observation.normalise();
        observation.counted.clear();
        self.look = Some(Look {
            at: self.passed(),
            cpu,
            observation,
            ..Look::default()
        });
    }

    /// The zero-filled base pages of a region, which the step counted.
    pub(crate) fn counted(&mut self, target: RegionRef, zero_filled: u16) {
        let processes = self.look.iter_mut();
        let mut processes = processes.flat_map(|look| &mut look.observation.processes);
        if let Some(seen) = processes.find(|seen| seen.process == target.process)
            && let Ok(place) = seen
                .regions
                .binary_search_by_key(&target.region, |region| region.region)
            && let Some(region) = seen.regions.get_mut(place)
        {
            region.zero_filled = Some(zero_filled.min(region.mapped));
        }
    }

    /// What the step did, and what came of it.
    pub(crate) fn did(&mut self, actions: &[Action], outcomes: &[Outcome]) {
        let at = self.passed();
        let acted = |(action, outcome): (&Action, &Outcome)| Acted {
            at,
            action: *action,
            outcome: *outcome,
        };
        if let Some(look) = &mut self.look {
            look.actions.extend(actions.iter().zip(outcomes).map(acted));
        }
    }

    /// Writes the step down, if one was taken.
    ///
    /// # Errors
    /// Where the file takes no more, or the free lists cannot be read.
    pub(crate) fn write(&mut self, machine: &LinuxMachine) -> io::Result<()> {
        let Some(mut look) = self.look.take() else {
            return Ok(());
        };
        let processes = look.observation.processes.iter();
        let processes: BTreeSet<_> = processes.map(|seen| seen.process).collect();
        self.told.retain(|process| processes.contains(process));
        look.news = self.told.news(&self.host, machine, &processes, look.at);
        look.free_lists = free_lists(self.host.kernel().as_ref()).map_err(io::Error::other)?;
        self.writer.write(&look)
    }

    /// Ends it.
    ///
    /// # Errors
    /// Where the rest cannot be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.writer.finish().map(drop)
    }
}
