//! `/proc/buddyinfo`: free areas per zone and order.

use std::path::Path;

use mega_core::compaction::ZoneKind;

use crate::Error;
use crate::kernel::Kernel;

/// The free list of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeList {
    /// Its NUMA node.
    pub node: u32,
    /// Which zone.
    pub kind: ZoneKind,
    /// Free areas per order, from order 0.
    pub areas: Vec<u64>,
}

/// Reads the free lists of all zones with memory.
///
/// # Errors
/// [`Error::Io`]; [`Error::Malformed`] where no line of it is understood.
pub fn read(kernel: &dyn Kernel) -> Result<Vec<FreeList>, Error> {
    let path = Path::new("/proc/buddyinfo");
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    let lists = parse(&String::from_utf8_lossy(&text));
    if lists.is_empty() {
        return Err(Error::Malformed {
            path: path.to_owned(),
            reason: "has no line `Node N, zone NAME COUNTS...`".to_owned(),
        });
    }
    Ok(lists)
}

/// The free lists in the text of `/proc/buddyinfo`. Lines of another form are passed over.
#[must_use]
pub fn parse(text: &str) -> Vec<FreeList> {
    text.lines().filter_map(parse_line).collect()
}

/// Free areas per order over all zones.
#[must_use]
pub fn total(lists: &[FreeList]) -> Vec<u64> {
    let mut sum: Vec<u64> = Vec::new();
    for list in lists {
        sum.resize(sum.len().max(list.areas.len()), 0);
        for (sum, areas) in sum.iter_mut().zip(&list.areas) {
            *sum = sum.saturating_add(*areas);
        }
    }
    sum
}

/// "Node 0, zone   Normal   12 7 ..."
fn parse_line(line: &str) -> Option<FreeList> {
    let (node, kind, rest) = node_and_zone(line)?;
    let areas: Option<Vec<u64>> = rest
        .split_ascii_whitespace()
        .map(|count| count.parse().ok())
        .collect();
    areas
        .filter(|areas| !areas.is_empty())
        .map(|areas| FreeList { node, kind, areas })
}

/// Splits "Node 0, zone   Normal REST", as several files of `/proc` begin their lines.
pub(super) fn node_and_zone(line: &str) -> Option<(u32, ZoneKind, &str)> {
    let (node, rest) = line.strip_prefix("Node")?.split_once(',')?;
    let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
    let end = rest
        .find(|c: char| c.is_ascii_whitespace() || c == ',')
        .unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    Some((node.trim().parse().ok()?, ZoneKind::from_name(name)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_zone() {
        let lists =
            parse("Node 0, zone      DMA      1      0 3 \nNode 1, zone   Normal 7\nnonsense\n");
        assert_eq!(
            lists,
            [
                FreeList {
                    node: 0,
                    kind: ZoneKind::Dma,
                    areas: vec![1, 0, 3]
                },
                FreeList {
                    node: 1,
                    kind: ZoneKind::Normal,
                    areas: vec![7]
                },
            ]
        );
    }

    #[test]
    fn the_device_zone_and_a_line_cut_short_are_passed_over() {
        assert_eq!(
            parse("Node 0, zone   Device  0 0\nNode 0, zone   Normal\nNode 0, zone Normal 1 x\n"),
            []
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|(Node [0-9]{0,30}, zone +(Normal|DMA)?[ 0-9x,\n]*)*") {
            let _ = parse(&text);
        }
    }
}
