//! `xs-lookup`: macroscopic cross sections of materials at random energies, as `XSBench` looks them up: a binary search in
//! the grid of all nuclides' energies, then the data of every nuclide in the material on both sides of the energy.

use super::access::{map, ready, sum};
use super::arguments::Parallel;
use super::cross_sections::{CrossSections, fill};
use super::look_ups::LookUps;
use super::report::{Done, Reporter};
use super::slices;
use super::stop::Stop;
use crate::error::Error;

/// Look-ups that are checked.
const CHECKED: u64 = 1000;

pub(super) fn run(
    parallel: &Parallel,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let common = &parallel.common;
    let mut area = map(common.size())?;
    fill(area.words_mut(), common.seed);
    let before = sum(&area);
    ready("xs-lookup", &area, common, reporter)?;
    let data = CrossSections::of(area.words(), common.seed);
    let look_up = |number| {
        std::hint::black_box(data.look_up(number));
        true
    };
    let mut look_ups = LookUps::new(parallel.threads, u64::MAX, look_up);
    let done = slices::run(&mut look_ups, parallel.threads, reporter, stop)?;
    let found = hash(|number| data.look_up(number));
    let expected = hash(|number| data.look_up_without_index(number));
    let unchanged = sum(&area) == before;
    Ok(done.checked(found, expected).and(unchanged))
}

/// A hash over what the first look-ups find.
fn hash(look_up: impl Fn(u64) -> [f64; 5]) -> u64 {
    (0..CHECKED)
        .flat_map(look_up)
        .fold(0, |hash: u64, value| hash.rotate_left(5) ^ value.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE;

    #[test]
    fn the_index_leads_to_the_same_as_a_search_of_every_nuclide() {
        let mut area = map(2 * HUGE_PAGE).unwrap();
        fill(area.words_mut(), 4);
        let before = sum(&area);
        let hashes = |words: &[u64]| {
            let data = CrossSections::of(words, 4);
            let by_index = hash(|number| data.look_up(number));
            (by_index, hash(|number| data.look_up_without_index(number)))
        };
        let (found, expected) = hashes(area.words());
        assert_eq!(found, expected);
        // A part of the index that many look-ups need.
        let middle = area.words().len() / 2;
        area.words_mut()[middle..middle + 20_000].fill(0);
        assert_ne!(sum(&area), before);
        let (found, expected) = hashes(area.words());
        assert_ne!(found, expected);
    }
}
