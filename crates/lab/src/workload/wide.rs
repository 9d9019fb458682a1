//! `wide`: one page in each region of a large address space, touched again and again: as many page tables as pages.

use super::access::{map, mark};
use super::arguments::Common;
use super::report::{Accessed, AreaReport, Done, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{HUGE_PAGE, PAGE};

/// Words from one region to the next.
const STEP: usize = HUGE_PAGE / 8;
/// Base pages from one region to the next.
const PAGES: usize = HUGE_PAGE / PAGE;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(common.size())?;
    let regions = area.bytes() / HUGE_PAGE;
    for region in 0..regions {
        area.words_mut()[region * STEP] = mark(common.seed, region * PAGES);
    }
    reporter.ready(vec![AreaReport::new(
        "wide",
        &area,
        regions,
        Accessed::None,
    )])?;
    let mut rounds: u64 = 0;
    stop.start();
    while !stop.reached() {
        for region in 0..regions {
            let word = &mut area.words_mut()[region * STEP];
            *word = word.wrapping_add(1);
        }
        rounds += 1;
    }
    let done = Done::new(stop.elapsed(), rounds * regions as u64)?;
    let marks = (0..regions).map(|region| mark(common.seed, region * PAGES).wrapping_add(rounds));
    let found = (0..regions).map(|region| area.words()[region * STEP]);
    let sum = |words: &mut dyn Iterator<Item = u64>| words.fold(0, u64::wrapping_add);
    Ok(done.checked(sum(&mut { found }), sum(&mut { marks })))
}
