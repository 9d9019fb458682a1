//! How much memory there is to use.

use std::fs;

use mega_linux::observe::memory::meminfo_bytes;

use crate::error::Error;

/// `MemAvailable` in bytes.
///
/// # Errors
/// When `/proc/meminfo` cannot be read or does not tell.
pub fn bytes() -> Result<u64, Error> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).map_err(|e| Error::io(format!("reading {path}"), e))?;
    meminfo_bytes(text.as_bytes(), "MemAvailable")
        .ok_or_else(|| Error::Failed(format!("{path} has no MemAvailable line")))
}
