//! `[metrics]`: where metrics can be had, and how many series they have.

use std::path::PathBuf;

use toml::de::DeValue;

use super::reader::{self, ConfigError, TableReader};

/// Cgroups that are told apart where nothing else is said. A node of Kubernetes has a few hundred.
const DEFAULT_MAX_CGROUPS: usize = 1000;

/// How metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// The Unix socket to make; `None` for no other sockets than those of the service manager.
    pub(crate) socket: Option<PathBuf>,
    /// Cgroups that are told apart, at most.
    pub(crate) max_cgroups: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            socket: None,
            max_cgroups: DEFAULT_MAX_CGROUPS,
        }
    }
}

impl Metrics {
    /// Takes over what a table says, key by key.
    pub(super) fn read(&mut self, reader: &mut TableReader<'_>) -> Result<(), ConfigError> {
        if let Some(socket) = reader.optional("socket", socket)? {
            self.socket = Some(socket);
        }
        if let Some(most) = reader.optional("max_cgroups", max_cgroups)? {
            self.max_cgroups = most;
        }
        Ok(())
    }
}

fn socket(value: &DeValue<'_>) -> Result<PathBuf, String> {
    let path = PathBuf::from(reader::string(value)?);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!(
            "'{}' is not an absolute path; start it with '/'",
            path.display()
        ))
    }
}

fn max_cgroups(value: &DeValue<'_>) -> Result<usize, String> {
    let refused = || "must be a whole number, from 0 to 100000".to_owned();
    let number = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse(),
        _ => return Err(refused()),
    };
    number
        .ok()
        .filter(|number| *number <= 100_000)
        .ok_or_else(refused)
}
