//! The ways in which workloads use memory.

use super::arguments::Common;
use super::report::{Accessed, AreaReport, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE, PAGE, WORDS_PER_PAGE};
use crate::random::mix;
use crate::translations::Translations;

/// Of a sparse area, one base page in this many is touched.
pub(super) const SPARSE: usize = 8;
/// Of a `zeros` area, one base page in this many is not zero.
pub(super) const NOT_ZERO: usize = 4;

/// Maps `bytes`, or says what failed.
pub(super) fn map(bytes: usize) -> Result<Area, Error> {
    Area::map(bytes).map_err(|e| Error::io(format!("mapping {bytes} bytes of memory"), e))
}

/// Asks for huge pages for memory that is touched already, where `--advise` says so.
pub(super) fn advise(area: &Area, common: &Common) -> Result<(), Error> {
    if !common.advise {
        return Ok(());
    }
    area.advise_huge()
        .map_err(|e| Error::io("asking for huge pages by MADV_HUGEPAGE", e))
}

/// Tells that the workload's one area is touched all over, and is used all over from now on.
pub(super) fn ready(
    name: &str,
    area: &Area,
    common: &Common,
    reporter: &Reporter,
) -> Result<(), Error> {
    advise(area, common)?;
    let report = AreaReport::new(name, area, area.pages(), Accessed::EveryPage);
    reporter.ready(vec![report])
}

/// A word as a place in memory; one beyond any memory where it is none.
pub(super) fn place(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

/// The word that the first touch of a page stores at its start; never zero.
pub(super) fn mark(seed: u64, page: usize) -> u64 {
    mix(seed ^ page as u64) | 1
}

/// Touches one page in `step` from the first on; returns how many that were.
pub(super) fn touch(area: &mut Area, step: usize, seed: u64) -> usize {
    let mut touched = 0;
    for page in (0..area.pages()).step_by(step) {
        area.words_mut()[page * WORDS_PER_PAGE] = mark(seed, page);
        touched += 1;
    }
    touched
}

/// The weight of a word in [`sum`]: odd, and different for every place, so that a word that moved shows.
pub(super) fn weight(word: usize) -> u64 {
    (word as u64).wrapping_mul(2).wrapping_add(1)
}

/// The sum of all words, each weighed by its place.
pub(super) fn sum(area: &Area) -> u64 {
    sum_of_pages(area, 1)
}

/// The same over one page in `step` only: the others are not read, and so not mapped if they were not.
pub(super) fn sum_of_pages(area: &Area, step: usize) -> u64 {
    area.words()
        .chunks(WORDS_PER_PAGE)
        .enumerate()
        .step_by(step)
        .fold(0, |sum: u64, (page, words)| {
            let first = page * WORDS_PER_PAGE;
            words.iter().enumerate().fold(sum, |sum, (index, word)| {
                sum.wrapping_add(word.wrapping_mul(weight(first + index)))
            })
        })
}

/// What [`sum`] must be after one page in `step` was touched.
pub(super) fn sum_of_touched(area: &Area, step: usize, seed: u64) -> u64 {
    (0..area.pages()).step_by(step).fold(0, |sum: u64, page| {
        sum.wrapping_add(mark(seed, page).wrapping_mul(weight(page * WORDS_PER_PAGE)))
    })
}

/// Reads and writes one word of every page of the first `bytes`, again and again until `stop`, each time through the
/// page tables; returns the passes made. Adds one and takes it away again in turn: after an even number of passes the
/// content is as before, so it makes one more if need be.
pub(super) fn sweep(area: &mut Area, bytes: usize, stop: &Stop) -> Result<u64, Error> {
    let forgetting = |e| Error::io("having the TLB flushed", e);
    let mut translations = Translations::new().map_err(forgetting)?;
    let mut passes = 0_u64;
    while passes == 0 || !passes.is_multiple_of(2) || !stop.reached() {
        let change = if passes.is_multiple_of(2) {
            1
        } else {
            u64::MAX
        };
        for page in area.words_mut()[..bytes / 8].chunks_mut(WORDS_PER_PAGE) {
            page[0] = std::hint::black_box(page[0]).wrapping_add(change);
        }
        passes += 1;
        translations.forget().map_err(forgetting)?;
    }
    Ok(passes)
}

/// Half of an area, in whole huge pages, at least one.
pub(super) fn half(area: &Area) -> usize {
    (area.bytes() / 2).next_multiple_of(HUGE_PAGE)
}

/// Base pages in `bytes`.
pub(super) fn pages(bytes: usize) -> u64 {
    (bytes / PAGE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_tells_a_word_that_moved() {
        let mut area = map(HUGE_PAGE).unwrap();
        touch(&mut area, 1, 3);
        assert_eq!(sum(&area), sum_of_touched(&area, 1, 3));
        area.words_mut().swap(0, 512);
        assert_ne!(sum(&area), sum_of_touched(&area, 1, 3));
    }

    #[test]
    fn a_sweep_leaves_the_content() {
        let mut area = map(2 * HUGE_PAGE).unwrap();
        touch(&mut area, 2, 5);
        let before = sum(&area);
        assert!(sweep(&mut area, HUGE_PAGE, &Stop::new(Some(0.005), false)).unwrap() > 0);
        assert_eq!(sum(&area), before);
    }
}
