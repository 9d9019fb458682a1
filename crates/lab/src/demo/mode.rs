//! The three ways in which the program runs.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::error::Error;
use crate::programs;

/// How the program gets its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// No huge pages (`PR_SET_THP_DISABLE`).
    Base,
    /// The global mode `always`: huge at fault wherever a region fits.
    ThpAlways,
    /// `mega run` with its default policy, faults taking base pages.
    Mega,
}

impl Mode {
    pub(super) const ALL: [Mode; 3] = [Mode::Base, Mode::ThpAlways, Mode::Mega];

    /// As people read it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Base => "base pages",
            Mode::ThpAlways => "THP always",
            Mode::Mega => "mega",
        }
    }

    /// The command that runs the workload with these arguments so. The manager writes what it did to `report`.
    ///
    /// # Errors
    /// Where this program or mega cannot be found.
    pub(super) fn command(self, report: &Path, workload: &[String]) -> Result<Command, Error> {
        let own = programs::own()?;
        let mut command = if self == Mode::Mega {
            let mut command = Command::new(programs::mega()?);
            command
                .args(["run", "--interval", "1s", "--fault", "base", "--report"])
                .arg(report)
                .arg("--")
                .arg(own);
            command
        } else {
            Command::new(own)
        };
        command.args(["workload", "mixed", "--json"]).args(workload);
        if self == Mode::Base {
            command.arg("--no-huge-pages");
        }
        Ok(command)
    }
}
