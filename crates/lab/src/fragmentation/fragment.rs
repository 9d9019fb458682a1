//! Fragmented memory: filled by one program, which then frees pages at random.
//!
//! Of each stretch of memory a random share of the pages is kept, page by page at random. That leaves no whole block
//! free, and chunks that are unequally full.

use std::ops::RangeInclusive;

use mega_linux::kernel::LiveKernel;

use super::contents::Contents;
use super::period::{machine_bytes, of_linux};
use crate::error::Error;
use crate::mapping::PAGE;
use crate::random::{Random, below};

/// Memory with one density: 512 MiB.
const STRETCH: usize = (512 << 20) / PAGE;
/// Pages that one page of page table entries maps.
const PAGES_PER_TABLE: usize = 512;

/// Part of memory that is left in free blocks when memory is filled: 1 in 48, so that nothing is killed for it. In a
/// guest of 7 GiB the kernel keeps 1 in 70 from programs.
const LEFT_OVER: u64 = 48;
/// Pages touched between two looks at how much is left: 16 MiB.
const PAGES_BETWEEN_LOOKS: usize = 4096;

/// Fills memory and thins it out: keeps, of each 512 MiB, a share of the pages that is drawn from `percent`.
pub(super) fn fragment(seed: u64, percent: RangeInclusive<usize>) -> Result<Contents, Error> {
    let total = usize::try_from(machine_bytes()?).unwrap_or(usize::MAX);
    let mut contents = Contents::map(total)?;
    // The page tables first: they are unmovable, and lie together while memory is still empty.
    (0..contents.pages())
        .step_by(PAGES_PER_TABLE)
        .for_each(|page| contents.touch(page));
    let filled = fill(&mut contents)?;
    let mut random = Random::new(seed);
    for stretch in (0..filled).step_by(STRETCH) {
        let keep = percent.start() + below(random.word(), percent.end() - percent.start() + 1);
        let end = (stretch + STRETCH).min(filled);
        let mut first = stretch;
        for page in stretch..end {
            if below(random.word(), 100) < keep {
                contents.free(first..page)?;
                first = page + 1;
            }
        }
        contents.free(first..end)?;
    }
    Ok(contents)
}

/// Touches page after page until almost nothing is left in free blocks, and returns how many.
fn fill(contents: &mut Contents) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < contents.pages() {
        let memory = mega_linux::observe::memory::observe(&LiveKernel).map_err(of_linux)?;
        if memory.contiguity < memory.total / LEFT_OVER {
            break;
        }
        let end = (filled + PAGES_BETWEEN_LOOKS).min(contents.pages());
        (filled..end).for_each(|page| contents.touch(page));
        filled = end;
    }
    Ok(filled)
}
