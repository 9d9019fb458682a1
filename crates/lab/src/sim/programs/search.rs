//! Breadth-first searches of a Kronecker graph from random roots: what Graph500's reference code touches of its arrays, from the root
//! down. (Its newer versions go through the largest levels the other way round.)

use std::collections::VecDeque;

use super::kronecker::Kronecker;
use crate::random::Random;

/// Edges for each vertex: the artifact of the Trident paper has `-s 26 -e 30`.
const EDGE_FACTOR: u64 = 30;
/// Bytes for each vertex: its edges as two numbers of 64 bits, which a search does not touch, the two ends of its row, the entries, its
/// parent, and its place in the queue. With 2^26 vertices that is 62 GiB; the paper says 63.5.
const EDGES: u64 = 16 * EDGE_FACTOR;
const ROW: u64 = 16;
const ENTRY: u64 = 8;
const PARENT: u64 = 8;
const QUEUED: u64 = 8;
const VERTEX: u64 = EDGES + ROW + 2 * EDGE_FACTOR * ENTRY + PARENT + QUEUED;

/// A search, and the next one after it.
pub(super) struct Search {
    graph: Kronecker,
    /// Where the arrays begin.
    rows: u64,
    columns: u64,
    parents: u64,
    queue: u64,
    /// A bit for each vertex that has a parent.
    found: Vec<u64>,
    /// Vertices whose rows are still to be read, and how many there were before them.
    waiting: VecDeque<u32>,
    taken: u64,
    /// Of the vertex that is looked at: its neighbours that are left, the next one last, and where the next one stands.
    neighbours: Vec<u64>,
    entry: u64,
    random: Random,
}

impl Search {
    /// The largest graph that fits into so many bytes, but 2^32 vertices at most.
    pub(super) fn new(bytes: u64, seed: u64) -> Self {
        let scale = (bytes / VERTEX).max(2).ilog2().min(u32::BITS);
        let vertices = 1u64 << scale;
        let graph = Kronecker::new(scale, EDGE_FACTOR);
        let rows = EDGES * vertices;
        let columns = rows + ROW * vertices;
        let parents = columns + 2 * EDGE_FACTOR * ENTRY * vertices;
        let mut search = Search {
            rows,
            columns,
            parents,
            queue: parents + PARENT * vertices,
            found: Vec::new(),
            waiting: VecDeque::new(),
            taken: 0,
            neighbours: Vec::new(),
            entry: 0,
            random: Random::new(seed),
            graph,
        };
        search.begin();
        search
    }

    /// A new search, from a vertex that has neighbours.
    fn begin(&mut self) {
        let vertices = self.graph.vertices();
        let words = usize::try_from(vertices.div_ceil(u64::from(u64::BITS))).unwrap_or(usize::MAX);
        self.found = vec![0; words];
        self.taken = 0;
        let root = loop {
            let vertex = self.random.below(vertices);
            if self.graph.degree(vertex) > 0 {
                break vertex;
            }
        };
        self.find(root);
    }

    /// Where a vertex is put into the queue, if it was not found before.
    fn find(&mut self, vertex: u64) -> Option<u64> {
        let word = usize::try_from(vertex / u64::from(u64::BITS)).ok()?;
        let bit = 1 << (vertex % u64::from(u64::BITS));
        if self.found[word] & bit != 0 {
            return None;
        }
        self.found[word] |= bit;
        let place = self.taken + self.waiting.len() as u64;
        self.waiting.push_back(u32::try_from(vertex).ok()?);
        Some(place)
    }

    /// Looks at one edge. What it touches of the arrays, of their last entries too where rows are a little longer than expected.
    pub(super) fn advance(&mut self) -> Vec<u64> {
        let mut touched = Vec::new();
        while self.neighbours.is_empty() {
            let Some(vertex) = self.waiting.pop_front() else {
                self.begin();
                continue;
            };
            let vertex = u64::from(vertex);
            touched.push(self.queue + self.taken * QUEUED);
            touched.push(self.rows + vertex * ROW);
            self.taken += 1;
            self.entry = self.graph.row(vertex);
            self.neighbours = self.graph.neighbours(vertex);
            self.neighbours.reverse();
        }
        if let Some(neighbour) = self.neighbours.pop() {
            let last = self.parents - ENTRY;
            touched.push((self.columns + self.entry * ENTRY).min(last));
            touched.push(self.parents + neighbour * PARENT);
            self.entry += 1;
            if let Some(place) = self.find(neighbour) {
                touched.push(self.queue + place * QUEUED);
            }
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What can be reached from a vertex, by another way than the search's.
    fn reached(graph: &Kronecker, root: u64) -> BTreeSet<u64> {
        let mut reached = BTreeSet::from([root]);
        let mut open = vec![root];
        while let Some(vertex) = open.pop() {
            for neighbour in graph.neighbours(vertex) {
                if reached.insert(neighbour) {
                    open.push(neighbour);
                }
            }
        }
        reached
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]

        #[test]
        fn a_search_finds_each_vertex_once_and_all_that_can_be_reached(scale in 3u32..11, seed: u64) {
            let mut search = Search::new(VERTEX << scale, seed);
            let root = u64::from(search.waiting[0]);
            let mut found = vec![root];
            let reached = reached(&search.graph, root);
            let edges: usize = reached.iter().map(|v| search.graph.neighbours(*v).len()).sum();
            for _ in 0..edges {
                let before = search.waiting.back().copied();
                let taken = search.taken;
                let touched = search.advance();
                proptest::prop_assert!(touched.iter().all(|offset| *offset < VERTEX << scale));
                let grown = touched.iter().filter(|offset| **offset >= search.queue).count();
                // One is what was taken from the queue; the others are what was put into it.
                if grown > usize::try_from(search.taken - taken).unwrap() {
                    let last = search.waiting.back().copied();
                    proptest::prop_assert!(last != before || search.taken > taken);
                    found.extend(last.map(u64::from));
                }
            }
            let count = found.len();
            let found: BTreeSet<u64> = found.into_iter().collect();
            proptest::prop_assert_eq!(found.len(), count, "a vertex was found twice");
            proptest::prop_assert_eq!(found, reached);
        }
    }
}
