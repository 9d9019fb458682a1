//! The asking side.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mega_linux::run_dir::RunDir;

use super::{Command, LONGEST_LINE, Place, Request, Response, folder};
use crate::exit::Failure;
use crate::history::DayReport;
use crate::report::{ManagerStatus, ProcessDetail};

/// How long a manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks every running manager what it sees and does. Returns the answers by pid, and why the others did not answer.
///
/// # Errors
/// [`Failure::Missing`] where the run directory may not be looked into.
pub(crate) fn ask_everyone() -> Result<(Vec<ManagerStatus>, Vec<String>), Failure> {
    let mut answers = Vec::new();
    let mut failures = Vec::new();
    for path in sockets()? {
        match ask_for_status(&path) {
            Ok(Some(status)) => answers.push(status),
            Ok(None) => {}
            Err(reason) => failures.push(format!("{}: {reason}", path.display())),
        }
    }
    answers.sort_by_key(|status| status.pid);
    Ok((answers, failures))
}

/// Asks the manager with this pid for a close look at one of its processes.
///
/// # Errors
/// In words: there is no such manager, it does not manage the process, or it does not answer.
pub(crate) fn ask_for_process(manager: u32, pid: u32) -> Result<ProcessDetail, String> {
    let name = format!("{manager}.sock");
    let places = RunDir::locations().into_iter();
    let mut paths = places.map(|place| folder(&place).join(&name));
    // Whether one may look there or not: another one is no better.
    let path = paths
        .find(|path| path.exists())
        .ok_or("the manager has ended")?;
    let request = Request {
        pid: Some(pid),
        ..Request::of(Command::Process)
    };
    let response = ask(&path, &request)?.ok_or("the manager has ended")?;
    match (response.process, response.error) {
        (Some(process), _) => Ok(process),
        (None, reason) => Err(reason.unwrap_or_else(|| "an empty answer".to_owned())),
    }
}

/// Asks these managers for their last day. Returns the answers, and why the others did not answer.
pub(crate) fn ask_for_history(managers: &[Place]) -> (Vec<DayReport>, Vec<String>) {
    let (mut days, mut failures) = (Vec::new(), Vec::new());
    for place in managers {
        match ask(&place.path, &Request::of(Command::History)) {
            Ok(None) => {}
            Ok(Some(Response {
                history: Some(day), ..
            })) => days.push(day),
            Ok(Some(response)) => {
                let reason = response
                    .error
                    .unwrap_or_else(|| "an empty answer".to_owned());
                failures.push(format!("mega {}: {reason}", place.manager));
            }
            Err(reason) => failures.push(format!("mega {}: {reason}", place.manager)),
        }
    }
    (days, failures)
}

/// The sockets of all managers that may be asked: the user's own, and root's.
///
/// # Errors
/// [`Failure::Missing`] where there are none but perhaps in a directory that may not be looked into.
pub(super) fn sockets() -> Result<Vec<PathBuf>, Failure> {
    let (mut found, mut refused) = (Vec::new(), None);
    for place in RunDir::locations() {
        match sockets_in(&folder(&place)) {
            Ok(paths) => found.extend(paths),
            Err(failure @ Failure::Missing(_)) => refused = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    match refused {
        Some(failure) if found.is_empty() => Err(failure),
        _ => Ok(found),
    }
}

/// The sockets in the folder.
///
/// # Errors
/// [`Failure::Missing`] where it may not be looked into.
fn sockets_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let refused = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => Failure::Missing(format!(
            "not permitted to look into {}: ask as root, or have the administrator name a group of yours in the daemon's configuration (`status_group`)",
            folder.display()
        )),
        _ => Failure::Failed(format!("cannot list {}: {error}", folder.display())),
    };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(refused)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(refused));
    let is_socket = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "sock")
    };
    paths
        .filter(|path| !path.as_ref().is_ok_and(|path| !is_socket(path)))
        .collect()
}

/// The status of the manager at `path`; `None` where there is none any more.
fn ask_for_status(path: &Path) -> Result<Option<ManagerStatus>, String> {
    let Some(response) = ask(path, &Request::of(Command::Status))? else {
        return Ok(None);
    };
    match (response.status, response.error) {
        (Some(status), _) => Ok(Some(status)),
        (None, reason) => Err(reason.unwrap_or_else(|| "an empty answer".to_owned())),
    }
}

/// The answer of the manager at `path`; `None` where there is none any more.
fn ask(path: &Path, request: &Request) -> Result<Option<Response>, String> {
    let Some(stream) = connect(path)? else {
        return Ok(None);
    };
    let line = exchange(&stream, request).map_err(|error| format!("no answer: {error}"))?;
    serde_json::from_str(&line)
        .map(Some)
        .map_err(|error| format!("not an answer of this version: {error}"))
}

/// A connection to the manager at `path`; `None` where there is none any more.
pub(super) fn connect(path: &Path) -> Result<Option<UnixStream>, String> {
    match UnixStream::connect(path) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionRefused | ErrorKind::NotFound
            ) =>
        {
            Ok(None)
        }
        stream => stream
            .map(Some)
            .map_err(|error| format!("cannot connect: {error}")),
    }
}

fn exchange(stream: &UnixStream, request: &Request) -> std::io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    let mut writer = stream;
    writer.write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_line(&mut line)?;
    Ok(line)
}
