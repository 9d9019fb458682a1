//! A graph as Graph500's: a Kronecker graph, whose degrees follow a power law, in compressed sparse rows. Nothing of it is stored but
//! where every 64th row begins: the rest is computed where it is asked for, the same each time.

use super::scatter::Scatter;
use crate::random::{Random, mix};
use crate::sim::numbers::number;

/// Of the four quarters of the adjacency matrix, and of each quarter's, the parts of the edges (Graph500's specification: A, B, C, D).
const INITIATOR: [[f64; 2]; 2] = [[0.57, 0.19], [0.19, 0.05]];
/// Rows of which one has its beginning stored.
const BLOCK: u64 = 64;
/// Bits of a random word that decide one bit of a neighbour.
const DECISION: u32 = 16;

/// The graph.
///
/// A row has as many entries as the Kronecker product expects, rounded up or down at random, and each entry is drawn as the generator
/// draws the end of an edge whose other end is known. So rows and neighbours are those of the law; but that two vertices are neighbours
/// stands in each of their rows by chance alone, and two entries of a row may be the same, of which a search sees one.
pub(super) struct Kronecker {
    /// The number of vertices is 2 to this power.
    scale: u32,
    /// Vertices are called by numbers that say nothing of their place in the product, as Graph500 scrambles them.
    names: Scatter,
    /// Entries of a row by how many ones its number in the product has.
    expected: Vec<f64>,
    /// Where the rows of each block begin.
    starts: Vec<u64>,
}

impl Kronecker {
    /// With 2 to the power of `scale` vertices, at most 2^32, and so many edges for each, of which each stands in two rows.
    pub(super) fn new(scale: u32, edge_factor: u64) -> Self {
        let vertices = 1u64 << scale;
        let entries = number(2 * edge_factor * vertices);
        let [zero, one] = INITIATOR.map(|[left, right]| left + right);
        let expected = (0..=scale)
            .map(|ones| entries * power(zero, scale - ones) * power(one, ones))
            .collect();
        let mut graph = Kronecker {
            scale,
            names: Scatter::new(vertices),
            expected,
            starts: Vec::new(),
        };
        let mut start = 0;
        for vertex in 0..vertices {
            if vertex.is_multiple_of(BLOCK) {
                graph.starts.push(start);
            }
            start += graph.degree(vertex);
        }
        graph
    }

    pub(super) fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// Entries of a vertex's row.
    pub(super) fn degree(&self, vertex: u64) -> u64 {
        let number_in_product = self.names.back(vertex);
        let expected = self.expected[number_in_product.count_ones() as usize];
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some billions
        let whole = expected as u64;
        let rest = expected - number(whole);
        whole + u64::from(number(mix(number_in_product) >> 11) < rest * number(1 << 53))
    }

    /// Where a vertex's row begins.
    pub(super) fn row(&self, vertex: u64) -> u64 {
        let block = vertex / BLOCK;
        let start = usize::try_from(block).map_or(0, |block| self.starts[block]);
        let before = block * BLOCK..vertex;
        start + before.map(|other| self.degree(other)).sum::<u64>()
    }

    /// The neighbours in a vertex's row: each once, in order, as Graph500 and GAPBS sort them.
    pub(super) fn neighbours(&self, vertex: u64) -> Vec<u64> {
        let number_in_product = self.names.back(vertex);
        let mut random = Random::new(mix(!number_in_product));
        let entries = 0..self.degree(vertex);
        let mut neighbours: Vec<u64> = entries
            .map(|_| {
                self.names
                    .there(self.neighbour(number_in_product, &mut random))
            })
            .collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }

    /// The other end of an edge, bit by bit, as numbers in the product.
    fn neighbour(&self, number_in_product: u64, random: &mut Random) -> u64 {
        const DECISIONS: u32 = u64::BITS / DECISION;
        let mut word = 0;
        (0..self.scale).fold(0, |neighbour, bit| {
            if bit % DECISIONS == 0 {
                word = random.word();
            }
            let part = number(word & ((1 << DECISION) - 1));
            word >>= DECISION;
            let [left, right] = INITIATOR[usize::from(number_in_product >> bit & 1 == 1)];
            let is_one = part < right / (left + right) * number(1 << DECISION);
            neighbour | u64::from(is_one) << bit
        })
    }
}

fn power(base: f64, exponent: u32) -> f64 {
    base.powi(exponent.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_each_other_and_hold_all_edges() {
        let graph = Kronecker::new(12, 16);
        let mut end = 0;
        for vertex in 0..graph.vertices() {
            assert_eq!(graph.row(vertex), end);
            end += graph.degree(vertex);
        }
        let edges = number(end) / number(2 * 16 * graph.vertices());
        assert!((0.98..1.02).contains(&edges), "{edges}");
    }

    /// The degrees of a Kronecker graph: a few vertices have very many neighbours, and many have none.
    #[test]
    fn degrees_follow_a_power_law() {
        let graph = Kronecker::new(16, 16);
        let mut degrees: Vec<u64> = (0..graph.vertices()).map(|v| graph.degree(v)).collect();
        degrees.sort_unstable_by(|one, other| other.cmp(one));
        let all: u64 = degrees.iter().sum();
        let of_first = |vertices: usize| number(degrees[..vertices].iter().sum()) / number(all);
        // The first bit of a number in the product is 0 for 76 % of the entries, and so on: those with two ones at most.
        assert!(of_first(1) > 0.01, "{}", of_first(1));
        assert!(of_first(655) > 0.4, "{}", of_first(655));
        let alone = degrees.iter().filter(|degree| **degree == 0).count();
        assert!(alone * 10 > degrees.len(), "{alone}");
    }

    /// How often a vertex is somebody's neighbour is as its own degree, apart from chance and from what stands twice in a row.
    #[test]
    fn neighbours_are_drawn_by_degree() {
        let graph = Kronecker::new(10, 4);
        let mut named = vec![0u64; 1 << 10];
        for vertex in 0..graph.vertices() {
            let neighbours = graph.neighbours(vertex);
            assert!(neighbours.is_sorted() && neighbours.len() as u64 <= graph.degree(vertex));
            for neighbour in neighbours {
                named[usize::try_from(neighbour).unwrap()] += 1;
            }
        }
        let middling = (0..graph.vertices()).filter(|v| (8..40).contains(&graph.degree(*v)));
        let (mut by_degree, mut by_name) = (0, 0);
        for vertex in middling {
            by_degree += graph.degree(vertex);
            by_name += named[usize::try_from(vertex).unwrap()];
        }
        let ratio = number(by_name) / number(by_degree);
        assert!((0.75..1.1).contains(&ratio), "{ratio}");
    }
}
