//! The address translations that CPUs keep of this process.
//!
//! A CPU sets Accessed bits when it walks the page tables, not while the TLB still knows a page. A processor soon
//! forgets old translations by itself. An emulated one may keep more than a program has.

use std::io;

use crate::mapping::{Area, WORDS_PER_PAGE};

/// Pages unmapped at once. From 34 on the kernel flushes all of a process's translations instead of each page's
/// (`tlb_single_page_flush_ceiling`, arch/x86/mm/tlb.c).
const PAGES: usize = 64;

/// Makes CPUs forget this process's translations.
#[derive(Debug)]
pub struct Translations {
    scratch: Area,
}

impl Translations {
    /// Maps the little memory that it needs.
    ///
    /// # Errors
    /// As `mmap` and `madvise`.
    pub fn new() -> io::Result<Self> {
        let scratch = Area::map(PAGES * crate::mapping::PAGE)?;
        scratch.advise_base()?;
        Ok(Translations { scratch })
    }

    /// The next access to each page of this process walks the page tables.
    ///
    /// # Errors
    /// As `madvise`.
    pub fn forget(&mut self) -> io::Result<()> {
        for page in 0..PAGES {
            self.scratch.words_mut()[page * WORDS_PER_PAGE] = 1;
        }
        self.scratch.give_back_pages(0..PAGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_can_be_forgotten_again_and_again() {
        let mut translations = Translations::new().unwrap();
        translations.forget().unwrap();
        translations.forget().unwrap();
        assert!(translations.scratch.words().iter().all(|word| *word == 0));
    }
}
