//! The ways of touching pages, as loops over words. All but the first of each page are 0, which no compiler knows.

#![allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]

use std::hint::black_box;

use mega_core::worth::Touching;

use super::layout::Half;

/// Words in a base page, and in a cache line.
const PAGE: usize = 512;
const LINE: usize = 8;
/// Steps of arithmetic between two touches of [`Touching::Worked`].
const STEPS: u32 = 64;
/// Words of a row of [`Touching::Rows`]: 1 KiB.
const ROW: usize = 128;

/// Touches `words`, a power of two of them, about `touches` times in this way.
pub(super) fn touch(how: Touching, words: Half<'_>, touches: usize, random: &mut Random) {
    match how {
        Touching::Serial => chains::<1>(words, touches, random),
        Touching::TwoChains => chains::<2>(words, touches, random),
        Touching::FourChains => chains::<4>(words, touches, random),
        Touching::Overlapped => overlapped(words, touches, random),
        Touching::Worked => worked(words, touches, random),
        Touching::Rows => rows(words, touches, random),
        Touching::Neighbours => neighbours(words, touches, random),
        Touching::Stream => stream(words, touches, random),
    }
}

/// Reads a word of each cache line of a small working set, and of each page of a large one: what caches can keep of it
/// between two uses is there afterwards.
pub(super) fn warm(words: Half<'_>) {
    /// Words of a working set whose lines a cache may hold: 128 MiB.
    const SMALL: usize = 16 << 20;
    let step = if words.len() > SMALL { PAGE } else { LINE };
    let mut sum = 0;
    // From page to page the word moves by some lines, or all would fall into one set of the cache.
    for (number, index) in (0..words.len()).step_by(step).enumerate() {
        let shift = if step == PAGE {
            number * 5 * LINE % PAGE
        } else {
            0
        };
        sum ^= words.read((index + shift) % words.len());
    }
    black_box(sum);
}

/// So many chains at once: the next address of each is known when its last touch is done.
fn chains<const N: usize>(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut states = [(); N].map(|()| Random(random.next()));
    let mut found = [0; N];
    for _ in 0..touches / N {
        for chain in 0..N {
            let index = states[chain].next().wrapping_add(found[chain]);
            found[chain] = words.read(index as usize & mask);
        }
    }
    black_box(found);
}

fn overlapped(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut sum = 0;
    for _ in 0..touches {
        sum ^= words.read(random.next() as usize & mask);
    }
    black_box(sum);
}

fn worked(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut sum = 0;
    for _ in 0..touches {
        for _ in 1..STEPS {
            random.next();
        }
        sum ^= words.read(random.next() as usize & mask);
    }
    black_box(sum);
}

fn rows(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut sum = 0;
    for _ in 0..touches {
        let start = random.next() as usize & mask & !(ROW - 1);
        for index in start..start + ROW {
            sum ^= words.read(index);
        }
    }
    black_box(sum);
}

fn neighbours(words: Half<'_>, touches: usize, random: &mut Random) {
    const PAGES: usize = 8;
    let mask = words.len() - 1;
    let mut sum = 0;
    for _ in 0..touches / PAGES {
        let number = random.next() as usize;
        let start = number & mask & !(PAGES * PAGE - 1);
        let word = (number >> 50) % PAGE;
        for page in 0..PAGES {
            let index = start + page * PAGE + (word + page * 9 * LINE) % PAGE;
            sum ^= words.read(index);
        }
    }
    black_box(sum);
}

fn stream(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut page = random.next() as usize & mask & !(PAGE - 1);
    let mut sum = 0;
    for _ in 0..touches {
        for index in (page..page + PAGE).step_by(LINE) {
            sum ^= words.read(index);
        }
        page = (page + PAGE) & mask;
    }
    black_box(sum);
}

/// Numbers that no prefetcher guesses (Marsaglia's xorshift64). Each touch takes one, so it is as cheap as can be.
#[derive(Clone, Copy)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Self {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
