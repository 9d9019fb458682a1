//! `/sys/fs/hzmem/ranges`: the memory that the module owns.

use std::path::Path;

use mega_core::HUGE_PAGE_SIZE;
use serde::Serialize;

use super::{names, number, root, text, value};
use crate::Error;
use crate::kernel::Kernel;

/// Where a range came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Kept from the kernel at boot (`memmap=`).
    Boot,
    /// Taken from the kernel while it ran.
    Added,
}

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Its first address. `None` without the privilege to see it: only root sees physical addresses.
    pub start: Option<u64>,
    /// Its size in bytes.
    pub size: u64,
    /// Its NUMA node.
    pub node: u32,
    /// Where it came from.
    pub origin: Origin,
    /// Bytes of it in free huge pages.
    pub free: u64,
}

/// Every range, by address. One that goes away while it is read is left out.
pub(super) fn read(kernel: &dyn Kernel) -> Result<Vec<Range>, Error> {
    let folder = root("ranges");
    let mut ranges = Vec::new();
    for name in names(kernel, &folder)? {
        let folder = folder.join(name);
        match read_one(kernel, &folder) {
            Ok(range) => ranges.push(range),
            Err(_) if names(kernel, &folder)?.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    ranges.sort_unstable_by_key(|range| range.start);
    Ok(ranges)
}

fn read_one(kernel: &dyn Kernel, folder: &Path) -> Result<Range, Error> {
    Ok(Range {
        start: read_start(kernel, &folder.join("start"))?,
        size: value(kernel, &folder.join("bytes"))?,
        node: value(kernel, &folder.join("node"))?,
        origin: read_origin(kernel, &folder.join("origin"))?,
        free: value::<u64>(kernel, &folder.join("free"))?.saturating_mul(HUGE_PAGE_SIZE),
    })
}

fn read_start(kernel: &dyn Kernel, path: &Path) -> Result<Option<u64>, Error> {
    let text = match text(kernel, path) {
        Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EACCES) => {
            return Ok(None);
        }
        text => text?,
    };
    number(text.trim())
        .map(Some)
        .ok_or_else(|| malformed(path, &text, "an address"))
}

fn read_origin(kernel: &dyn Kernel, path: &Path) -> Result<Origin, Error> {
    let text = text(kernel, path)?;
    match text.trim() {
        "boot" => Ok(Origin::Boot),
        "added" => Ok(Origin::Added),
        _ => Err(malformed(path, &text, "`boot` or `added`")),
    }
}

fn malformed(path: &Path, text: &str, wanted: &str) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        reason: format!("holds not {wanted}, but {:?}", text.trim()),
    }
}
