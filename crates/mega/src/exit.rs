//! How the program ends: the exit codes, and the errors that carry one.

use std::process::ExitCode;

/// Why a command stopped, in one line, and the exit code that says so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// mega tried and failed: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The command line is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// A kernel feature or a privilege is missing: exit code 3.
    #[error("{0}")]
    Missing(String),
    /// The program to run could not be executed: exit code 126, as env(1) has it.
    #[error("{0}")]
    NotExecutable(String),
    /// The program to run was not found: exit code 127, as env(1) has it.
    #[error("{0}")]
    NotFound(String),
}

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Missing(_) => 3,
            Failure::NotExecutable(_) => 126,
            Failure::NotFound(_) => 127,
        })
    }
}

impl From<mega_linux::Error> for Failure {
    fn from(error: mega_linux::Error) -> Self {
        match error.exit_kind() {
            mega_linux::error::ExitKind::Missing => Failure::Missing(error.to_string()),
            mega_linux::error::ExitKind::Failed => Failure::Failed(error.to_string()),
        }
    }
}

impl From<mega_linux::process::claim::ClaimError> for Failure {
    fn from(error: mega_linux::process::claim::ClaimError) -> Self {
        match error {
            mega_linux::process::claim::ClaimError::Other(error) => error.into(),
            held @ mega_linux::process::claim::ClaimError::Held { .. } => {
                Failure::Failed(held.to_string())
            }
        }
    }
}

impl From<mega_core::promotion::BuildError> for Failure {
    fn from(error: mega_core::promotion::BuildError) -> Self {
        Failure::Usage(format!("{error}; see `mega policies`"))
    }
}
