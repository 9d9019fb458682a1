//! `mega daemon`: manages the programs that the configuration selects, until it is stopped.

use mega_core::ActionKind;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mega_linux::kernel::{Kernel, LiveKernel, cgroup_namespace, give_back_freed_memory};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::{FaultMeans, FaultMode};
use mega_linux::settings::stale;
use mega_linux::{Host, HostOptions};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sd_notify::NotifyState;
use tracing::{info, warn};

use crate::calibrator::Calibrator;
use crate::cli::Daemon;
use crate::config::{self, Config};
use crate::control::Server;
use crate::events::{self, Change};
use crate::exit::Failure;
use crate::guests::Guests;
use crate::history::Recorder;
use crate::manager::Manager;
use crate::manager::snapshot::Fault;
use crate::manager::watchdog;
use crate::metrics::{self, Endpoint};
use crate::node_features::NodeFeatures;
use crate::output;
use crate::report::{ManagerStatus, Mode};
use crate::signals::Signals;
use crate::worker::Worker;

/// How often the daemon checks that its manager lives.
const CHECK: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Daemon) -> Result<ExitCode, Failure> {
    let config = load(args)?;
    if args.check {
        output::print(&format!(
            "{}: {} selections, no errors\n",
            args.config.display(),
            config.selects.len()
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    give_back_freed_memory();
    events::start();
    let inherited = metrics::inherited()?;
    if let Err(error) = cgroup_namespace::see_whole_tree() {
        warn!(
            "cannot see the cgroups of the whole machine from this container, so limits of their memory are unknown: {error}"
        );
    }
    let started = LiveKernel.now();
    let signals = Signals::block(&[Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM])?;
    let host = Arc::new(Host::open(HostOptions {
        dry_run: args.dry_run,
        tracker: config.tracker,
    })?);
    let run_dir = RunDir::open()?;
    if !args.dry_run {
        for what in stale::put_back(host.kernel().as_ref(), &run_dir)? {
            warn!("a killed mega had left this changed, put back: {what}");
        }
    }
    if let Some(other) = host.other_module() {
        warn!("{other}");
    }
    info!(
        "tracker {}: {}",
        host.tracker_kind(),
        host.examination().tracker.why
    );
    let mode = Mode::Daemon {
        config: args.config.clone(),
    };
    let fault = Fault {
        mode: FaultMode::Inherit,
        means: FaultMeans::Nothing,
    };
    let guests = serve_guests(&host, &run_dir, &config)?;
    let mut manager = Manager::new(host, mode, fault, started)?;
    manager.manage_configured(config.clone())?;
    let report = Box::new(events::report);
    let recorder = Some(recorder(args.dry_run));
    let worker = Worker::start(
        manager,
        recorder,
        report,
        watchdog::patience(),
        watchdog::beat,
    )?;
    let uptime = LiveKernel.now().saturating_sub(started);
    let published = worker.published();
    let server = Server::start(&run_dir, published.clone(), config.status_group);
    let served = server.and_then(|server| {
        let endpoint = Endpoint::start(inherited, &config.metrics, published, uptime)?;
        Ok((server, endpoint))
    });
    let (server, mut endpoint) = match served {
        Ok(served) => served,
        Err(failure) => {
            // The manager puts back what it changed globally.
            worker.stop()?;
            return Err(failure);
        }
    };
    log_faults(&worker);
    log_metrics(&endpoint);
    info!("managing {} selections", config.selects.len());
    notify(&[NotifyState::Ready]);
    serve(args, &signals, &worker, &mut endpoint, config);
    notify(&[NotifyState::Stopping]);
    drop(endpoint);
    drop(server);
    drop(guests);
    let status = worker.stop()?;
    log_totals(&status);
    Ok(ExitCode::SUCCESS)
}

/// Serves the guests of this host, where the configuration says so. A dry run serves none: it would change memory.
fn serve_guests(
    host: &Arc<Host>,
    run_dir: &RunDir,
    config: &Config,
) -> Result<Option<Guests>, Failure> {
    let Some(exchange) = &config.exchange else {
        return Ok(None);
    };
    if host.is_dry_run() {
        info!("no guest is served in a dry run");
        return Ok(None);
    }
    if let Some(group) = exchange.group
        && exchange.socket.parent() == Some(run_dir.path())
    {
        if config.status_group.is_some_and(|other| other != group) {
            return Err(Failure::Failed(format!(
                "[exchange] has another group than status_group, and one group alone may pass through {}: put its socket elsewhere",
                run_dir.path().display()
            )));
        }
        run_dir.let_through(group)?;
    }
    let guests = Guests::start(Arc::clone(host.kernel()), exchange)?;
    info!("guests are served on {}", exchange.socket.display());
    Ok(Some(guests))
}

/// Reads the configuration, and says how to begin where there is none.
fn load(args: &Daemon) -> Result<Config, Failure> {
    if !args.config.exists() {
        return Err(Failure::Failed(format!(
            "{}: there is no configuration; `mega init` writes one from what runs here; or write one with a [[select]] table (name, and at least one of cgroup, executable, namespace, pod, pod_labels, pod_annotations, user, min_resident), or name another with --config",
            args.config.display()
        )));
    }
    config::load(&args.config).map_err(|error| Failure::Failed(error.to_string()))
}

/// What keeps the last day: on disk, but for a dry run, which leaves nothing behind.
fn recorder(dry_run: bool) -> Recorder {
    if dry_run {
        return Recorder::in_memory();
    }
    Recorder::on_disk().unwrap_or_else(|why| {
        warn!("the history of the day ends with this daemon: {why}");
        Recorder::in_memory()
    })
}

/// Handles signals until one stops the daemon or managing ends by itself.
fn serve(
    args: &Daemon,
    signals: &Signals,
    worker: &Worker,
    endpoint: &mut Endpoint,
    mut config: Config,
) {
    let timeout = Timespec::try_from(CHECK).unwrap_or_default();
    let mut features = config.node_features.clone().map(NodeFeatures::new);
    let mut calibrator = (!args.dry_run).then(Calibrator::new);
    while !worker.has_ended() {
        if let Some(calibrator) = &mut calibrator
            && calibrator.update(&LiveKernel, config.calibrate_when_idle)
        {
            use_calibration(worker, &config);
        }
        if let Some(features) = &mut features {
            features.update(&LiveKernel);
        }
        // An interrupted wait is simply tried again.
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&timeout));
        while let Some(received) = signals.next() {
            if received.signal == Signal::SIGHUP {
                config = reload(args, worker, endpoint, config);
                if features.as_ref().map(NodeFeatures::path) != config.node_features.as_deref() {
                    features = config.node_features.clone().map(NodeFeatures::new);
                }
            } else {
                info!("stopping on {}", received.signal);
                return;
            }
        }
    }
}

/// Has the managers take over a calibration that was made just now.
fn use_calibration(worker: &Worker, config: &Config) {
    // They look for one whenever they take over a configuration.
    if let Err(error) = worker.configure(config.clone()) {
        warn!("the calibration is used after a reload only: {error}");
    }
}

/// Takes over the configuration anew. Returns the one that holds: the old one where the new one is wrong or does not
/// work on this machine.
fn reload(args: &Daemon, worker: &Worker, endpoint: &mut Endpoint, old: Config) -> Config {
    let mut states = vec![NotifyState::Reloading];
    states.extend(NotifyState::monotonic_usec_now().ok());
    notify(&states);
    let taken_over = load(args).and_then(|new| {
        let serving = endpoint.prepare(&new.metrics)?;
        worker.configure(new.clone())?;
        endpoint.change(serving);
        Ok(new)
    });
    let config = match taken_over {
        Ok(new) => {
            if new.fault != old.fault {
                log_faults(worker);
            }
            if new.metrics != old.metrics {
                log_metrics(endpoint);
            }
            let selections = new.selects.len() as u64;
            announce(worker, Change::Reloaded { selections });
            if new.tracker != old.tracker {
                warn!("another tracker is used after a restart only");
            }
            if new.exchange != old.exchange {
                warn!("guests are served elsewhere after a restart only");
            }
            if new.status_group != old.status_group {
                warn!("another group may ask after a restart only");
            }
            new
        }
        Err(failure) => {
            announce(worker, Change::reload_refused(&failure.to_string()));
            old
        }
    };
    notify(&[NotifyState::Ready]);
    config
}

/// Makes a change known that is not the manager's.
fn announce(worker: &Worker, change: Change) {
    events::report(&change, &change.in_words());
    worker.published().events().add(change);
}

/// Logs what faults take, and whether that is mega's doing.
fn log_faults(worker: &Worker) {
    if let Some(fault) = worker.published().status().fault {
        info!("faults (fault = \"{}\") take {}", fault.mode, fault.by);
    }
}

/// Logs where the metrics can be had.
fn log_metrics(endpoint: &Endpoint) {
    let names: Vec<&str> = endpoint.names().collect();
    if !names.is_empty() {
        info!("metrics are served on {}", names.join(" and "));
    }
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager nobody listens. mega cannot mend one that does not.
    let _ = sd_notify::notify(states);
}

fn log_totals(status: &ManagerStatus) {
    for group in &status.groups {
        let actions = &group.actions;
        info!(
            "{}: {} promoted, {} demoted, {} failed, {} bytes copied, {} bytes exchanged by the host, {} bytes given back",
            group.name,
            actions.done[ActionKind::Promote],
            actions.done[ActionKind::Demote],
            actions.failures.count(),
            actions.bytes_copied,
            actions.bytes_exchanged,
            actions.bytes_given_back
        );
    }
    info!(
        "manager CPU {:.3} s ({:.2} % of one core)",
        status.manager.cpu_seconds,
        status.manager.cpu_share * 100.0
    );
}
