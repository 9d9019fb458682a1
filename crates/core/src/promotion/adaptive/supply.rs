//! The memory that is left for promotions, as each of them takes its part.

use crate::observation::{CgroupMemory, MemoryObservation, ProcessObservation};
use crate::page::HUGE_PAGE_SIZE;

use super::deal::Terms;
use super::settings::Settings;

/// The share of memory in free blocks from which they are plentiful, whatever is wanted.
const PLENTIFUL: f64 = 0.1;
/// Where there are no free blocks at all, one is worth what it saves for a region of which so much is in use: others will need it. It is
/// MEGA's promotion threshold, which keeps compaction for regions of which more is used.
const BLOCK_WORTH: f64 = 0.5;
/// Blocks for each region that wants one, so that they are plentiful.
pub(super) const PLENTY: u64 = 2;

/// The memory there is for promotions: blocks node by node, bytes on the machine and in each cgroup.
pub(super) struct Supply<'a> {
    settings: &'a Settings,
    memory: &'a MemoryObservation,
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
    /// Bytes of contiguity that are plenty, whatever is wanted.
    plentiful: f64,
    /// Bytes of contiguity that the remaining candidates would need.
    needed: f64,
    /// The most that one block can save any of them, in seconds of CPU time.
    best: f64,
}

/// What a process draws on.
#[derive(Clone, Copy)]
pub(super) struct Source {
    node: usize,
    cgroup: Option<usize>,
}

impl<'a> Supply<'a> {
    pub(super) fn new(settings: &'a Settings, memory: &'a MemoryObservation) -> Self {
        Supply {
            settings,
            memory,
            spare: above(memory.available, memory.total, settings),
            cgroups: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// What a process draws on. Where its node is not known that is all of memory.
    pub(super) fn open(&mut self, process: &ProcessObservation) -> Source {
        let node = self.node_of(process);
        let cgroup = process.cgroup.map(|cgroup| {
            let known = self.cgroups.iter().position(|(known, _)| *known == cgroup);
            known.unwrap_or_else(|| {
                let spare = above(cgroup.available, cgroup.limit, self.settings);
                self.cgroups.push((cgroup, spare));
                self.cgroups.len() - 1
            })
        });
        Source { node, cgroup }
    }

    #[allow(clippy::cast_precision_loss)]
    fn node_of(&mut self, process: &ProcessObservation) -> usize {
        let all = self.memory.total as f64 * PLENTIFUL;
        let (node, contiguity, plentiful) = match self.memory.node_of(process) {
            // How much memory a node has is not known: an equal part.
            Some(node) => (
                Some(node.node),
                node.contiguity,
                all / self.memory.nodes.len() as f64,
            ),
            None => (None, self.memory.contiguity, all),
        };
        let known = self.nodes.iter().position(|known| known.node == node);
        known.unwrap_or_else(|| {
            self.nodes.push(Node {
                node,
                contiguity: contiguity as f64,
                plentiful,
                needed: 0.0,
                best: 0.0,
            });
            self.nodes.len() - 1
        })
    }

    /// So many regions of one process would take a block, on those terms.
    pub(super) fn want(&mut self, source: Source, candidates: usize, terms: &Terms) {
        let node = &mut self.nodes[source.node];
        node.needed += blocks(candidates);
        if candidates > 0 {
            node.best = node.best.max(terms.best());
        }
    }

    /// What a block costs now: nothing while blocks are plentiful; where there are none, what it is worth to others, or what it takes to
    /// make one if that is less.
    pub(super) fn price_of_block(&self, source: Source, terms: &Terms) -> f64 {
        self.scarcity_of_blocks(source) * self.worth_of_block(source).min(terms.block)
    }

    /// What a block is worth to others, where there are none.
    pub(super) fn worth_of_block(&self, source: Source) -> f64 {
        self.nodes[source.node].best * BLOCK_WORTH
    }

    /// How scarce blocks are: 0 while they are plentiful, absolutely or for what is wanted of them, 1 where there are none.
    #[allow(clippy::cast_precision_loss)]
    fn scarcity_of_blocks(&self, source: Source) -> f64 {
        if self.memory.total == 0 {
            return 0.0;
        }
        let node = &self.nodes[source.node];
        let wanted = PLENTY as f64 * node.needed;
        1.0 - ratio(node.contiguity, node.plentiful).max(ratio(node.contiguity, wanted))
    }

    /// How scarce memory is, of the machine or the cgroup: 1 where no more is available than is to stay so, 0 where twice as much is.
    pub(super) fn scarcity_of_memory(&self, source: Source) -> f64 {
        let keep = self.settings.keep_available;
        let scarcity = |spare: f64, total: u64| (1.0 - ratio(spare, bytes(total) * keep)).min(1.0);
        let machine = scarcity(self.spare, self.memory.total);
        let own = source.cgroup.map_or(0.0, |cgroup| {
            let (cgroup, spare) = &self.cgroups[cgroup];
            scarcity(*spare, cgroup.limit)
        });
        machine.max(own)
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

/// Bytes available above the part of `total` that must stay so.
#[allow(clippy::cast_precision_loss)]
fn above(available: u64, total: u64, settings: &Settings) -> f64 {
    available as f64 - total as f64 * settings.keep_available
}

/// `part / whole`, at most 1; 1 where nothing is asked for.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole <= 0.0 {
        1.0
    } else {
        (part / whole).min(1.0)
    }
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
