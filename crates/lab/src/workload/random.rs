//! `random`: updates of random words all over dense memory, far past the TLB's reach.

use super::Common;
use super::access::{map, sum, sum_of_touched, touch, update_at_random};
use super::report::{Accessed, AreaReport, Done, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::Area;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    run_over(common.size(), common, reporter, stop)
}

/// The same over `bytes`.
pub(super) fn run_over(
    bytes: usize,
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(bytes)?;
    let touched = touch(&mut area, 1, common.seed);
    let report = AreaReport::new("random", &area, touched, Accessed::EveryPage);
    reporter.ready(vec![report])?;
    update(&mut area, common.seed, stop)
}

/// Updates an area, of which every page was touched with the seed, until `stop`, then checks its sum.
pub(super) fn update(area: &mut Area, seed: u64, stop: &mut Stop) -> Result<Done, Error> {
    let before = sum_of_touched(area, 1, seed);
    let updates = update_at_random(area, seed, stop);
    // Resident memory is taken before the check, which touches every page.
    let mut done = Done::new(updates.elapsed, updates.count)?;
    done.steady_operations_per_second = updates.steady;
    done.operations_per_second_over_time = updates.over_time;
    Ok(done.checked(sum(area), before.wrapping_add(updates.added)))
}
