//! `paced`: reads random cache lines all over its memory, one every so long as a read takes that waits for the one before it. It looks
//! like `chase` to whoever sees pages: as many of them, as often, in as random an order. But its addresses do not come from what it
//! read, and it computes in between, so the processor has the next line by the time that it is asked for.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::access::{map, ready, sum, weight};
use super::arguments::Common;
use super::report::{Done, Reporter};
use super::slices::{self, Work, until};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::Area;
use crate::random::{Random, below, mix};

/// Words in a cache line.
const LINE: usize = 8;
/// Reads between two looks at the clock: a millisecond or so.
const BATCH: u64 = 1 << 12;
/// How long the pace is measured: hundreds of thousands of reads.
const PACE: Duration = Duration::from_millis(100);
/// How long a guess is tried, and how many guesses there are.
const GUESS: Duration = Duration::from_millis(25);
const GUESSES: usize = 6;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(common.size())?;
    let expected = fill(&mut area, common.seed);
    let mut reads = Reads::new(area.words(), common.seed);
    reads.keep_pace(pace(area.words(), common.seed));
    ready("paced", &area, common, reporter)?;
    let done = slices::run(&mut reads, 1, reporter, stop)?;
    let right = reads.right;
    Ok(done.checked(sum(&area), expected).and(right))
}

/// What a line begins with.
fn content(seed: u64, line: usize) -> u64 {
    mix(seed ^ line as u64) | 1
}

/// Writes the beginning of each line; returns what [`sum`] is then.
fn fill(area: &mut Area, seed: u64) -> u64 {
    let mut sum: u64 = 0;
    for (line, words) in area.words_mut().chunks_mut(LINE).enumerate() {
        words[0] = content(seed, line);
        sum = sum.wrapping_add(words[0].wrapping_mul(weight(line * LINE)));
    }
    sum
}

/// Nanoseconds of a read whose address comes from the read before.
fn pace(words: &[u64], seed: u64) -> f64 {
    let mut random = Random::new(mix(seed));
    let mut found = 0;
    ns_each(PACE, || {
        for _ in 0..BATCH {
            let line = below(mix(random.word() ^ found), words.len() / LINE);
            found = words[line * LINE];
        }
        black_box(found);
    })
}

/// Nanoseconds of each of a batch's reads, for about that long.
fn ns_each(time: Duration, mut batch: impl FnMut()) -> f64 {
    let from = Instant::now();
    let reads = until(from + time, || {
        batch();
        BATCH
    });
    #[allow(clippy::cast_precision_loss)] // far below 2^52 reads
    let reads = reads as f64;
    from.elapsed().as_secs_f64() * 1e9 / reads
}

/// Reads of random lines, with arithmetic in between.
struct Reads<'a> {
    words: &'a [u64],
    seed: u64,
    random: Random,
    /// Square roots after each read.
    roots: u32,
    /// What the last of them gave.
    root: f64,
    /// Whether each line held what was written there.
    right: bool,
}

impl<'a> Reads<'a> {
    fn new(words: &'a [u64], seed: u64) -> Self {
        Reads {
            words,
            seed,
            random: Random::new(mix(seed.wrapping_add(1))),
            roots: 16,
            root: 1.0,
            right: true,
        }
    }

    /// Computes as much as makes each read take so many nanoseconds.
    fn keep_pace(&mut self, pace: f64) {
        for _ in 0..GUESSES {
            let now = ns_each(GUESS, || self.batch());
            let roots = f64::from(self.roots) * pace / now;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within these ends
            let roots = roots.round().clamp(1.0, 1e4) as u32;
            self.roots = roots;
        }
    }

    fn batch(&mut self) {
        let mut root = self.root;
        let mut other = 0;
        for _ in 0..BATCH {
            let line = below(self.random.word(), self.words.len() / LINE);
            other |= self.words[line * LINE] ^ content(self.seed, line);
            // Each waits for the one before it, and takes few instructions for its time: the processor reads on meanwhile.
            for _ in 0..self.roots {
                root = (root + 1.5).sqrt();
            }
        }
        self.root = black_box(root);
        self.right &= other == 0;
    }
}

impl Work for Reads<'_> {
    /// In one thread, however many there are to be.
    fn work(&mut self, _threads: usize, end: Instant) -> u64 {
        until(end, || {
            self.batch();
            BATCH
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn it_finds_what_it_wrote_and_says_where_it_does_not() {
        let mut area = map(HUGE_PAGE).unwrap();
        let expected = fill(&mut area, 5);
        assert_eq!(sum(&area), expected);
        let is_right = |area: &Area| {
            let mut reads = Reads::new(area.words(), 5);
            reads.keep_pace(pace(area.words(), 5));
            for _ in 0..64 {
                reads.batch();
            }
            reads.right
        };
        assert!(is_right(&area));
        // One line in eight: it reads each line several times.
        for words in area.words_mut().chunks_mut(8 * LINE) {
            words[0] ^= 1;
        }
        assert!(!is_right(&area));
    }
}
