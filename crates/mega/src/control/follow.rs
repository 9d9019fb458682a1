//! The client's side of events.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::client::{connect, sockets};
use super::{Command, LONGEST_LINE, Request};
use crate::exit::Failure;

/// How long a manager may take to read the question.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a manager can be asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The manager's pid, as the socket's name has it.
    pub(crate) manager: u32,
    pub(super) path: PathBuf,
}

/// What a manager sends. Fields and events that a newer one adds are passed on as they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    Event(Value),
    /// So many events are gone that were not read in time.
    Missed(u64),
}

/// The running managers, and sockets that killed ones left.
///
/// # Errors
/// [`Failure::Missing`] where the run directory may not be looked into.
pub(crate) fn managers() -> Result<Vec<Place>, Failure> {
    let paths = sockets()?;
    let place = |path: PathBuf| {
        let manager = path.file_stem()?.to_str()?.parse().ok()?;
        Some(Place { manager, path })
    };
    Ok(paths.into_iter().filter_map(place).collect())
}

/// Reads a manager's events, all that it keeps; with `follow` also those to come, until it ends. Hands each to `take`, which
/// returns whether it wants more. Returns whether there is a manager.
///
/// # Errors
/// In words, where the manager does not answer or refuses.
pub(crate) fn follow(
    place: &Place,
    follow: bool,
    mut take: impl FnMut(News) -> bool,
) -> Result<bool, String> {
    let Some(stream) = connect(&place.path)? else {
        return Ok(false);
    };
    let request = Request {
        follow,
        ..Request::of(Command::Events)
    };
    let asked = stream
        .set_write_timeout(Some(PATIENCE))
        .and_then(|()| serde_json::to_string(&request).map_err(Into::into))
        .and_then(|text| (&stream).write_all((text + "\n").as_bytes()));
    asked.map_err(|error| format!("cannot ask: {error}"))?;
    let mut lines = BufReader::new(&stream);
    loop {
        let mut line = String::new();
        let read = (&mut lines).take(LONGEST_LINE).read_line(&mut line);
        match read.map_err(|error| format!("no answer: {error}"))? {
            0 => return Ok(true),
            _ if take(parsed(&line)?) => {}
            _ => return Ok(true),
        }
    }
}

fn parsed(line: &str) -> Result<News, String> {
    let other = |error| format!("not an answer of this version: {error}");
    let mut line: Value = serde_json::from_str(line).map_err(other)?;
    if let Some(reason) = line["error"].as_str() {
        return Err(reason.to_owned());
    }
    match line["missed"].as_u64() {
        Some(missed) => Ok(News::Missed(missed)),
        None => Ok(News::Event(line["event"].take())),
    }
}
