//! `mega run`: starts a program and manages it and its descendants until it ends.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mega_core::ActionKind;
use mega_core::bytes;
use mega_core::promotion;
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::profile::Store;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::{FaultControl, FaultMode};
use mega_linux::settings::stale;
use mega_linux::{Host, HostOptions};

use crate::cli::{self, Run};
use crate::config::Settings;
use crate::control::Server;
use crate::events::Change;
use crate::exit::Failure;
use crate::manager::Manager;
use crate::manager::snapshot::Fault;
use crate::output;
use crate::profiling::{self, Profiling};
use crate::recording::{self, Shared, Tape};
use crate::report::{
    Actions, GainReport, ManagerStatus, Mode, ProfileUse, RunReport, VERSION, sizes_in_words,
};
use crate::supervise::Supervisor;
use crate::worker::Worker;

/// How often the manager shows that it is alive. Nobody watches it under `mega run`.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What mega says at the end: until then the standard streams are the program's.
type Notes = Arc<Mutex<Vec<String>>>;

pub(super) fn run(args: &Run) -> Result<ExitCode, Failure> {
    let started = LiveKernel.now();
    let settings = settings(args);
    promotion::build(&settings.policy, &settings.parameters)?;
    let host = Arc::new(Host::open(HostOptions {
        dry_run: args.dry_run,
        tracker: args.tracker.kind(),
    })?);
    let run_dir = RunDir::open()?;
    if !args.dry_run {
        stale::put_back(host.kernel().as_ref(), &run_dir)?;
    }
    let report_file = args.report.as_deref().map(create).transpose()?;
    let tape = tape(&host, args, &settings)?;
    let store = profiles(args);
    let mode = match (args.fault, &store) {
        (cli::Fault::Inherit, _) => FaultMode::Inherit,
        (cli::Fault::Auto, Some(store)) => {
            profiling::fault_mode(host.kernel().as_ref(), store, &args.command)
        }
        (cli::Fault::Base | cli::Fault::Auto, _) => FaultMode::Base,
    };
    let fault = FaultControl::prepare(host.kernel(), &run_dir, mode)?;
    // From here on signals wait until there is a program to pass them on to.
    let supervisor = Supervisor::new()?;
    let program = supervisor.start(&args.command, &fault)?;

    let notes = Notes::default();
    if let Some(other) = host.other_module() {
        note(&notes, &other.to_string());
    }
    let profiling = store
        .map(|store| Profiling::start(Arc::clone(&host), store, &run_dir, program.pid(), mode));
    let held = Fault {
        mode,
        means: fault.means(),
    };
    let managing = manage(
        host,
        &run_dir,
        args,
        (settings, tape),
        held,
        started,
        &notes,
    );
    let code = program.wait();
    let state = match managing {
        Ok((worker, server)) => {
            drop(server);
            stop(worker, &notes)
        }
        Err(failure) => {
            note(&notes, &failure.to_string());
            None
        }
    };
    let profiles = learnt(profiling, state.as_ref(), &notes);
    // Put the global mode back before saying anything.
    drop(fault);
    let notes = std::mem::take(&mut *notes.lock().unwrap_or_else(PoisonError::into_inner));
    finish(args, report_file, state, profiles, notes, code);
    Ok(ExitCode::from(code))
}

fn settings(args: &Run) -> Settings {
    Settings {
        policy: args.policy.policy.clone(),
        parameters: args.policy.parameters.iter().cloned().collect(),
        interval: args.bounds.budgets.interval,
        budgets: args.bounds.budgets.budgets(),
        lock_bound: args.bounds.lock_bound,
        coverage: args.coverage,
        coverage_of: args.coverage_of.clone(),
    }
}

/// Where profiles of programs are kept, if this run has to do with them.
fn profiles(args: &Run) -> Option<Store> {
    let by_profile = args.fault == cli::Fault::Auto && !args.dry_run;
    by_profile.then(Store::find).flatten()
}

/// Learns from the run. What goes wrong disturbs nothing else.
fn learnt(
    profiling: Option<Result<Profiling, Failure>>,
    state: Option<&ManagerStatus>,
    notes: &Notes,
) -> Vec<ProfileUse> {
    let measured = state.map(measured).into_iter().flatten();
    let saved = measured.map(|(pid, gain)| (pid, gain.saved_share));
    let (profiles, lines) = match profiling {
        None => return Vec::new(),
        Some(Ok(profiling)) => profiling.finish(&saved.collect()),
        Some(Err(failure)) => (Vec::new(), vec![failure.to_string()]),
    };
    lines.iter().for_each(|line| note(notes, line));
    profiles
}

/// Creates the report's file before the program starts, so that a path that cannot be written is found out at once.
fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| {
        Failure::Failed(format!(
            "cannot write the report to {}: {error}",
            path.display()
        ))
    })
}

/// The program and its arguments.
fn words(args: &Run) -> impl Iterator<Item = String> {
    let words = args.command.iter();
    words.map(|word| word.to_string_lossy().into_owned())
}

/// The recording that was asked for. Its file is created before the program starts, as the report's.
fn tape(host: &Arc<Host>, args: &Run, settings: &Settings) -> Result<Option<Tape>, Failure> {
    let Some(path) = &args.record else {
        return Ok(None);
    };
    let subject: Vec<String> = words(args).collect();
    let header = recording::managed_header(host, &subject.join(" "), settings);
    let file = recording::create(path)?;
    let tape = Tape::begin(
        Arc::clone(host),
        path,
        file,
        header,
        &Shared::open(host, false),
    );
    tape.map(Some).map_err(|error| {
        let path = path.display();
        Failure::Failed(format!("cannot begin the recording in {path}: {error}"))
    })
}

fn manage(
    host: Arc<Host>,
    run_dir: &RunDir,
    args: &Run,
    (settings, tape): (Settings, Option<Tape>),
    fault: Fault,
    started: Duration,
    notes: &Notes,
) -> Result<(Worker, Server), Failure> {
    let command = words(args).collect();
    let mut manager = Manager::new(host, Mode::Run { command }, fault, started)?;
    manager.manage_descendants(settings)?;
    if let Some(tape) = tape {
        manager.record(tape);
    }
    let place = Arc::clone(notes);
    let tell = Box::new(move |change: &Change, line: &str| {
        if change.is_trouble() {
            note(&place, line);
        }
    });
    let worker = Worker::start(manager, None, tell, PATIENCE, || {})?;
    match Server::start(run_dir, worker.published(), None) {
        Ok(server) => Ok((worker, server)),
        Err(failure) => {
            // The manager puts back what it changed globally.
            worker.stop()?;
            Err(failure)
        }
    }
}

fn stop(worker: Worker, notes: &Notes) -> Option<ManagerStatus> {
    let latest = worker.published();
    match worker.stop() {
        Ok(status) => Some(status),
        Err(failure) => {
            note(notes, &failure.to_string());
            Some(latest.status())
        }
    }
}

fn note(notes: &Notes, line: &str) {
    notes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(line.to_owned());
}

fn finish(
    args: &Run,
    report_file: Option<File>,
    state: Option<ManagerStatus>,
    profiles: Vec<ProfileUse>,
    notes: Vec<String>,
    exit_status: u8,
) {
    if !args.quiet {
        for line in &notes {
            output::say(line);
        }
    }
    let Some(state) = state else { return };
    if !args.quiet {
        output::say(&summary(&state));
        let used = profiles.iter().filter_map(ProfileUse::in_words);
        used.for_each(|line| output::say(&line));
    }
    if let (Some(mut file), Some(path)) = (report_file, &args.report) {
        let report = RunReport {
            version: VERSION,
            exit_status,
            notes,
            profiles,
            state,
        };
        let text = output::json(&report);
        let written = text.and_then(|text| {
            file.write_all(text.as_bytes())
                .map_err(|error| Failure::Failed(error.to_string()))
        });
        if let Err(failure) = written {
            output::say(&format!(
                "cannot write the report to {}: {failure}",
                path.display()
            ));
        }
    }
}

/// A few lines on what was done.
fn summary(state: &ManagerStatus) -> String {
    let policy = state
        .groups
        .first()
        .map_or("", |group| group.policy.as_str());
    let nothing = Actions::default();
    let actions = state.actions().next().unwrap_or(&nothing);
    let mut lines = vec![format!(
        "{} regions promoted, {} demoted, in {} observations (policy {policy}, tracker {})",
        actions.done[ActionKind::Promote],
        actions.done[ActionKind::Demote],
        actions.steps,
        state.tracker
    )];
    lines.extend(actions.giant_in_words());
    if state.dry_run {
        lines.push(format!(
            "dry run: would have promoted {} and demoted {}",
            actions.left_out[ActionKind::Promote],
            actions.left_out[ActionKind::Demote]
        ));
        let giant = [
            ActionKind::PromoteGiant,
            ActionKind::DemoteGiant,
            ActionKind::FreeZero,
        ]
        .map(|kind| actions.left_out[kind]);
        if giant.iter().any(|&spans| spans > 0) {
            let [promoted, demoted, searched] = giant;
            lines.push(format!(
                "dry run: would have promoted {promoted} spans to giant pages, demoted {demoted} and searched {searched} for zero-filled huge pages"
            ));
        }
    }
    lines.extend(actions.failures.in_words());
    lines.push(format!(
        "memory given back {}, copied {}, exchanged by the host {}, added by promotion {}",
        bytes::format(actions.bytes_given_back),
        bytes::format(actions.bytes_copied),
        bytes::format(actions.bytes_exchanged),
        bytes::format(actions.bloat_bytes_added)
    ));
    let exchange = state.exchange.as_ref().filter(|all| all.requests > 0);
    lines
        .extend(exchange.map(|all| format!("on this machine since its start: {}", all.in_words())));
    lines.extend(sizes_in_words(state.host_page, false));
    lines.extend(gains(state));
    lines.push(format!(
        "manager CPU {:.3} s in {:.1} s ({:.2} % of one core), memory {}",
        state.manager.cpu_seconds,
        state.uptime_seconds,
        state.manager.cpu_share * 100.0,
        bytes::format(state.manager.resident)
    ));
    lines.join("\n")
}

/// The processes whose gain was measured, of those that were there at the last observation.
fn measured(state: &ManagerStatus) -> impl Iterator<Item = (u32, GainReport)> {
    let processes = state.groups.iter().flat_map(|group| &group.processes);
    processes.filter_map(|process| Some((process.pid, process.gain?)))
}

/// What huge pages saved the processes that they saved most, as it was measured before they were made.
fn gains(state: &ManagerStatus) -> impl Iterator<Item = String> {
    const TOLD: usize = 3;
    let mut gains: Vec<(u32, GainReport)> = measured(state).collect();
    gains.sort_by(|(_, one), (_, other)| {
        let saved = |gain: &GainReport| gain.saved_cpus().value;
        saved(other).total_cmp(&saved(one))
    });
    gains.into_iter().take(TOLD).map(|(pid, gain)| {
        format!(
            "huge pages save process {pid} {}, as was measured",
            gain.in_words()
        )
    })
}
