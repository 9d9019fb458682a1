//! `/sys/fs/hzmem/mounts`: the options of each mount, what it holds, and what it has done.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::mount_points::{self, MountPoints};
use super::{Hzmem, root};
use crate::Error;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The filesystem's device number, as in `/proc/self/mountinfo`: "0:45".
    pub device: String,
    /// Where it is mounted, as this process sees it; none where that is in another mount namespace.
    pub mount_points: Vec<PathBuf>,
    /// Its options.
    pub settings: Settings,
    /// What it holds now.
    pub held: Held,
    /// What happened since it was mounted.
    pub counts: Counts,
}

/// The options of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Bytes that its files may hold; `None` for no limit.
    pub size: Option<u64>,
    /// The share of a node's memory in use, in percent, from which cold pages are looked for and compressed.
    pub watermark: u8,
    /// Milliseconds from one look for cold pages to the next.
    pub period_ms: u64,
    /// The algorithm; `none` where nothing is compressed.
    pub compress: String,
    /// The one NUMA node that its memory comes from; `None` for any.
    pub node: Option<u32>,
    /// Neighbours that are decompressed ahead.
    pub readahead: u32,
    /// Bytes of base pages that compressed data may take; `None` for no limit.
    pub compressed_limit: Option<u64>,
}

/// What a mount holds. All sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// In huge pages.
    pub resident: u64,
    /// Found to be zeros, and kept nowhere.
    pub zero: u64,
    /// Compressed; their size when they are decompressed.
    pub compressed: u64,
    /// Base pages that the compressed data takes.
    pub compressed_size: u64,
    /// Of the resident, in the active list.
    pub active: u64,
    /// Of the resident, in the inactive list.
    pub inactive: u64,
    /// Of the resident, those that did not compress well the last time.
    pub incompressible: u64,
    /// Pages found pinned when they were to be compressed.
    pub pinned: u64,
    /// Lost: its compressed data was damaged.
    pub corrupt: u64,
}

impl Held {
    /// All that its files hold.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.resident
            .saturating_add(self.zero)
            .saturating_add(self.compressed)
            .saturating_add(self.corrupt)
    }

    /// The physical memory that takes: huge pages, and base pages for compressed data.
    #[must_use]
    pub fn physical(&self) -> u64 {
        self.resident.saturating_add(self.compressed_size)
    }

    /// Compressed to original size, zeros not counted; `None` where nothing is compressed.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn ratio(&self) -> Option<f64> {
        (self.compressed > 0).then(|| self.compressed_size as f64 / self.compressed as f64)
    }

    /// Bytes that its files hold for each byte of physical memory that it takes; `None` where it takes none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn expansion(&self) -> Option<f64> {
        let physical = self.physical();
        (physical > 0).then(|| self.used() as f64 / physical as f64)
    }
}

/// What happened in a mount since it was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Faults that were given a zeroed page.
    pub faults_zero: u64,
    /// Faults that found their page resident.
    pub faults_resident: u64,
    /// Faults that had to decompress.
    pub faults_decompress: u64,
    /// Faults that copied a page of a private mapping.
    pub faults_cow: u64,
    /// Pages compressed.
    pub compressions: u64,
    /// Pages found to be zeros.
    pub compressions_zero: u64,
    /// Pages that could not be compressed well.
    pub compressions_refused: u64,
    /// Faults that found no free page and compressed another first.
    pub direct_reclaims: u64,
    /// Pages decompressed ahead.
    pub readaheads: u64,
    /// Faults that could not be served.
    pub sigbus: u64,
    /// Looks for cold pages.
    pub scans: u64,
    /// Pages looked at.
    pub pages_scanned: u64,
}

impl Counts {
    /// All faults that were served.
    #[must_use]
    pub fn faults(&self) -> u64 {
        [
            self.faults_zero,
            self.faults_resident,
            self.faults_decompress,
            self.faults_cow,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// Every mount, by device number. One that goes away while it is read is left out.
pub(super) fn read(hzmem: &Hzmem) -> Result<Vec<Mount>, Error> {
    let points = mount_points::read(hzmem.kernel.as_ref())?;
    let folder = root("mounts");
    let mut mounts = Vec::new();
    for device in hzmem.names(&folder)? {
        match read_one(hzmem, &folder.join(&device), &device, &points) {
            Ok(mount) => mounts.push(mount),
            Err(_) if hzmem.names(&folder.join(&device))?.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    mounts.sort_unstable_by_key(|mount| device_number(&mount.device));
    Ok(mounts)
}

/// Orders 0:9 before 0:10.
fn device_number(device: &str) -> Option<(u64, u64)> {
    let (major, minor) = device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn read_one(
    hzmem: &Hzmem,
    folder: &Path,
    device: &str,
    points: &MountPoints,
) -> Result<Mount, Error> {
    let value = |name: &str| hzmem.value::<u64>(&folder.join(name));
    let pages = |name: &str| hzmem.bytes_of_pages(&folder.join(name));
    let settings = Settings {
        size: limit(pages("size")?),
        watermark: hzmem.value(&folder.join("watermark"))?,
        period_ms: value("period_ms")?,
        compress: hzmem.text(&folder.join("compress"))?.trim().to_owned(),
        // -1 stands for any.
        node: u32::try_from(hzmem.value::<i64>(&folder.join("node"))?).ok(),
        readahead: hzmem.value(&folder.join("readahead"))?,
        compressed_limit: limit(value("compressed_limit_bytes")?),
    };
    let held = Held {
        resident: pages("resident")?,
        zero: pages("zero")?,
        compressed: pages("compressed")?,
        compressed_size: value("compressed_bytes")?,
        active: pages("active")?,
        inactive: pages("inactive")?,
        incompressible: pages("incompressible")?,
        pinned: pages("pinned")?,
        corrupt: pages("corrupt")?,
    };
    let counts = Counts {
        faults_zero: value("faults_zero")?,
        faults_resident: value("faults_resident")?,
        faults_decompress: value("faults_decompress")?,
        faults_cow: value("faults_cow")?,
        compressions: value("compressions")?,
        compressions_zero: value("compressions_zero")?,
        compressions_refused: value("compressions_refused")?,
        direct_reclaims: value("direct_reclaims")?,
        readaheads: value("readaheads")?,
        sigbus: value("sigbus")?,
        scans: value("scans")?,
        pages_scanned: value("pages_scanned")?,
    };
    Ok(Mount {
        device: device.to_owned(),
        mount_points: points.get(device).cloned().unwrap_or_default(),
        settings,
        held,
        counts,
    })
}

/// A limit of 0, or of all that can be counted, is none.
fn limit(bytes: u64) -> Option<u64> {
    (bytes != 0 && bytes < u64::MAX / 4096).then_some(bytes)
}
