//! On what terms a recording is replayed: the physical memory, and what things cost.

use mega_core::{HUGE_PAGE_SIZE, MemoryObservation, NodeMemory};
use mega_sim::Costs;
use mega_sim::translation::{Processor, Walk};

/// On what terms a recording is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Bytes of memory that the machine has; `None` for as many as it had. What was used of it stays used.
    pub memory: Option<u64>,
    /// The part of its free memory that is in pieces too small for a huge page, 0 to 1, before a policy takes any; `None`
    /// for what it was at each moment. Nobody compacts it.
    pub fragmentation: Option<f64>,
    /// What promoting, demoting and looking for zeros takes. What a look took is in the recording.
    pub costs: Costs,
    /// The processor whose cores translate the program's addresses, and where they do; `None` where what that takes is not asked.
    pub processor: Option<(Processor, Walk)>,
}

impl Default for Terms {
    /// The memory as it was, the costs of [`Costs::mega_notebook`], and no processor.
    fn default() -> Self {
        Terms {
            memory: None,
            fragmentation: None,
            costs: Costs::mega_notebook(),
            processor: None,
        }
    }
}

/// Memory that a policy has taken from what was free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Blocks for huge pages that the recording does not have.
    pub(super) blocks: u64,
    /// Bytes that the recording does not have resident.
    pub(super) bytes: u64,
}

impl Taken {
    pub(super) fn add(&mut self, other: Taken) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }

    pub(super) fn remove(&mut self, other: Taken) {
        self.blocks = self.blocks.saturating_sub(other.blocks);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    fn blocks_in_bytes(self) -> u64 {
        self.blocks.saturating_mul(HUGE_PAGE_SIZE)
    }
}

impl Terms {
    /// These with a processor, and the costs that are known of its machine.
    #[must_use]
    pub fn on(self, processor: Processor, walk: Walk) -> Self {
        Terms {
            costs: Costs::of(&processor),
            processor: Some((processor, walk)),
            ..self
        }
    }

    /// Seconds of CPU time that the promotion of a region takes. A recording does not say what it took on its machine.
    pub(super) fn promotion_seconds(&self) -> f64 {
        self.costs.time(self.costs.promotion()).as_secs_f64()
    }

    /// The memory that a policy sees: as it was recorded, on these terms, without what the policy took of each node. What a
    /// process took whose node is not known is taken of the whole alone.
    pub(super) fn memory(
        &self,
        recorded: &MemoryObservation,
        taken: impl Iterator<Item = (Option<u32>, Taken)>,
    ) -> MemoryObservation {
        let mut memory = self.without_policy(recorded);
        for (node, taken) in taken {
            memory.free = memory.free.saturating_sub(taken.bytes);
            memory.available = memory.available.saturating_sub(taken.bytes);
            memory.contiguity = memory.contiguity.saturating_sub(taken.blocks_in_bytes());
            let mut nodes = memory.nodes.iter_mut();
            if let Some(node) = nodes.find(|memory| Some(memory.node) == node) {
                node.free = node.free.saturating_sub(taken.bytes);
                node.contiguity = node.contiguity.saturating_sub(taken.blocks_in_bytes());
            }
        }
        memory.contiguity = memory.contiguity.min(memory.free);
        memory
    }

    fn without_policy(&self, recorded: &MemoryObservation) -> MemoryObservation {
        let total = self.memory.unwrap_or(recorded.total);
        let without = |bytes: u64| total.saturating_sub(recorded.total.saturating_sub(bytes));
        let free = without(recorded.free);
        if self.memory.is_none() && self.fragmentation.is_none() {
            return MemoryObservation {
                nodes: recorded.nodes.clone(),
                ..*recorded
            };
        }
        let contiguous = 1.0
            - self
                .fragmentation
                .unwrap_or(recorded.fmfi())
                .clamp(0.0, 1.0);
        MemoryObservation {
            total,
            available: without(recorded.available),
            free,
            contiguity: part(free, contiguous),
            // It is another machine: how its memory would be divided is not known.
            nodes: Vec::<NodeMemory>::new(),
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bytes of memory are exact enough, and the part is 0 to 1"
)]
fn part(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn recorded() -> MemoryObservation {
        let node = |node| NodeMemory {
            node,
            free: 4 * GIB,
            contiguity: 3 * GIB,
        };
        MemoryObservation {
            total: 16 * GIB,
            available: 10 * GIB,
            free: 8 * GIB,
            contiguity: 6 * GIB,
            nodes: vec![node(0), node(1)],
        }
    }

    #[test]
    fn what_a_policy_takes_is_missing_on_its_node() {
        let taken = Taken {
            blocks: 512,
            bytes: GIB / 2,
        };
        let seen = Terms::default().memory(&recorded(), [(Some(1), taken)].into_iter());
        assert_eq!((seen.free, seen.contiguity), (15 * GIB / 2, 5 * GIB));
        assert_eq!(seen.nodes[0], recorded().nodes[0]);
        assert_eq!(seen.nodes[1].contiguity, 2 * GIB);
        let nothing = Terms::default().memory(&recorded(), std::iter::empty());
        assert_eq!(nothing, recorded());
    }

    #[test]
    fn other_memory_has_the_same_in_use() {
        let terms = Terms {
            memory: Some(64 * GIB),
            fragmentation: Some(0.75),
            ..Terms::default()
        };
        let seen = terms.memory(&recorded(), std::iter::empty());
        assert_eq!(
            (seen.total, seen.free, seen.available),
            (64 * GIB, 56 * GIB, 58 * GIB)
        );
        assert_eq!(seen.contiguity, 14 * GIB);
        // Less than is in use: nothing is free.
        let terms = Terms {
            memory: Some(4 * GIB),
            ..Terms::default()
        };
        let seen = terms.memory(&recorded(), std::iter::empty());
        assert_eq!((seen.free, seen.contiguity), (0, 0));
    }
}
