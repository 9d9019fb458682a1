//! `graph-bfs`: breadth-first searches of a random graph from random roots, as Graph500 does them. An operation is an
//! edge looked at. Every thread searches by itself; they share the graph.

use std::time::Instant;

use super::access::{map, ready};
use super::arguments::Parallel;
use super::graph::Graph;
use super::report::{Done, Reporter};
use super::search::Search;
use super::slices::{self, Work, in_threads, until};
use super::stop::Stop;
use crate::error::Error;

pub(super) fn run(
    parallel: &Parallel,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let (common, threads) = (&parallel.common, parallel.threads);
    let mut area = map(common.size())?;
    // In order, as pages are handed out faster than at random.
    area.words_mut().fill(0);
    let vertices = vertices(area.words().len(), threads);
    let searched = 2 * vertices * threads;
    let graph_words = area.words().len() - searched;
    Graph::build(&mut area.words_mut()[..graph_words], vertices, common.seed);
    ready("graph-bfs", &area, common, reporter)?;
    let (graph, searched) = area.words_mut().split_at_mut(graph_words);
    let graph = Graph::of(graph, vertices);
    let before = graph.checksum();
    let mut searches = Searches::new(graph, searched, common.seed);
    let mut done = slices::run(&mut searches, threads, reporter, stop)?;
    done.checksum = format!("{:016x}", searches.checksum());
    let right = searches.are_valid() && graph.checksum() == before;
    Ok(done.and(right))
}

/// How many vertices fit into the memory, with two words each for every thread's search.
fn vertices(words: usize, threads: usize) -> usize {
    words / (Graph::WORDS_PER_VERTEX + 2 * threads)
}

/// One search for each thread.
struct Searches<'a> {
    graph: Graph<'a>,
    searches: Vec<Search<'a>>,
}

impl<'a> Searches<'a> {
    /// As many searches as `words` has room for.
    fn new(graph: Graph<'a>, words: &'a mut [u64], seed: u64) -> Self {
        let searches = words
            .chunks_exact_mut(2 * graph.vertices())
            .enumerate()
            .map(|(thread, words)| Search::new(words, seed.wrapping_add((thread as u64) << 32)))
            .collect();
        Searches { graph, searches }
    }

    /// Over all levels that were found.
    fn checksum(&self) -> u64 {
        let add = |sum: u64, search: &Search<'_>| sum.wrapping_add(search.checksum());
        self.searches.iter().fold(0, add)
    }

    /// Whether all levels that were found are right. They are marked by it, and not to be used after.
    fn are_valid(&mut self) -> bool {
        let graph = self.graph;
        let invalid = in_threads(self.searches.iter_mut(), |search| {
            u64::from(!search.is_valid(graph))
        });
        invalid == 0
    }
}

impl Work for Searches<'_> {
    fn work(&mut self, threads: usize, end: Instant) -> u64 {
        let graph = self.graph;
        in_threads(self.searches.iter_mut().take(threads), |search| {
            until(end, || search.advance(graph))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn one_and_two_threads_search_the_same_graph() {
        let mut area = map(HUGE_PAGE).unwrap();
        let vertices = vertices(area.words().len(), 2);
        let graph_words = area.words().len() - 4 * vertices;
        let (graph, searched) = area.words_mut().split_at_mut(graph_words);
        Graph::build(graph, vertices, 3);
        let mut searches = Searches::new(Graph::of(graph, vertices), searched, 3);
        assert_eq!(searches.searches.len(), 2);
        let done = slices::run(
            &mut searches,
            2,
            &Reporter::new("test", 1, true),
            &mut Stop::new(Some(0.05), false),
        )
        .unwrap();
        assert!(done.operations > 0 && searches.checksum() > 0);
        assert!(searches.are_valid());
    }
}
