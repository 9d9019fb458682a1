//! Runs a program to its end and keeps what it says.

use std::process::{Command, Stdio};

use crate::error::Error;

/// Runs a program to its end and takes in what it says.
///
/// # Errors
/// When it cannot be started or fails.
pub(crate) fn output_of(command: &mut Command) -> Result<String, Error> {
    let program = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io(format!("running {program}"), e))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::Failed(format!(
        "{program} failed, {}: {} {}",
        output.status,
        said.trim(),
        errors.trim()
    )))
}
