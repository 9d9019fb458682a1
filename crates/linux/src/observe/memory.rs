//! Physical memory: how much is free, and how much of that lies in blocks large enough for a huge page.

use std::collections::BTreeMap;
use std::path::Path;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, MemoryObservation, NodeMemory};

use crate::Error;
use crate::kernel::Kernel;
use crate::physical::buddyinfo;

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
    let nodes = nodes(&free_lists);
    Ok(MemoryObservation {
        total: field("MemTotal")?,
        available: field("MemAvailable")?,
        free: field("MemFree")?,
        contiguity: nodes
            .iter()
            .fold(0, |sum, node| sum.saturating_add(node.contiguity)),
        nodes,
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

/// The free memory of each node in the text of `/proc/buddyinfo`, by number. The kernel counts as free what is in these
/// lists and no more, so each node's `meminfo` need not be read for it.
#[must_use]
pub fn nodes(text: &[u8]) -> Vec<NodeMemory> {
    let mut nodes: BTreeMap<u32, NodeMemory> = BTreeMap::new();
    for list in buddyinfo::parse(&String::from_utf8_lossy(text)) {
        let node = nodes.entry(list.node).or_insert(NodeMemory {
            node: list.node,
            ..NodeMemory::default()
        });
        for (&count, order) in list.areas.iter().zip(0_u32..) {
            let block = BASE_PAGE_SIZE.checked_shl(order).unwrap_or(0);
            let bytes = count.saturating_mul(block);
            node.free = node.free.saturating_add(bytes);
            if block >= HUGE_PAGE_SIZE {
                node.contiguity = node.contiguity.saturating_add(bytes);
            }
        }
    }
    nodes.into_values().collect()
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
    fn free_memory_is_told_by_node_and_blocks_of_order_nine_and_above_apart() {
        let text = b"Node 0, zone      DMA      1      1      1      1      1      1      1      1      1      2      3\n\
                     Node 0, zone    DMA32      2      0      0      0      0      0      0      0      0      0      0\n\
                     Node 1, zone   Normal      9      9      9      9      9      9      9      9      9      0      1\n";
        let small = 4096 * ((1 << 9) - 1);
        let first = NodeMemory {
            node: 0,
            free: small + 2 * 4096 + 2 * (2 << 20) + 3 * (4 << 20),
            contiguity: 2 * (2 << 20) + 3 * (4 << 20),
        };
        let second = NodeMemory {
            node: 1,
            free: 9 * small + (4 << 20),
            contiguity: 4 << 20,
        };
        assert_eq!(nodes(text), [first, second]);
        assert_eq!(nodes(b""), []);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), counts in "[0-9 ]{0,300}") {
            let _ = meminfo_bytes(&bytes, "MemTotal");
            let _ = nodes(&bytes);
            let _ = nodes(format!("Node 0, zone Normal {counts}").as_bytes());
            let _ = meminfo_bytes(format!("MemTotal: {counts} kB").as_bytes(), "MemTotal");
        }
    }
}
