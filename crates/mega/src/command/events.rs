//! `mega events`: what has changed, as the running managers tell it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::cli::Events;
use crate::control::{self, News, Place};
use crate::events::Event;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;
use crate::utc;

/// How often a manager that has started is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// Lines that wait to be printed. A reader that is slower holds up the stream, and is told what it missed.
const WAITING: usize = 64;

pub(super) fn run(args: &Events) -> Result<ExitCode, Failure> {
    match args.follow {
        true => follow(args.json),
        false => show(args.json),
    }
}

/// One line of `--json`.
#[derive(Serialize)]
struct Line {
    version: u32,
    /// The manager's pid.
    manager: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
}

fn show(json: bool) -> Result<ExitCode, Failure> {
    let (mut all, mut any, mut complete) = (Vec::new(), false, true);
    for place in control::managers()? {
        let taken = control::follow(&place, false, |news| {
            all.push((place.manager, news));
            true
        });
        match taken {
            Ok(lives) => any |= lives,
            Err(reason) => {
                output::say(&format!("mega {}: {reason}", place.manager));
                (any, complete) = (true, false);
            }
        }
    }
    if !any {
        let line = "no `mega daemon` and no `mega run` is running";
        return Err(Failure::Failed(line.to_owned()));
    }
    // What was missed came before all else.
    all.sort_by(|(_, one), (_, other)| time(one).total_cmp(&time(other)));
    let lines = all.iter().map(|(manager, news)| line(*manager, news, json));
    output::print(&lines.collect::<Result<String, _>>()?)?;
    Ok(ExitCode::from(u8::from(!complete)))
}

fn time(news: &News) -> f64 {
    match news {
        News::Event(event) => event["time"].as_f64().unwrap_or(0.0),
        News::Missed(_) => 0.0,
    }
}

/// Prints until the reader goes away.
fn follow(json: bool) -> Result<ExitCode, Failure> {
    let (sender, lines) = sync_channel(WAITING);
    let (mut followed, mut waits) = (BTreeSet::new(), false);
    loop {
        for place in control::managers()? {
            if followed.insert(place.clone()) {
                listen(place, sender.clone())?;
            }
        }
        if followed.is_empty() && !std::mem::replace(&mut waits, true) {
            output::say("no `mega daemon` and no `mega run` is running yet");
        }
        let told = match lines.recv_timeout(LOOK) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
        };
        match told {
            Told::News(manager, news) => {
                if !print(&line(manager, &news, json)?)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Told::Ended(place, reason) => {
                if let Some(reason) = reason {
                    output::say(&format!("mega {}: {reason}", place.manager));
                }
                // Where the socket is still there, the next look tries it again.
                followed.remove(&place);
            }
        }
    }
}

/// What a listening thread says.
enum Told {
    News(u32, News),
    /// It listens no longer: the manager has ended, or refused for this reason.
    Ended(Place, Option<String>),
}

/// Listens to a manager on a thread of its own.
fn listen(place: Place, sender: SyncSender<Told>) -> Result<(), Failure> {
    let started = std::thread::Builder::new().spawn(move || {
        let manager = place.manager;
        let ended = control::follow(&place, true, |news| {
            sender.send(Told::News(manager, news)).is_ok()
        });
        // Not to ask one that refuses without a pause.
        std::thread::sleep(LOOK);
        let _ = sender.send(Told::Ended(place, ended.err()));
    });
    started
        .map(drop)
        .map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))
}

/// Prints at once. Returns whether somebody still reads.
fn print(text: &str) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

fn line(manager: u32, news: &News, json: bool) -> Result<String, Failure> {
    if json {
        let (event, missed) = match news {
            News::Event(event) => (Some(event.clone()), None),
            News::Missed(missed) => (None, Some(*missed)),
        };
        let line = Line {
            version: VERSION,
            manager,
            event,
            missed,
        };
        return serde_json::to_string(&line)
            .map(|text| text + "\n")
            .map_err(|error| Failure::Failed(format!("cannot write JSON: {error}")));
    }
    Ok(match news {
        News::Missed(missed) => format!("{missed} earlier events are gone\n"),
        News::Event(event) => in_words(event) + "\n",
    })
}

/// An event in one line; one that only a newer mega knows, as it came.
fn in_words(event: &Value) -> String {
    match serde_json::from_value::<Event>(event.clone()) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(event) => format!(
            "{}  {}",
            utc::in_words(event.time as u64),
            event.change.in_words()
        ),
        Err(_) => event.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_only_a_newer_mega_knows_is_passed_on() {
        let event = json!({"sequence": 1, "time": 5.0, "event": "reloaded", "selections": 3});
        assert_eq!(
            in_words(&event),
            "1970-01-01 00:00:05 UTC  reloaded: managing 3 selections"
        );
        let newer = json!({"sequence": 2, "time": 6.0, "event": "dreamt", "of": "sheep"});
        assert_eq!(in_words(&newer), newer.to_string());
        let news = News::Event(newer.clone());
        let text = line(7, &news, true).expect("JSON");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, json!({"version": 1, "manager": 7, "event": newer}));
        assert_eq!(
            line(7, &News::Missed(4), false).expect("a line"),
            "4 earlier events are gone\n"
        );
    }
}
