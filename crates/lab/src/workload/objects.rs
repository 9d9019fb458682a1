//! Objects of one page each, written one after the other, and an index of them: memory that grows like that of an
//! in-memory store.

use super::access::{sum, weight};
use super::first_touch::FirstTouches;
use crate::error::Error;
use crate::mapping::{Area, WORDS_PER_PAGE};
use crate::random::mix;

/// Words of the index for each object: two slots of a key and a place, so that every other slot is free.
const INDEX: usize = 4;
/// Words in a slot.
const SLOT: usize = 2;

/// An index and the objects, in one area.
pub(super) struct Objects {
    area: Area,
    /// Pages that were touched: those of all objects, and those of the index that an entry is in.
    pages: usize,
    /// What the sum of all words, each weighed by its place, must be.
    expected: u64,
}

impl Objects {
    /// Fills the area with objects, timing the first touch of each page.
    pub(super) fn grow(area: Area, seed: u64, touches: &mut FirstTouches) -> Result<Self, Error> {
        let most = area.pages();
        let index = (most * INDEX).div_ceil(WORDS_PER_PAGE);
        let mut growth = Growth {
            area,
            index_touched: vec![false; index],
            objects: most - index,
            expected: 0,
        };
        let mut pages = 0;
        touches.timed(most, |cycles| {
            for number in 0..growth.objects {
                growth.add(number, mix(seed.wrapping_add(number as u64)), cycles);
            }
            pages = cycles.len();
        })?;
        Ok(Objects {
            area: growth.area,
            pages,
            expected: growth.expected,
        })
    }

    pub(super) fn area(&self) -> &Area {
        &self.area
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// What the content comes to, and what it must.
    pub(super) fn sums(&self) -> (u64, u64) {
        (sum(&self.area), self.expected)
    }
}

/// Objects on their way.
struct Growth {
    area: Area,
    /// Of each page of the index, which comes before the objects, whether it was touched.
    index_touched: Vec<bool>,
    objects: usize,
    expected: u64,
}

impl Growth {
    /// Writes an object and its entry; pushes the cycles of each first touch of a page.
    fn add(&mut self, number: usize, key: u64, cycles: &mut Vec<u64>) {
        let first = (self.index_touched.len() + number) * WORDS_PER_PAGE;
        cycles.push(self.store(first, key));
        for word in first + 1..first + WORDS_PER_PAGE {
            self.area.words_mut()[word] = key;
            self.expect(word, key);
        }
        let slot = self.free_slot(key, cycles);
        self.area.words_mut()[slot] = key;
        self.area.words_mut()[slot + 1] = first as u64;
        self.expect(slot, key);
        self.expect(slot + 1, first as u64);
    }

    /// The slot for a key: linear probing. A page of the index that was not touched yet holds no entry, and is touched first
    /// by a store, as is timed.
    fn free_slot(&mut self, key: u64, cycles: &mut Vec<u64>) -> usize {
        let slots = self.objects * INDEX / SLOT;
        let mut slot = crate::random::below(key, slots);
        loop {
            let word = slot * SLOT;
            let page = word / WORDS_PER_PAGE;
            if !self.index_touched[page] {
                self.index_touched[page] = true;
                cycles.push(self.area.timed_store(word, 0));
            }
            // A place is never 0: the index comes first.
            if self.area.words()[word + 1] == 0 {
                return word;
            }
            slot = (slot + 1) % slots;
        }
    }

    fn store(&mut self, word: usize, value: u64) -> u64 {
        self.expect(word, value);
        self.area.timed_store(word, value)
    }

    fn expect(&mut self, word: usize, value: u64) {
        let weighed = value.wrapping_mul(weight(word));
        self.expected = self.expected.wrapping_add(weighed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::map;
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn every_object_has_its_entry_and_a_lost_word_shows() {
        let mut touches = FirstTouches::new().unwrap();
        let mut objects = Objects::grow(map(4 * HUGE_PAGE).unwrap(), 2, &mut touches).unwrap();
        assert_eq!(objects.pages(), objects.area.pages());
        assert_eq!(touches.count(), objects.pages() as u64);
        let (found, expected) = objects.sums();
        assert_eq!(found, expected);

        let index = objects.area.pages() * INDEX / WORDS_PER_PAGE * WORDS_PER_PAGE;
        let words = objects.area.words();
        let entries = words[..index].chunks(SLOT).filter(|slot| slot[1] != 0);
        assert_eq!(entries.count(), (words.len() - index) / WORDS_PER_PAGE);

        objects.area.words_mut()[index + 700] ^= 1;
        assert_ne!(objects.sums().0, expected);
    }
}
