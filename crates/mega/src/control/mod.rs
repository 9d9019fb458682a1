//! The control socket: one line of JSON asks, one line of JSON answers. `docs/interfaces.md` describes it.
//!
//! Every manager listens on `control/PID.sock` in the run directory. Only the owner may use directory and socket, and
//! only root and the owner get an answer; and the members of a group, where the daemon's configuration names one.

mod client;
mod feed;
mod follow;
mod server;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::events::Event;
use crate::history::DayReport;
use crate::report::{ManagerStatus, ProcessDetail};

pub(crate) use client::{ask_everyone, ask_for_history, ask_for_process};
pub(crate) use follow::{News, Place, follow, managers};
pub(crate) use server::Server;

/// The longest line that is read, in bytes. A status of thousands of processes fits.
const LONGEST_LINE: u64 = 16 << 20;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    version: u32,
    command: Command,
    /// Which process is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Of events, those after the one with this sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    /// Whether events are sent for as long as the client listens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    follow: bool,
}

impl Request {
    /// A question that needs no more than the command.
    fn of(command: Command) -> Self {
        Request {
            version: crate::report::VERSION,
            command,
            pid: None,
            after: None,
            follow: false,
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// What the manager sees and does.
    Status,
    /// A close look at one process.
    Process,
    /// What has changed: one line for each event, not one for all.
    Events,
    /// The last day.
    History,
}

/// The answer, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Response {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ManagerStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<DayReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
    /// How many events are gone that were not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The folder of the sockets.
fn folder(run_dir: &Path) -> PathBuf {
    run_dir.join("control")
}
