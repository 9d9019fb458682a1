//! What this kernel and these privileges allow, what each missing thing costs, and how to get it.
//!
//! `probe` looks, `decide` judges what was seen, and nothing is applied. Looking changes nothing but a few MiB
//! of this process's own memory, on which promotion and demotion are tried.

mod consumers;
mod decide;
mod experiment;
mod faults;
mod probe;

use std::sync::Arc;

use serde::Serialize;

use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::thp_mode::Stale;
use crate::tracker_choice::{self, Choice};
use crate::{Error, TrackerKind};

pub use faults::Faults;

/// Whether a feature is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It works.
    Available,
    /// It does not work here.
    Missing,
    /// It could not be tried.
    Unknown,
}

/// One thing that mega can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// What it is called.
    pub name: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What was seen: a value read, or the kernel's answer.
    pub seen: String,
    /// What needs it.
    pub needed_for: &'static str,
    /// What is lost without it.
    pub cost_if_missing: &'static str,
    /// How to get it.
    pub remedy: &'static str,
    /// Whether mega cannot manage anything without it.
    pub required: bool,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// The kernel's release, as `uname -r`.
    pub kernel_release: String,
    /// Every feature.
    pub features: Vec<Feature>,
    /// The tracker that would be used, and why.
    pub tracker: TrackerChoice,
    /// What page faults take; `None` where the THP mode cannot be read.
    pub faults: Option<Faults>,
    /// What else clears Accessed bits or changes page sizes on this machine, as far as it can be seen.
    pub other_consumers: Vec<String>,
    /// What a killed mega left changed, to be put back by the next that starts.
    pub stale_state: Option<Stale>,
}

/// Which tracker would be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrackerChoice {
    /// Its name; `None` where none works.
    pub chosen: Option<TrackerKind>,
    /// Why this one.
    pub why: String,
}

impl Examination {
    /// Whether everything that mega cannot do without is there.
    ///
    /// # Errors
    /// [`Error::Missing`] with the first required feature that is not.
    pub fn require(&self) -> Result<(), Error> {
        let missing = |feature: &&Feature| feature.required && feature.state == State::Missing;
        match self.features.iter().find(missing) {
            None => Ok(()),
            Some(feature) => Err(Error::Missing {
                feature: format!("{} ({})", feature.name, feature.seen),
                remedy: feature.remedy.to_owned(),
            }),
        }
    }
}

/// Examines the kernel. Changes nothing but memory of its own; behind a boundary that refuses writes, what cannot be
/// tried without one is [`State::Unknown`].
#[must_use]
pub fn examine(kernel: &Arc<dyn Kernel>) -> Examination {
    examine_with(kernel.as_ref(), &tracker_choice::choose(kernel, None))
}

/// Examines the kernel, the trackers having been tried already.
pub(crate) fn examine_with(kernel: &dyn Kernel, choice: &Choice) -> Examination {
    let probes = probe::look(kernel);
    Examination {
        kernel_release: probes.release.clone(),
        features: decide::features(&probes, choice),
        tracker: decide::tracker(choice),
        faults: probes.mode.as_ref().ok().map(|&mode| faults::under(mode)),
        other_consumers: consumers::find(kernel),
        // Without a run directory there can be no record in it.
        stale_state: RunDir::existing()
            .and_then(|run_dir| crate::thp_mode::stale(kernel, &run_dir).ok())
            .flatten(),
    }
}
