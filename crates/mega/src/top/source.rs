//! Where samples come from: the running managers, or a look of our own. Samples are taken on a thread of their own, on
//! request only, so that a manager that answers slowly does not hold up the keys.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use mega_core::engine::{Budgets, Interval};
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::settings::fault::{FaultMeans, FaultMode};
use mega_linux::settings::shared_memory::SharedMemory;
use mega_linux::{Host, HostOptions, TrackerKind};
use rustix::process::geteuid;

use super::sample::Sample;
use super::state::Key;
use super::update::Event;
use crate::config::{Config, Metrics, Select, Settings};
use crate::control;
use crate::exit::Failure;
use crate::manager::Manager;
use crate::manager::snapshot::Fault;
use crate::report::{ManagerStatus, Mode, ProcessDetail};
use crate::selection::Selection;
use crate::worker::Worker;

/// Looking by itself it shows the processes with at least as much resident: smaller ones gain nothing from huge pages
/// that anybody would notice.
const WORTH_A_LOOK: u64 = 32 << 20;
/// How long a close look at several processes may take: a manager's next step is at most some intervals away.
const LOOKING: Duration = Duration::from_secs(12);
/// How often it is asked meanwhile.
const ASKING: Duration = Duration::from_millis(300);
/// How long the observer's thread may wait without a sign of life. Nobody waits for one.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Where samples come from.
pub(crate) enum Source {
    /// The running managers.
    Managers,
    /// A manager in this process that changes nothing.
    Observer(Worker),
}

/// What the sampling thread is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Look closely at this process too, or at none.
    Look(Option<Key>),
    /// Look closely at these processes once.
    LookAtAll(Vec<Key>),
    /// Take samples, or take none.
    Pause(bool),
    /// Go to this time in the recording.
    Jump(Duration),
    /// Play this many seconds of the recording in one.
    Speed(u32),
}

/// Starts to look by itself, at every process with some memory; a user who is not root, at their own. Changes nothing: it
/// clears no Accessed bits, so what is accessed stays unknown.
///
/// # Errors
/// Where this kernel or these privileges do not let it look.
pub(crate) fn observe(tracker: Option<TrackerKind>, interval: Duration) -> Result<Source, Failure> {
    let started = LiveKernel.now();
    let host = Arc::new(Host::open(HostOptions {
        dry_run: true,
        tracker,
    })?);
    let fault = Fault {
        mode: FaultMode::Inherit,
        means: FaultMeans::Nothing,
    };
    let mut manager = Manager::observer(host, Mode::Observe, fault, started)?;
    manager.manage_configured(everything(interval))?;
    // What it cannot look at is shown among the processes.
    Worker::start(manager, None, Box::new(|_, _| {}), PATIENCE, || {}).map(Source::Observer)
}

fn everything(interval: Duration) -> Config {
    let user = geteuid();
    let (name, user) = match user.is_root() {
        true => ("all", None),
        false => ("mine", Some(user.as_raw())),
    };
    let select = Select {
        name: name.to_owned(),
        selection: Selection {
            user,
            min_resident: Some(WORTH_A_LOOK),
            ..Selection::default()
        },
        settings: Settings {
            interval: Interval::Fixed(interval),
            budgets: Budgets::default(),
            ..Settings::default()
        },
    };
    Config {
        tracker: None,
        fault: FaultMode::Inherit,
        shared_memory: SharedMemory::Inherit,
        status_group: None,
        node_features: None,
        calibrate_when_idle: None,
        metrics: Metrics::default(),
        record: None,
        exchange: None,
        selects: vec![select],
    }
}

impl Source {
    /// Takes a sample.
    fn sample(&self, look: Option<Key>) -> Sample {
        let mut sample = Sample::now();
        match self.statuses() {
            Ok((managers, troubles)) => {
                sample.managers = managers;
                sample.troubles = troubles;
            }
            Err(failure) => sample.troubles.push(failure.to_string()),
        }
        if let Some(key) = look {
            match self.look(key) {
                Ok(detail) => sample.detail = Some((key.manager, detail)),
                Err(reason) => sample.troubles.push(reason),
            }
        }
        sample
    }

    fn statuses(&self) -> Result<(Vec<ManagerStatus>, Vec<String>), Failure> {
        match self {
            Source::Managers => control::ask_everyone(),
            Source::Observer(worker) => Ok((vec![worker.published().status()], Vec::new())),
        }
    }

    /// Looks closely at processes, and waits until their managers have, for a while. Those that cannot be looked at are
    /// left out.
    fn look_at_all(&self, keys: &[Key]) -> Vec<(Key, ProcessDetail)> {
        let began = Instant::now();
        loop {
            let looks = keys.iter().map(|&key| (key, self.look(key)));
            let looks: Vec<(Key, ProcessDetail)> = looks
                .filter_map(|(key, look)| Some((key, look.ok()?)))
                .collect();
            let all = looks.iter().all(|(_, look)| look.step.is_some());
            if all || began.elapsed() > LOOKING {
                return looks;
            }
            std::thread::sleep(ASKING);
        }
    }

    fn look(&self, key: Key) -> Result<ProcessDetail, String> {
        match self {
            Source::Managers => control::ask_for_process(key.manager, key.pid),
            Source::Observer(worker) => worker.published().process(key.pid),
        }
    }
}

/// Takes a sample at once, at every interval and at every order, until nobody takes them any more.
pub(super) fn run(
    source: &Source,
    interval: Duration,
    orders: &Receiver<Order>,
    events: &Sender<Event>,
) {
    let (mut look, mut paused) = (None, false);
    loop {
        if !paused {
            let sample = Box::new(source.sample(look));
            if events.send(Event::Sample(sample)).is_err() {
                return;
            }
        }
        let order = match paused {
            true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => orders.recv_timeout(interval),
        };
        match order {
            Ok(Order::Look(key)) => look = key,
            Ok(Order::LookAtAll(keys)) => {
                let looks = source.look_at_all(&keys);
                if events.send(Event::Looked(looks)).is_err() {
                    return;
                }
            }
            Ok(Order::Pause(is_paused)) => paused = is_paused,
            // The present has one time and one speed.
            Ok(Order::Jump(_) | Order::Speed(_)) => {}
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
