//! Memory in which every page says which one it is, so that a test can see that moved pages arrived.

use crate::error::Error;
use crate::mapping::{Area, PAGE, WORDS_PER_PAGE};
use crate::random::mix;

/// An area of base pages, some of them touched.
pub(super) struct Contents {
    area: Area,
    touched: Vec<bool>,
}

impl Contents {
    /// Maps `bytes` and touches nothing.
    pub(super) fn map(bytes: usize) -> Result<Self, Error> {
        let area =
            Area::map(bytes).map_err(|error| Error::io(format!("map {bytes} bytes"), error))?;
        area.advise_base()
            .map_err(|error| Error::io("ask for base pages", error))?;
        let touched = vec![false; area.pages()];
        Ok(Contents { area, touched })
    }

    pub(super) fn pages(&self) -> usize {
        self.touched.len()
    }

    pub(super) fn addresses(&self) -> std::ops::Range<u64> {
        self.area.start()..self.area.start() + self.area.bytes() as u64
    }

    /// Touches a page for the first time, or again.
    pub(super) fn touch(&mut self, page: usize) {
        self.area.words_mut()[page * WORDS_PER_PAGE] = stamp(page);
        self.touched[page] = true;
    }

    /// Gives pages back.
    pub(super) fn free(&mut self, pages: std::ops::Range<usize>) -> Result<(), Error> {
        let end = pages.end.min(self.pages());
        self.touched[pages.start.min(end)..end].fill(false);
        self.area
            .give_back_pages(pages)
            .map_err(|error| Error::io("give pages back", error))
    }

    /// Reads every page that was touched.
    ///
    /// Fails where one does not hold what was written.
    pub(super) fn read_all(&self) -> Result<(), Error> {
        let words = self.area.words();
        let touched = self
            .touched
            .iter()
            .enumerate()
            .filter(|(_, touched)| **touched);
        for (page, _) in touched {
            let (found, written) = (words[page * WORDS_PER_PAGE], stamp(page));
            if found != written {
                let address = self.area.start() + (page * PAGE) as u64;
                return Err(Error::Failed(format!(
                    "the page at {address:#x} holds {found:#x}, and {written:#x} was written: it was lost on the way"
                )));
            }
        }
        Ok(())
    }
}

/// What a page holds: never 0.
pub(super) fn stamp(page: usize) -> u64 {
    mix(page as u64) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_not_expected() {
        let mut contents = Contents::map(1 << 21).unwrap();
        (0..contents.pages()).for_each(|page| contents.touch(page));
        contents.free(3..100).unwrap();
        contents.read_all().unwrap();
    }

    #[test]
    fn a_lost_page_is_noticed() {
        let mut contents = Contents::map(1 << 21).unwrap();
        contents.touch(7);
        contents.area.give_back_pages(7..8).unwrap();
        assert!(contents.read_all().is_err());
    }
}
