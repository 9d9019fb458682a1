//! `chase`: one random cycle through all cache lines. It follows the cycle load by load; each load gives the next
//! address.

use std::time::Instant;

use super::access::{map, place, ready, sum, weight};
use super::arguments::Parallel;
use super::report::{Done, Reporter};
use super::slices::{self, Work, in_threads, until};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::Area;
use crate::random::mix;

/// Words in a cache line.
const LINE: usize = 8;
/// Steps between two looks at the clock: some milliseconds.
const BATCH: u64 = 1 << 14;

pub(super) fn run(
    parallel: &Parallel,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let common = &parallel.common;
    let mut area = map(common.size())?;
    let cycle = Cycle::of(&area, common.seed);
    let expected = cycle.lay(&mut area);
    ready("chase", &area, common, reporter)?;
    let mut chases = Chases::new(area.words(), &cycle, parallel.threads);
    let done = slices::run(&mut chases, parallel.threads, reporter, stop)?;
    let right = chases.are_right(&cycle);
    Ok(done.checked(sum(&area), expected).and(right))
}

/// In which order the lines follow each other.
struct Cycle {
    lines: u64,
    /// The least number of bits that tell all lines.
    bits: u32,
    seed: u64,
}

impl Cycle {
    fn of(area: &Area, seed: u64) -> Self {
        let lines = (area.words().len() / LINE) as u64;
        Cycle {
            lines,
            bits: lines.next_power_of_two().ilog2().max(1),
            seed,
        }
    }

    /// The line at a position of the cycle: another one for each, in an order that looks random.
    fn line(&self, position: u64) -> u64 {
        // What falls beyond the last line is mixed again until it does not: so it stays one-to-one.
        let mut line = self.mixed(position);
        while line >= self.lines {
            line = self.mixed(line);
        }
        line
    }

    /// A one-to-one mixing of `bits` bits: each step can be undone.
    fn mixed(&self, mut line: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        for round in 0..3 {
            let key = mix(self.seed.wrapping_add(round));
            line = (line ^ (key >> 32)).wrapping_mul(key | 1) & mask;
            line ^= line >> self.bits.div_ceil(2);
        }
        line
    }

    /// Writes into each line which one follows; returns what [`sum`] is then.
    fn lay(&self, area: &mut Area) -> u64 {
        // In order, as pages are handed out faster than at random.
        area.words_mut().fill(0);
        let mut sum: u64 = 0;
        let mut line = self.line(0);
        for position in 1..=self.lines {
            let next = self.line(position % self.lines);
            let word = place(line) * LINE;
            area.words_mut()[word] = next;
            sum = sum.wrapping_add(next.wrapping_mul(weight(word)));
            line = next;
        }
        sum
    }
}

/// Several ways along the same cycle, one for each thread.
struct Chases<'a> {
    words: &'a [u64],
    chases: Vec<Chase>,
}

/// In cache lines of its own, as the next one is another thread's; processors fetch them in pairs.
#[repr(align(128))]
struct Chase {
    /// The position in the cycle where it began.
    began: u64,
    steps: u64,
    /// The line where it is.
    line: u64,
}

impl<'a> Chases<'a> {
    fn new(words: &'a [u64], cycle: &Cycle, threads: usize) -> Self {
        let step = cycle.lines / threads as u64;
        let chase = |thread| Chase {
            began: thread * step,
            steps: 0,
            line: cycle.line(thread * step),
        };
        Chases {
            words,
            chases: (0..threads as u64).map(chase).collect(),
        }
    }

    /// Whether each is where its steps lead to.
    fn are_right(&self, cycle: &Cycle) -> bool {
        self.chases
            .iter()
            .all(|chase| chase.line == cycle.line((chase.began + chase.steps) % cycle.lines))
    }
}

impl Work for Chases<'_> {
    fn work(&mut self, threads: usize, end: Instant) -> u64 {
        let words = self.words;
        in_threads(self.chases.iter_mut().take(threads), |chase| {
            let steps = until(end, || {
                let mut line = chase.line;
                for _ in 0..BATCH {
                    // Beyond the memory only where it is not as it was written: the end is wrong then.
                    let word = place(line).saturating_mul(LINE);
                    line = words.get(word).copied().unwrap_or(0);
                }
                chase.line = line;
                BATCH
            });
            chase.steps += steps;
            steps
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    fn laid() -> (Area, Cycle, u64) {
        let mut area = map(3 * HUGE_PAGE).unwrap();
        let cycle = Cycle::of(&area, 7);
        let sum = cycle.lay(&mut area);
        (area, cycle, sum)
    }

    #[test]
    fn the_cycle_passes_every_line_once() {
        let (area, cycle, expected) = laid();
        assert_eq!(sum(&area), expected);
        let (mut line, mut steps) = (0, 0);
        while steps == 0 || line != 0 {
            line = area.words()[place(line) * LINE];
            steps += 1;
        }
        assert_eq!(steps, cycle.lines);
    }

    #[test]
    fn a_chase_knows_where_it_must_be() {
        let (mut area, cycle, expected) = laid();
        let chased = |area: &Area| {
            let mut chases = Chases::new(area.words(), &cycle, 2);
            let done = slices::run(
                &mut chases,
                2,
                &Reporter::new("test", 1, true),
                &mut Stop::new(Some(0.05), false),
            )
            .unwrap();
            assert!(done.operations > 0);
            chases.are_right(&cycle)
        };
        assert!(chased(&area));
        // The line after the first: both ways soon pass it.
        let word = place(cycle.line(1)) * LINE;
        area.words_mut()[word] = u64::MAX;
        assert_ne!(sum(&area), expected);
        assert!(!chased(&area));
    }
}
