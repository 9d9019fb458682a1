//! `[exchange]`: where the daemon serves this host's guests.

use std::path::PathBuf;

use super::reader::{self, ConfigError, TableReader};

/// Where the daemon serves guests by exchanging what is behind their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The socket on which VMMs ask for it.
    pub(crate) socket: PathBuf,
    /// The group whose members may connect too; `None` for nobody but the daemon's user.
    pub(crate) group: Option<u32>,
}

/// What `[exchange]` of some files says.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenExchange {
    socket: Option<PathBuf>,
    group: Option<u32>,
}

impl WrittenExchange {
    /// Takes over what a table says, key by key.
    pub(super) fn read(&mut self, reader: &mut TableReader<'_>) -> Result<(), ConfigError> {
        if let Some(socket) = reader.optional("socket", reader::absolute_path)? {
            self.socket = Some(socket);
        }
        if let Some(group) = reader.optional("group", super::load::group)? {
            self.group = Some(group);
        }
        Ok(())
    }

    /// `None` where no guests are to be served.
    ///
    /// # Errors
    /// In words, where a group is named and no socket.
    pub(super) fn finish(self) -> Result<Option<Exchange>, String> {
        match (self.socket, self.group) {
            (Some(socket), group) => Ok(Some(Exchange { socket, group })),
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err("[exchange] needs a socket, as socket = \"/run/mega/exchange.sock\"".to_owned())
            }
        }
    }
}
