//! A random directed graph in compressed sparse rows.

use super::access::{place, weight};
use crate::random::{Random, below, mix};

/// A graph that lies in memory of someone else's.
#[derive(Clone, Copy)]
pub(super) struct Graph<'a> {
    /// Where the neighbours of each vertex begin, and where those of the last one end.
    offsets: &'a [u64],
    neighbours: &'a [u64],
}

impl<'a> Graph<'a> {
    /// Neighbours of a vertex on average: Graph500's edge factor.
    const DEGREE: usize = 16;
    /// Words that a graph takes for each vertex; the last vertices have fewer neighbours where that is too little.
    pub(super) const WORDS_PER_VERTEX: usize = Self::DEGREE + 1;

    /// Writes a graph, whose vertices have 1 to 31 neighbours each, drawn evenly from all vertices: so it needs no sorting.
    pub(super) fn build(words: &mut [u64], vertices: usize, seed: u64) {
        let mut random = Random::new(mix(seed));
        let (offsets, neighbours) = words.split_at_mut(vertices + 1);
        let mut end = 0;
        for (vertex, offset) in offsets.iter_mut().enumerate() {
            *offset = end as u64;
            let room = neighbours.len() - end;
            let degree = 1 + below(random.word(), 2 * Self::DEGREE - 1);
            // Behind the last vertex stands only an end.
            let degree = if vertex < vertices {
                degree.min(room)
            } else {
                0
            };
            for neighbour in &mut neighbours[end..end + degree] {
                *neighbour = below(random.word(), vertices) as u64;
            }
            end += degree;
        }
    }

    /// The graph that was written there.
    pub(super) fn of(words: &'a [u64], vertices: usize) -> Self {
        let (offsets, neighbours) = words.split_at(vertices + 1);
        Graph {
            offsets,
            neighbours,
        }
    }

    pub(super) fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    /// None of a vertex that there is not.
    pub(super) fn neighbours(&self, vertex: usize) -> &'a [u64] {
        let end = self.offsets.get(vertex + 1).copied().unwrap_or(0);
        let start = self.offsets.get(vertex).copied().unwrap_or(0);
        let range = place(start)..place(end);
        self.neighbours.get(range).unwrap_or_default()
    }

    /// Over all of it.
    pub(super) fn checksum(&self) -> u64 {
        let words = self.offsets.iter().chain(self.neighbours).enumerate();
        words.fold(0, |sum: u64, (index, word)| {
            sum.wrapping_add(word.wrapping_mul(weight(index)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_degree_that_it_is_to_have() {
        let vertices = 10_000;
        let mut words = vec![0; vertices * (Graph::WORDS_PER_VERTEX + 1)];
        Graph::build(&mut words, vertices, 1);
        let graph = Graph::of(&words, vertices);
        let edges: usize = (0..vertices)
            .map(|vertex| graph.neighbours(vertex).len())
            .sum();
        assert!((15 * vertices..17 * vertices).contains(&edges), "{edges}");
        let before = graph.checksum();
        words[vertices + 100] ^= 1;
        assert_ne!(Graph::of(&words, vertices).checksum(), before);
    }

    #[test]
    fn a_lost_offset_leads_nowhere() {
        let mut words = vec![0; 1000];
        Graph::build(&mut words, 50, 1);
        words[7] = u64::MAX;
        let graph = Graph::of(&words, 50);
        assert!(graph.neighbours(7).is_empty());
        assert!(graph.neighbours(50).is_empty());
    }
}
