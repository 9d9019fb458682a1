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

/// Bytes that all processes' anonymous memory holds (`Active(anon)` and `Inactive(anon)`): of a huge page all, also where its
/// program has given pages of it back and the kernel has not broken it up yet. Those are resident nowhere.
///
/// # Errors
/// When `/proc/meminfo` cannot be read or does not tell.
pub fn anonymous() -> Result<u64, Error> {
    Ok(field("Active(anon)")? + field("Inactive(anon)")?)
}

fn field(name: &str) -> Result<u64, Error> {
    let text = fs::read(PATH).map_err(|e| Error::io(format!("reading {PATH}"), e))?;
    meminfo_bytes(&text, name).ok_or_else(|| Error::Failed(format!("{PATH} has no {name} line")))
}
