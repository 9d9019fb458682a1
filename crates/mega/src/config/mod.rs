//! The daemon's configuration: what it says, after the file and its drop-ins were read and checked.

mod exchange;
mod load;
mod metrics;
mod reader;
mod record;

use std::path::PathBuf;
use std::time::Duration;

use mega_core::engine::{Budgets, Interval};
use mega_core::promotion::{self, BuildError, DEFAULT_POLICY, Parameters, Policy};
use mega_linux::TrackerKind;
use mega_linux::process::Chosen;
use mega_linux::settings::fault::FaultMode;
use mega_linux::settings::shared_memory::SharedMemory;

use crate::selection::Selection;

pub(crate) use load::load;

/// How long a CPU must have been idle before a machine is calibrated, where the configuration does not say.
const CALIBRATE_WHEN_IDLE: Duration = Duration::from_secs(60);

/// Whether there is a configuration at `path` that is right and selects something.
pub(crate) fn selects_something(path: &std::path::Path) -> bool {
    load(path).is_ok()
}
pub(crate) use exchange::Exchange;
pub(crate) use metrics::Metrics;
pub(crate) use record::Record;

/// How processes are managed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The policy's name. It exists, and takes the parameters.
    pub(crate) policy: String,
    /// Its parameters, where they are not the defaults.
    pub(crate) parameters: Parameters,
    /// Time between two observations.
    pub(crate) interval: Interval,
    /// What managing may cost.
    pub(crate) budgets: Budgets,
    /// How long a target's mmap lock may be held in one go.
    pub(crate) lock_bound: Duration,
    /// The part of each process's memory that is to be in huge pages whatever the policy thinks, 0 to 1; `None` for no
    /// such promise.
    pub(crate) coverage: Option<f64>,
    /// The memory that this is about; `None` for all that huge pages can map.
    pub(crate) coverage_of: Option<Chosen>,
}

impl Settings {
    /// The policy, under the promise if there is one.
    ///
    /// # Errors
    /// Where there is no such policy, or it does not take the parameters.
    pub(crate) fn build_policy(&self) -> Result<Box<dyn Policy>, BuildError> {
        let policy = promotion::build(&self.policy, &self.parameters)?;
        Ok(match self.coverage {
            Some(least) => promotion::with_promise(policy, least),
            None => policy,
        })
    }

    /// Whether the other settings decide alike.
    pub(crate) fn decides_as(&self, other: &Settings) -> bool {
        (&self.policy, &self.parameters, self.coverage)
            == (&other.policy, &other.parameters, other.coverage)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: DEFAULT_POLICY.to_owned(),
            parameters: Parameters::new(),
            interval: Interval::Auto,
            budgets: Budgets::default(),
            lock_bound: Duration::from_millis(10),
            coverage: None,
            coverage_of: None,
        }
    }
}

/// One `[[select]]`: which processes, and how they are managed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    /// Its name, which is unique.
    pub(crate) name: String,
    /// Which processes.
    pub(crate) selection: Selection,
    /// How they are managed.
    pub(crate) settings: Settings,
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// The tracker; `None` for the best one that works.
    pub(crate) tracker: Option<TrackerKind>,
    /// What page faults take while the daemon runs.
    pub(crate) fault: FaultMode,
    /// Whether the kernel places shared memory so that huge pages fit, while the daemon runs.
    pub(crate) shared_memory: SharedMemory,
    /// How metrics are served.
    pub(crate) metrics: Metrics,
    /// Where the selections are recorded; `None` for nowhere.
    pub(crate) record: Option<Record>,
    /// Where guests of this host are served; `None` for nowhere.
    pub(crate) exchange: Option<Exchange>,
    /// The group whose members may ask what the daemon sees and does.
    pub(crate) status_group: Option<u32>,
    /// The file to keep for Node Feature Discovery; `None` for none.
    pub(crate) node_features: Option<PathBuf>,
    /// How long a CPU must have been idle before the daemon has a machine calibrated that is not; `None` for never.
    pub(crate) calibrate_when_idle: Option<Duration>,
    /// The selections. A process belongs to the first that takes it. There is at least one.
    pub(crate) selects: Vec<Select>,
}
