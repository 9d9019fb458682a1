//! One allocation of a fragmenter: base pages that each hold a mark.

use crate::error::Error;
use crate::mapping::{Area, PAGE, WORDS_PER_PAGE};
use crate::workload::access::{map, mark, touch};

/// Pages in a piece that is given back: 1 MiB of them, half a huge page (MEGA, section 4.5).
const PIECE: usize = (1 << 20) / PAGE;

/// Base pages of which all, or every other piece, hold a mark.
pub(super) struct Generation {
    area: Area,
    seed: u64,
    /// Whether every other piece was given back.
    halved: bool,
}

impl Generation {
    /// Maps `bytes`, rounded up to whole huge pages, for base pages only: memory is to be in the same pieces whatever
    /// the machine's THP mode. Nothing is touched.
    pub(super) fn map(bytes: usize, seed: u64) -> Result<Self, Error> {
        let area = map(bytes)?;
        area.advise_base()
            .map_err(|e| Error::io("asking for base pages by MADV_NOHUGEPAGE", e))?;
        Ok(Generation {
            area,
            seed,
            halved: false,
        })
    }

    /// Maps `bytes` and touches every page.
    pub(super) fn allocate(bytes: usize, seed: u64) -> Result<Self, Error> {
        let mut generation = Generation::map(bytes, seed)?;
        touch(&mut generation.area, 1, seed);
        Ok(generation)
    }

    /// Touches one page.
    pub(super) fn touch_page(&mut self, page: usize) {
        self.area.words_mut()[page * WORDS_PER_PAGE] = mark(self.seed, page);
    }

    /// Gives every other piece of 1 MiB back.
    pub(super) fn halve(&mut self) -> Result<(), Error> {
        for start in (PIECE..self.area.pages()).step_by(2 * PIECE) {
            self.area
                .give_back_pages(start..start + PIECE)
                .map_err(|e| Error::io("giving 1 MiB of memory back by MADV_DONTNEED", e))?;
        }
        self.halved = true;
        Ok(())
    }

    /// Pages that it holds whose mark is gone.
    pub(super) fn wrong_pages(&self) -> u64 {
        let kept = |page: &usize| !self.halved || (page / PIECE).is_multiple_of(2);
        let words = self.area.words();
        let wrong = (0..self.area.pages())
            .filter(kept)
            .filter(|page| words[page * WORDS_PER_PAGE] != mark(self.seed, *page));
        wrong.count() as u64
    }

    pub(super) fn area(&self) -> &Area {
        &self.area
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_it_holds_its_marks() {
        let mut generation = Generation::allocate(4 << 20, 3).unwrap();
        generation.halve().unwrap();
        assert_eq!(generation.wrong_pages(), 0);
        let words = generation.area.words();
        assert_eq!(words[PIECE * WORDS_PER_PAGE], 0);
        assert_ne!(words[2 * PIECE * WORDS_PER_PAGE], 0);
        generation.area.words_mut()[0] ^= 1;
        assert_eq!(generation.wrong_pages(), 1);
    }
}
