//! `[metrics]`: where metrics can be had, and how many series they have.

use std::net::SocketAddr;
use std::path::PathBuf;

use toml::de::DeValue;

use super::reader::{self, ConfigError, TableReader};

/// Cgroups that are told apart where nothing else is said. A node of Kubernetes has a few hundred.
const DEFAULT_MAX_CGROUPS: usize = 1000;

/// How metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// The Unix socket to make; `None` for none.
    pub(crate) socket: Option<PathBuf>,
    /// The TCP port to open; `None` for none.
    pub(crate) address: Option<SocketAddr>,
    /// Cgroups that are told apart, at most.
    pub(crate) max_cgroups: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            socket: None,
            address: None,
            max_cgroups: DEFAULT_MAX_CGROUPS,
        }
    }
}

impl Metrics {
    /// Takes over what a table says, key by key.
    pub(super) fn read(&mut self, reader: &mut TableReader<'_>) -> Result<(), ConfigError> {
        if let Some(socket) = reader.optional("socket", reader::absolute_path)? {
            self.socket = Some(socket);
        }
        if let Some(address) = reader.optional("address", address)? {
            self.address = Some(address);
        }
        if let Some(most) = reader.optional("max_cgroups", max_cgroups)? {
            self.max_cgroups = most;
        }
        Ok(())
    }
}

fn address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let text = reader::string(value)?;
    text.parse().map_err(|_| {
        format!("'{text}' is not an address with a port; write it as \"127.0.0.1:9782\"")
    })
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
