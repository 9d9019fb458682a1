//! The control socket: one line of JSON asks, one line of JSON answers. `docs/interfaces.md` describes it.
//!
//! Every manager listens on `control/PID.sock` in the run directory. Only the owner may use directory and socket, and
//! only root and the owner get an answer.

mod client;
mod server;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report::ManagerStatus;

pub(crate) use client::ask_everyone;
pub(crate) use server::Server;

/// The longest line that is read, in bytes. A status of thousands of processes fits.
const LONGEST_LINE: u64 = 16 << 20;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    version: u32,
    command: Command,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// What the manager sees and does.
    Status,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Response {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ManagerStatus>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The folder of the sockets.
fn folder(run_dir: &Path) -> PathBuf {
    run_dir.join("control")
}
