//! Breadth-first searches of a graph, one after the other, each from another random root.

use super::access::{place, weight};
use super::graph::Graph;
use crate::random::{below, mix};

/// The level of a vertex that was not reached.
const NOT_REACHED: u64 = u64::MAX;
/// Set in the level of a vertex once a neighbour is known from which it was reached.
const HAS_PARENT: u64 = 1 << 63;
/// Vertices between two looks at the clock: some 16 times as many edges.
const BATCH: usize = 1 << 10;

/// A search on its way. In cache lines of its own, as the next one is another thread's; processors fetch them in pairs.
#[repr(align(128))]
pub(super) struct Search<'a> {
    /// Of each vertex, the edges from the root to it.
    levels: &'a mut [u64],
    /// The vertices reached, in the order in which they were.
    queue: &'a mut [u64],
    /// Of the queue, how many vertices' neighbours were looked at.
    seen: usize,
    /// Of the queue, how many there are.
    reached: usize,
    /// What chooses the next root.
    seed: u64,
}

impl<'a> Search<'a> {
    /// Searches in these two words for each vertex of a graph, none of them begun.
    pub(super) fn new(words: &'a mut [u64], seed: u64) -> Self {
        let (levels, queue) = words.split_at_mut(words.len() / 2);
        Search {
            levels,
            queue,
            seen: 0,
            reached: 0,
            seed,
        }
    }

    /// Goes on for a while, with the next search where one is over; returns the edges looked at.
    pub(super) fn advance(&mut self, graph: Graph<'_>) -> u64 {
        if self.seen == self.reached {
            self.begin();
        }
        let mut edges = 0;
        let end = self.seen + BATCH;
        while self.seen < self.reached.min(end) {
            let vertex = place(self.queue[self.seen]);
            self.seen += 1;
            let next = self.levels[vertex] + 1;
            let neighbours = graph.neighbours(vertex);
            for &neighbour in neighbours {
                // Beyond the graph only where that is not as it was written: its checksum is wrong then.
                if let Some(level) = self.levels.get_mut(place(neighbour))
                    && *level == NOT_REACHED
                {
                    *level = next;
                    self.queue[self.reached] = neighbour;
                    self.reached += 1;
                }
            }
            edges += neighbours.len() as u64;
        }
        edges
    }

    fn begin(&mut self) {
        self.seed = self.seed.wrapping_add(1);
        let root = below(mix(self.seed), self.levels.len());
        self.levels.fill(NOT_REACHED);
        self.levels[root] = 0;
        self.queue[0] = root as u64;
        (self.seen, self.reached) = (0, 1);
    }

    /// Over the levels found so far.
    pub(super) fn checksum(&self) -> u64 {
        let reached = self.queue[..self.reached].iter();
        reached.fold(0, |sum: u64, vertex| {
            let vertex = place(*vertex);
            let level = self.levels.get(vertex).copied().unwrap_or(NOT_REACHED);
            sum.wrapping_add(level.wrapping_mul(weight(vertex)))
        })
    }

    /// Whether the levels found so far are those of a breadth-first search: every neighbour of a vertex seen is at most one
    /// level further, and every vertex but the root is one level further than one that it is a neighbour of. The levels
    /// are marked by it.
    pub(super) fn is_valid(&mut self, graph: Graph<'_>) -> bool {
        let near = (0..self.seen).all(|number| self.neighbours_are_near(graph, number));
        let count = |has: fn(u64) -> bool| self.levels.iter().filter(|level| has(**level)).count();
        let reached = count(|level| level != NOT_REACHED);
        let children = count(|level| level != NOT_REACHED && level & HAS_PARENT != 0);
        let roots = count(|level| level == 0);
        // Before the first search begins, all is zero.
        self.reached == 0
            || near && reached == self.reached && roots == 1 && children + roots == reached
    }

    /// Whether that is so for the neighbours of a vertex of the queue; marks those one level further.
    fn neighbours_are_near(&mut self, graph: Graph<'_>, number: usize) -> bool {
        let vertex = place(self.queue[number]);
        let Some(level) = self.levels.get(vertex).map(|level| level & !HAS_PARENT) else {
            return false;
        };
        for neighbour in graph.neighbours(vertex) {
            let Some(other) = self.levels.get_mut(place(*neighbour)) else {
                return false;
            };
            let distance = *other & !HAS_PARENT;
            if *other == NOT_REACHED || distance > level + 1 {
                return false;
            }
            if distance == level + 1 {
                *other |= HAS_PARENT;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERTICES: usize = 5000;

    /// What a search of a small graph found in that many batches, changed by `change`, is valid.
    fn valid(batches: usize, change: impl FnOnce(&mut Search<'_>)) -> bool {
        let mut graph = vec![0; VERTICES * (Graph::WORDS_PER_VERTEX + 1)];
        Graph::build(&mut graph, VERTICES, 2);
        let graph = Graph::of(&graph, VERTICES);
        let mut words = vec![0; 2 * VERTICES];
        let mut search = Search::new(&mut words, 1);
        for _ in 0..batches {
            assert!(search.advance(graph) > 0);
        }
        change(&mut search);
        search.is_valid(graph)
    }

    #[test]
    fn what_it_finds_is_valid_at_any_time() {
        for batches in [0, 1, 3, 5, 6, 12] {
            assert!(valid(batches, |_| ()), "{batches}");
        }
    }

    #[test]
    fn a_wrong_level_is_found() {
        for wrong in [0, 2, 1000, NOT_REACHED] {
            let change = |search: &mut Search<'_>| {
                let vertex = place(search.queue[3]);
                assert_eq!(search.levels[vertex], 1);
                search.levels[vertex] = wrong;
            };
            assert!(!valid(4, change), "{wrong}");
        }
    }
}
