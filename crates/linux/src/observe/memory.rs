//! Physical memory: how much is free, and how much of it in blocks that a huge page fits.

use std::path::Path;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, MemoryObservation};

use crate::Error;
use crate::kernel::Kernel;

/// Reads `/proc/meminfo` and `/proc/buddyinfo`.
///
/// # Errors
/// [`Error::Io`], [`Error::Malformed`].
pub fn observe(kernel: &dyn Kernel) -> Result<MemoryObservation, Error> {
    let meminfo = Path::new("/proc/meminfo");
    let text = kernel.read(meminfo).map_err(Error::io("read", meminfo))?;
    let field = |name: &str| {
        meminfo_bytes(&text, name).ok_or_else(|| Error::Malformed {
            path: meminfo.to_owned(),
            reason: format!("has no line `{name}: N kB`"),
        })
    };
    let buddyinfo = Path::new("/proc/buddyinfo");
    let free_lists = kernel
        .read(buddyinfo)
        .map_err(Error::io("read", buddyinfo))?;
    Ok(MemoryObservation {
        total: field("MemTotal")?,
        available: field("MemAvailable")?,
        free: field("MemFree")?,
        contiguity: contiguous_bytes(&free_lists),
        nodes: Vec::new(),
    })
}

/// The value of one line of `/proc/meminfo`, in bytes. `None` where there is no such line.
#[must_use]
pub fn meminfo_bytes(text: &[u8], name: &str) -> Option<u64> {
    let text = String::from_utf8_lossy(text);
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = rest.split_ascii_whitespace();
    let value: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => value.checked_mul(1024),
        None => Some(value),
        Some(_) => None,
    }
}

/// Bytes free in blocks of at least 2 MiB, over all zones in the text of `/proc/buddyinfo`.
#[must_use]
pub fn contiguous_bytes(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text)
        .lines()
        // "Node 0, zone   Normal   12 7 ...": after the zone's name, free blocks of order 0, 1, ...
        .filter_map(|line| line.split_once("zone")?.1.trim_start().split_once(' '))
        .flat_map(|(_zone, counts)| counts.split_ascii_whitespace().zip(0_u32..))
        .filter_map(|(count, order)| {
            let block = BASE_PAGE_SIZE.checked_shl(order)?;
            let count: u64 = count.parse().ok()?;
            (block >= HUGE_PAGE_SIZE).then(|| count.saturating_mul(block))
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = b"MemFreeX: 1 kB\nMemTotal:  24 kB\nHugePages_Total: 3\nOdd: 3 MB\n";
        assert_eq!(meminfo_bytes(text, "MemTotal"), Some(24 << 10));
        assert_eq!(meminfo_bytes(text, "HugePages_Total"), Some(3));
        assert_eq!(meminfo_bytes(text, "MemFree"), None);
        assert_eq!(meminfo_bytes(text, "Odd"), None);
    }

    #[test]
    fn blocks_of_order_nine_and_above_count() {
        let text = b"Node 0, zone      DMA      1      1      1      1      1      1      1      1      1      2      3\n\
                     Node 1, zone   Normal      9      9      9      9      9      9      9      9      9      0      1\n";
        assert_eq!(
            contiguous_bytes(text),
            2 * (2 << 20) + 3 * (4 << 20) + (4 << 20)
        );
        assert_eq!(contiguous_bytes(b""), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), counts in "[0-9 ]{0,300}") {
            let _ = meminfo_bytes(&bytes, "MemTotal");
            let _ = contiguous_bytes(&bytes);
            let _ = contiguous_bytes(format!("Node 0, zone Normal {counts}").as_bytes());
            let _ = meminfo_bytes(format!("MemTotal: {counts} kB").as_bytes(), "MemTotal");
        }
    }
}
