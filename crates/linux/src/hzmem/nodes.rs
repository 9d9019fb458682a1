//! `/sys/fs/hzmem/nodes`: the module's memory by NUMA node, and the CPU time of its thread there.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{Hzmem, root};
use crate::Error;

/// One NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub node: u32,
    /// Bytes that the module owns there.
    pub total: u64,
    /// Bytes of it in free huge pages.
    pub free: u64,
    /// Bytes of it that were freed while a device or another program still held on to them.
    pub pinned: u64,
    /// Sections, each with a free list of its own.
    pub sections: u64,
    /// CPU time that the module's thread has used.
    #[serde(rename = "daemon_cpu_seconds", serialize_with = "seconds")]
    pub daemon_cpu: Duration,
}

impl Node {
    /// Bytes in pages that hold something.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

pub(super) fn read(hzmem: &Hzmem) -> Result<Vec<Node>, Error> {
    let folder = root("nodes");
    let mut nodes = Vec::new();
    for name in hzmem.names(&folder)? {
        let Some(node) = name
            .strip_prefix("node")
            .and_then(|number| number.parse().ok())
        else {
            continue;
        };
        let folder = folder.join(&name);
        nodes.push(Node {
            node,
            total: hzmem.bytes_of_pages(&folder.join("total"))?,
            free: hzmem.bytes_of_pages(&folder.join("free"))?,
            pinned: hzmem.bytes_of_pages(&folder.join("pinned"))?,
            sections: hzmem.value(&folder.join("sections"))?,
            daemon_cpu: Duration::from_nanos(hzmem.value(&folder.join("daemon_cpu_ns"))?),
        });
    }
    nodes.sort_unstable_by_key(|node| node.node);
    Ok(nodes)
}
