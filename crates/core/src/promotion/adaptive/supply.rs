//! The memory that is left for promotions, as each of them takes its part, and how scarce it is.

use crate::observation::{CgroupMemory, MemoryObservation, ProcessObservation};
use crate::page::HUGE_PAGE_SIZE;

/// Free blocks for each region that is to get one, so that blocks are not scarce.
pub(super) const PLENTY: u64 = 2;

/// The memory there is for promotions: blocks node by node, bytes on the machine and in each cgroup.
pub(super) struct Supply<'a> {
    memory: &'a MemoryObservation,
    keep_free: f64,
    /// Bytes available above what must stay so.
    spare: f64,
    /// The same below the limit of each cgroup. Processes that see the same limit and the same room are taken for members
    /// of one.
    cgroups: Vec<(CgroupMemory, f64)>,
    nodes: Vec<Node>,
}

/// The blocks that some processes draw on.
struct Node {
    /// `None` for all of memory.
    node: Option<u32>,
    /// Bytes of contiguity.
    contiguity: f64,
    /// Bytes of contiguity that the remaining candidates would need.
    needed: f64,
}

/// What a process draws on.
#[derive(Clone, Copy)]
pub(super) struct Source {
    node: usize,
    cgroup: Option<usize>,
}

impl<'a> Supply<'a> {
    /// Of which the share `keep_free` stays available.
    pub(super) fn new(keep_free: f64, memory: &'a MemoryObservation) -> Self {
        Supply {
            memory,
            keep_free,
            spare: above(memory.available, memory.total, keep_free),
            cgroups: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// What a process with so many candidates draws on. Where its node is not known that is all of memory.
    pub(super) fn open(&mut self, process: &ProcessObservation, candidates: usize) -> Source {
        let node = self.node_of(process);
        self.nodes[node].needed += blocks(candidates);
        let cgroup = process.cgroup.map(|cgroup| {
            let known = self.cgroups.iter().position(|(known, _)| *known == cgroup);
            known.unwrap_or_else(|| {
                let spare = above(cgroup.available, cgroup.limit, self.keep_free);
                self.cgroups.push((cgroup, spare));
                self.cgroups.len() - 1
            })
        });
        Source { node, cgroup }
    }

    fn node_of(&mut self, process: &ProcessObservation) -> usize {
        let (node, contiguity) = match self.memory.node_of(process) {
            Some(node) => (Some(node.node), node.contiguity),
            None => (None, self.memory.contiguity),
        };
        let known = self.nodes.iter().position(|known| known.node == node);
        known.unwrap_or_else(|| {
            self.nodes.push(Node {
                node,
                contiguity: bytes(contiguity),
                needed: 0.0,
            });
            self.nodes.len() - 1
        })
    }

    /// How scarce blocks are: 1 where there are none, 0 where there are [`PLENTY`] for each region that is to get one.
    pub(super) fn block_scarcity(&self, source: Source) -> f64 {
        let node = &self.nodes[source.node];
        let plenty = bytes(PLENTY) * node.needed;
        if self.memory.total == 0 || plenty <= 0.0 {
            0.0
        } else {
            1.0 - (node.contiguity / plenty).min(1.0)
        }
    }

    /// Whether memory stays available when a promotion adds `bloat_bytes` and, while it copies, holds
    /// one huge page more.
    pub(super) fn suffices_for(&self, source: Source, bloat_bytes: u64) -> bool {
        let needed = bytes(bloat_bytes + HUGE_PAGE_SIZE);
        let on_machine = self.memory.total == 0 || self.spare >= needed;
        on_machine
            && source
                .cgroup
                .is_none_or(|cgroup| self.cgroups[cgroup].1 >= needed)
    }

    pub(super) fn take(&mut self, source: Source, bloat_bytes: u64) {
        self.spare -= bytes(bloat_bytes);
        if let Some(cgroup) = source.cgroup {
            self.cgroups[cgroup].1 -= bytes(bloat_bytes);
        }
        let node = &mut self.nodes[source.node];
        node.contiguity = (node.contiguity - blocks(1)).max(0.0);
        self.leave(source);
    }

    /// A candidate is out of the question for another reason: it needs no block any more.
    pub(super) fn leave(&mut self, source: Source) {
        let node = &mut self.nodes[source.node];
        node.needed = (node.needed - blocks(1)).max(0.0);
    }
}

/// How scarce memory is for a process, on the machine or in its cgroup: 0 where it is not known, 1 where just as much is
/// available as is to be kept so, more below.
pub(super) fn memory_scarcity(
    keep_free: f64,
    memory: &MemoryObservation,
    process: &ProcessObservation,
) -> f64 {
    let scarcity =
        |available: u64, total: u64| keep_free * bytes(total) / bytes(available).max(1.0);
    let own = process
        .cgroup
        .map_or(0.0, |cgroup| scarcity(cgroup.available, cgroup.limit));
    scarcity(memory.available, memory.total).max(own)
}

/// Bytes available above the part of `total` that must stay so.
fn above(available: u64, total: u64, keep_free: f64) -> f64 {
    bytes(available) - bytes(total) * keep_free
}

#[allow(clippy::cast_precision_loss)]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

/// Bytes in so many blocks.
#[allow(clippy::cast_precision_loss)]
fn blocks(count: usize) -> f64 {
    count as f64 * HUGE_PAGE_SIZE as f64
}
