//! The contiguity that a step wanted and could not have, node by node: what compaction is to answer.
//!
//! A block or a chunk counts as unmet for each promotion that
//!
//! - failed for lack of memory, or waits because it or others of its process did;
//! - a budget put off, as far as the next step can pay for it;
//! - the policy would make if contiguity were plentiful ([`crate::Policy::blocks_short`]).
//!
//! A process whose memory cgroup has no room lacks memory, not contiguity: what it could not have does not count.

use serde::Serialize;

use crate::action::{Action, ActionKind};
use crate::observation::{Observation, ProcessObservation};
use crate::page::HUGE_PAGE_SIZE;
use crate::process::ProcessId;

/// What was wanted of one NUMA node and could not be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unmet {
    /// The node. `None` for all of memory: of processes whose node is not known, and where no node is.
    pub node: Option<u32>,
    /// Blocks that are free there, after what the step itself took.
    pub free_blocks: u64,
    /// Blocks that were wanted and that the step did not take.
    pub blocks: u64,
    /// Chunks that were wanted and that the step did not take. How many are free is not known here.
    pub chunks: u64,
}

impl Unmet {
    /// Blocks that have to be emptied: none where those that are free are enough.
    #[must_use]
    pub fn blocks_to_empty(&self) -> u64 {
        self.blocks.saturating_sub(self.free_blocks)
    }

    /// Adds the unmet demand of a later step, of other groups, node by node. The later one knows better what is free.
    pub fn merge(unmet: &mut Vec<Unmet>, later: Vec<Unmet>) {
        for later in later {
            match unmet.iter_mut().find(|unmet| unmet.node == later.node) {
                Some(earlier) => {
                    *earlier = Unmet {
                        blocks: earlier.blocks.saturating_add(later.blocks),
                        chunks: earlier.chunks.saturating_add(later.chunks),
                        ..later
                    }
                }
                None => unmet.push(later),
            }
        }
    }
}

/// Counts what is unmet while a step is taken. Each call costs O(log processes), and less for the process asked about last.
#[derive(Debug)]
pub(super) struct Demand {
    nodes: Vec<Unmet>,
    /// By process: its place in `nodes`, and whether its cgroup has room for another huge page.
    processes: Vec<(ProcessId, usize, bool)>,
    last: usize,
}

impl Demand {
    pub(super) fn new(observation: &Observation) -> Self {
        let mut demand = Demand {
            nodes: Vec::new(),
            processes: Vec::with_capacity(observation.processes.len()),
            last: 0,
        };
        for process in &observation.processes {
            let place = demand.place_of(observation, process);
            let cgroup = process.cgroup;
            let has_room = cgroup.is_none_or(|cgroup| cgroup.available >= HUGE_PAGE_SIZE);
            demand.processes.push((process.process, place, has_room));
        }
        demand
    }

    fn place_of(&mut self, observation: &Observation, process: &ProcessObservation) -> usize {
        let memory = &observation.memory;
        let (node, contiguity) = match memory.node_of(process) {
            Some(known) => (Some(known.node), known.contiguity),
            None => (None, memory.contiguity),
        };
        let known = self.nodes.iter().position(|unmet| unmet.node == node);
        known.unwrap_or_else(|| {
            self.nodes.push(Unmet {
                node,
                free_blocks: contiguity / HUGE_PAGE_SIZE,
                ..Unmet::default()
            });
            self.nodes.len() - 1
        })
    }

    /// The node of a process, and whether its cgroup has room.
    fn of(&mut self, process: ProcessId) -> Option<(&mut Unmet, bool)> {
        if self.processes.get(self.last)?.0 != process {
            let place = self
                .processes
                .binary_search_by_key(&process, |(id, ..)| *id);
            self.last = place.ok()?;
        }
        let (_, node, has_room) = *self.processes.get(self.last)?;
        Some((self.nodes.get_mut(node)?, has_room))
    }

    /// A promotion was made.
    pub(super) fn took(&mut self, action: &Action) {
        if action.kind == ActionKind::Promote
            && let Some((unmet, _)) = self.of(action.target.process)
        {
            unmet.free_blocks = unmet.free_blocks.saturating_sub(1);
        }
    }

    /// A promotion could not be made.
    pub(super) fn lacked(&mut self, action: &Action) {
        let Some((unmet, true)) = self.of(action.target.process) else {
            return;
        };
        match action.kind {
            ActionKind::Promote => unmet.blocks += 1,
            ActionKind::PromoteGiant => unmet.chunks += 1,
            ActionKind::Demote | ActionKind::DemoteGiant | ActionKind::FreeZero => {}
        }
    }

    /// A process wants `blocks` more blocks to be free.
    pub(super) fn wants_blocks(&mut self, process: ProcessId, blocks: u64) {
        if let Some((unmet, true)) = self.of(process) {
            unmet.blocks = unmet.blocks.saturating_add(blocks);
        }
    }

    /// The nodes that lack something.
    pub(super) fn close(self) -> Vec<Unmet> {
        let wanted = |unmet: &Unmet| unmet.blocks > 0 || unmet.chunks > 0;
        self.nodes.into_iter().filter(wanted).collect()
    }
}
