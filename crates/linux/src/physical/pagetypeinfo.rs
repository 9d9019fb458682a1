//! `/proc/pagetypeinfo`: what each pageblock is kept for. Root only.

use std::collections::BTreeMap;
use std::path::Path;

use mega_core::compaction::ZoneKind;

use super::buddyinfo::node_and_zone;
use crate::Error;
use crate::kernel::Kernel;

/// Pageblocks (2 MiB) of one zone per migratetype, by the kernel's names: Unmovable, Movable, Reclaimable and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageblockTypes {
    /// Its NUMA node.
    pub node: u32,
    /// Which zone.
    pub kind: ZoneKind,
    /// How many pageblocks are of each type.
    pub counts: BTreeMap<String, u64>,
}

/// Reads how many pageblocks of each zone are of which type.
///
/// # Errors
/// [`Error::Io`].
pub fn read(kernel: &dyn Kernel) -> Result<Vec<PageblockTypes>, Error> {
    let path = Path::new("/proc/pagetypeinfo");
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// The table "Number of blocks type" in the text of `/proc/pagetypeinfo`; empty where there is none.
#[must_use]
pub fn parse(text: &str) -> Vec<PageblockTypes> {
    let mut lines = text.lines();
    let Some(names) = lines.find_map(|line| line.strip_prefix("Number of blocks type")) else {
        return Vec::new();
    };
    let names: Vec<&str> = names.split_ascii_whitespace().collect();
    lines
        .map_while(node_and_zone)
        .map(|(node, kind, counts)| {
            let counts = counts
                .split_ascii_whitespace()
                .map_while(|count| count.parse().ok());
            let counts = names
                .iter()
                .map(|&name| name.to_owned())
                .zip(counts)
                .collect();
            PageblockTypes { node, kind, counts }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_second_table_is_read() {
        let text = "Page block order: 9\nPages per block:  512\n\n\
            Free pages count per migrate type at order       0      1\n\
            Node    0, zone      DMA, type    Unmovable      9      9\n\n\
            Number of blocks type     Unmovable      Movable      Isolate\n\
            Node 0, zone      DMA            1            7            0\n\
            Node 0, zone   Normal           46          597            0\n";
        let counts = |unmovable, movable| {
            let names = ["Unmovable", "Movable", "Isolate"].map(str::to_owned);
            names.into_iter().zip([unmovable, movable, 0]).collect()
        };
        assert_eq!(
            parse(text),
            [
                PageblockTypes {
                    node: 0,
                    kind: ZoneKind::Dma,
                    counts: counts(1, 7)
                },
                PageblockTypes {
                    node: 0,
                    kind: ZoneKind::Normal,
                    counts: counts(46, 597)
                },
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|Number of blocks type[ A-Z\n]*(Node 0, zone DMA[ 0-9x]*\n)*") {
            let _ = parse(&text);
        }
    }
}
