//! `graph-bfs`: breadth-first searches of a random graph.

use super::kernel::Kernel;
use crate::live::experiment::Experiment;

pub(super) const GRAPH_BFS: Experiment = Kernel {
    name: "graph-bfs",
    title: "breadth-first searches of a random graph",
    about: "Searches a random graph of average degree 16 breadth first, as Graph500 does, from one random root after the other. \
            An operation is an edge looked at. Threads share the graph and search it each by itself.",
    paper: None,
}
.experiment();
