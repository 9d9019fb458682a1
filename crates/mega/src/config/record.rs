//! `[record]`: where a daemon records its selections.

use std::path::PathBuf;

use mega_linux::state_dir;

use super::reader::{self, ConfigError, TableReader};
use crate::value;

/// The folder in the state directory where nothing else is said.
const FOLDER: &str = "recordings";

/// Where a daemon records its selections, and how much it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Bytes that each selection may have.
    pub(crate) size: u64,
}

/// What `[record]` of some files says.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenRecord {
    folder: Option<PathBuf>,
    size: Option<u64>,
}

impl WrittenRecord {
    /// Takes over what a table says, key by key.
    pub(super) fn read(&mut self, reader: &mut TableReader<'_>) -> Result<(), ConfigError> {
        if let Some(folder) = reader.optional("folder", reader::absolute_path)? {
            self.folder = Some(folder);
        }
        if let Some(size) = reader.optional("size", |value| {
            value::recording_bytes(reader::string(value)?)
        })? {
            self.size = Some(size);
        }
        Ok(())
    }

    /// `None` where nothing is to be recorded.
    ///
    /// # Errors
    /// In words, where a folder is named and no size, or none can be told.
    pub(super) fn finish(self) -> Result<Option<Record>, String> {
        let size = match (self.size, &self.folder) {
            (Some(size), _) => size,
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err("[record] needs a size, as size = \"256MiB\"".to_owned()),
        };
        let folder = self
            .folder
            .or_else(|| Some(state_dir::location()?.join(FOLDER)));
        let folder = folder.ok_or("[record] needs a folder: there is no state directory here")?;
        Ok(Some(Record { folder, size }))
    }
}
