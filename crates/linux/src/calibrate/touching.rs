//! The ways of touching pages, as loops over words. All but the first of each page are 0, which no compiler knows.

#![allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use mega_core::worth::{TOUCHES_PER_VISIT, Touching};
use mega_core::{HUGE_PAGE_SIZE, mix};

use super::layout::Half;

/// Words in a base page, and in a cache line.
const PAGE: usize = 512;
const LINE: usize = 8;
/// Words of a region, and touches of a visit to it.
const REGION: usize = (HUGE_PAGE_SIZE / 8) as usize;
const VISIT: usize = TOUCHES_PER_VISIT as usize;
/// Steps of arithmetic between two touches of [`Touching::Worked`].
const STEPS: u32 = 64;
/// Words of a row of [`Touching::Rows`]: 1 KiB.
const ROW: usize = 128;
/// Cache lines that are read between two touches of [`Touching::Busy`]: 16 KiB.
const LINES_OF_WORK: usize = 256;

/// Touches `words`, a power of two of them, about `touches` times in this way. Whoever is busy reads `work`, as many words as a power of
/// two, in between.
pub(super) fn touch(
    how: Touching,
    words: Half<'_>,
    work: &[AtomicU64],
    touches: usize,
    random: &mut Random,
) {
    match how {
        Touching::Serial => chains::<1>(words, touches, random),
        Touching::TwoChains => chains::<2>(words, touches, random),
        Touching::FourChains => chains::<4>(words, touches, random),
        Touching::Overlapped => overlapped(words, touches, random),
        Touching::Worked => worked(words, touches, random),
        Touching::Rows => rows(words, touches, random),
        Touching::Neighbours => neighbours(words, touches, random),
        Touching::Stream => stream(words, touches, random),
        Touching::Busy => busy(words, work, touches, random),
        Touching::Visits => visits(words, touches, random),
        Touching::SerialVisits => serial_visits(words, touches, random),
    }
}

/// Reads a word of each cache line of a working set that a cache may hold, up to 128 MiB, and of each page of a larger one: what caches can
/// keep of it between two uses is there afterwards. From page to page the word moves by some lines, or all would fall into one set of the
/// cache.
pub(super) fn warm(words: Half<'_>) {
    const CACHED: usize = 16 << 20;
    let step = if words.len() > CACHED { PAGE } else { LINE };
    let mut sum = 0;
    for (number, index) in (0..words.len()).step_by(step).enumerate() {
        let shift = if step < PAGE {
            0
        } else {
            number * 5 * LINE % PAGE
        };
        sum ^= words.read((index + shift) % words.len());
    }
    black_box(sum);
}

/// So many chains at once: the next address of each is known when its last touch is done.
fn chains<const N: usize>(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut states = [(); N].map(|()| random.apart());
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

fn busy(words: Half<'_>, work: &[AtomicU64], touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut chain = random.apart();
    let mut place = random.next() as usize & !(LINE - 1);
    let mut found = 0;
    let mut sum = 0;
    for _ in 0..touches {
        let index = chain.next().wrapping_add(found);
        found = words.read(index as usize & mask);
        for line in 0..LINES_OF_WORK {
            let word = (place + line * LINE) & (work.len() - 1);
            sum ^= work[word].load(Ordering::Relaxed);
        }
        place = place.wrapping_add(LINES_OF_WORK * LINE);
    }
    black_box((found, sum));
}

fn visits(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let step = REGION / VISIT;
    let mut sum = 0;
    for _ in 0..touches / VISIT {
        let start = random.next() as usize & mask & !(REGION - 1);
        for page in 0..VISIT {
            let word = random.next() as usize % PAGE;
            sum ^= words.read(start + page * step + word);
        }
    }
    black_box(sum);
}

fn serial_visits(words: Half<'_>, touches: usize, random: &mut Random) {
    let mask = words.len() - 1;
    let mut chain = random.apart();
    let mut found = 0;
    for _ in 0..touches / VISIT {
        let start = chain.next().wrapping_add(found) as usize & mask & !(REGION - 1);
        for _ in 0..VISIT {
            let word = chain.next().wrapping_add(found) as usize % REGION;
            found = words.read(start + word);
        }
    }
    black_box(found);
}

/// Numbers that no prefetcher guesses (Marsaglia's xorshift64). Each touch takes one, so it is as cheap as can be.
#[derive(Clone, Copy)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Self {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    /// Another sequence. One that began with a number of this one would go through the same numbers, so that what the one touches the
    /// other finds in the caches.
    fn apart(&mut self) -> Random {
        // Zero would stay zero.
        Random(mix(self.next()).max(1))
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What one chain touches, no other finds in the caches; nor what was touched the last time.
    #[test]
    fn chains_go_through_numbers_of_their_own() {
        const CHAINS: usize = 4;
        const LENGTH: usize = 10_000;
        let mut random = Random::new();
        let mut seen = BTreeSet::new();
        for _ in 0..2 * CHAINS {
            let mut chain = random.apart();
            seen.extend(std::iter::repeat_with(|| chain.next()).take(LENGTH));
        }
        assert_eq!(seen.len(), 2 * CHAINS * LENGTH);
    }
}
