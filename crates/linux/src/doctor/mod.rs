//! Says what this kernel and these privileges allow, what each missing thing costs, and how to get it.
//!
//! `probe` looks and `decide` judges what it saw. Nothing is applied. The only memory that changes is a few MiB of this
//! process's own, on which promotion and demotion are tried, and the place of the first 2 MiB of mega's program in the page cache.

mod consumers;
mod decide;
mod exchange;
mod experiment;
mod faults;
mod left_behind;
mod module;
mod probe;
mod program_text;
mod tested;

use std::sync::Arc;

use serde::Serialize;

use crate::kernel::Kernel;
use crate::observe::tracker_choice::{self, Choice};
use crate::run_dir::RunDir;
use crate::settings::ledger;
use crate::settings::thp_mode::Stale;
use crate::{Error, TrackerKind};
use left_behind::LeftBehind;
use probe::Probes;

pub(crate) use experiment::sizes as own_sizes;
pub use faults::Faults;

/// The feature that a split of a huge page gives zero-filled base pages back.
const ZEROS_GIVEN_BACK: &str = "zero-filled pages given back by a split";

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
    /// What else is seen to clear Accessed bits or to change page sizes on this machine.
    pub other_consumers: Vec<String>,
    /// The THP mode, where a killed mega left it changed. The next that starts puts it back.
    pub stale_state: Option<Stale>,
    /// All other settings that a killed mega left changed.
    pub stale_settings: Vec<ledger::Stale>,
    /// Why it is not known what killed megas left changed; `None` where it is known.
    pub stale_unknown: Option<String>,
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

impl Examination {
    /// Whether a split of a huge page was seen to give its zero-filled base pages back.
    #[must_use]
    pub fn split_gives_back(&self) -> bool {
        let mut features = self.features.iter();
        features
            .any(|feature| feature.name == ZEROS_GIVEN_BACK && feature.state == State::Available)
    }
}

/// Who else is seen now to clear Accessed bits or to change page sizes on this machine, a line for each. Looks at each process.
#[must_use]
pub fn other_consumers(kernel: &dyn Kernel) -> Vec<String> {
    consumers::find(kernel)
}

/// Examines the kernel. Changes nothing but this process's own memory. Where the boundary refuses writes, whatever can
/// only be tried by a write is [`State::Unknown`].
#[must_use]
pub fn examine(kernel: &Arc<dyn Kernel>) -> Examination {
    let choice = tracker_choice::choose(kernel, None);
    let probes = Probes {
        program_text: Some(program_text::collapse(kernel.as_ref())),
        ..probe::look(kernel)
    };
    let mut examination = put_together(kernel, &choice, &probes);
    let others = &mut examination.other_consumers;
    others.extend(consumers::bpf_policy(kernel.as_ref()));
    examination
}

/// Whether the kernel has everything that mega cannot do without, without looking at what only a report tells.
///
/// # Errors
/// [`Error::Missing`] with the first required feature that is not there.
pub fn require(kernel: &Arc<dyn Kernel>) -> Result<(), Error> {
    examine_with(kernel, &tracker_choice::choose(kernel, None)).require()
}

/// Examines the kernel, after the trackers were tried, for what mega needs: each start waits for it.
pub(crate) fn examine_with(kernel: &Arc<dyn Kernel>, choice: &Choice) -> Examination {
    put_together(kernel, choice, &probe::look(kernel))
}

fn put_together(kernel: &Arc<dyn Kernel>, choice: &Choice, probes: &Probes) -> Examination {
    let left_behind = left_behind::find(kernel.as_ref(), RunDir::existing().as_ref());
    let (left_behind, stale_unknown) = match left_behind {
        Ok(left_behind) => (left_behind, None),
        Err(error) => (LeftBehind::default(), Some(error.to_string())),
    };
    Examination {
        kernel_release: probes.release.clone(),
        features: decide::features(probes, choice),
        tracker: decide::tracker(choice),
        faults: probes.mode.as_ref().ok().map(faults::under),
        other_consumers: consumers::find(kernel.as_ref()),
        stale_state: left_behind.mode,
        stale_settings: left_behind.settings,
        stale_unknown,
    }
}
