//! The machine's memory, from `/proc/meminfo`.

use std::fs;

use mega_linux::observe::memory::meminfo_bytes;

use crate::error::Error;

const PATH: &str = "/proc/meminfo";

/// Bytes of memory that programs can have without swapping (`MemAvailable`).
///
/// # Errors
/// When `/proc/meminfo` cannot be read or does not tell.
pub fn available() -> Result<u64, Error> {
    field("MemAvailable")
}

/// Bytes of all processes' anonymous memory that huge pages map (`AnonHugePages`). Unlike [`crate::resident::of`] it
/// walks no page tables, so it takes nothing from a program whose speed is measured.
///
/// # Errors
/// When `/proc/meminfo` cannot be read or does not tell.
pub fn anonymous_huge() -> Result<u64, Error> {
    field("AnonHugePages")
}

fn field(name: &str) -> Result<u64, Error> {
    let text = fs::read(PATH).map_err(|e| Error::io(format!("reading {PATH}"), e))?;
    meminfo_bytes(&text, name).ok_or_else(|| Error::Failed(format!("{PATH} has no {name} line")))
}
