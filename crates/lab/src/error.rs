//! Why an experiment could not run.

use std::io;

/// Why a workload or the demo stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel, the privileges or the memory of this machine do not allow it.
    #[error("{0}")]
    Missing(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// Reading or writing failed.
    #[error("{attempted}: {source}")]
    Io {
        /// What was attempted, on what.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// An [`Error::Io`].
    pub fn io(attempted: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io {
            attempted: attempted.into(),
            source: source.into(),
        }
    }

    /// An error of the live machine as one of ours: what needs a privilege is missing, not failed. `why` says what the
    /// privilege is needed for.
    pub(crate) fn from_linux(error: &mega_linux::Error, why: &str) -> Self {
        let refused = match error {
            mega_linux::Error::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ),
            _ => false,
        };
        if refused || error.exit_kind() == mega_linux::error::ExitKind::Missing {
            return Error::Missing(format!(
                "{error} ({why}: run it as root; `mega doctor` shows all it needs)"
            ));
        }
        Error::Failed(error.to_string())
    }

    /// The exit code of a command that ends with it: 3 when something is missing, otherwise 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Missing(_) => 3,
            Error::Failed(_) | Error::Io { .. } => 1,
        }
    }
}
