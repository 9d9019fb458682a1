//! `cycle`: maps all of its memory, writes it, reads it once and frees it, again and again (MEGA, section 4.2, table
//! 5). An operation is one such round.

use super::access::{advise, map, sum, sum_of_touched, touch};
use super::arguments::Common;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    // No area is told: none lasts.
    reporter.ready(Vec::new())?;
    stop.start();
    let (mut rounds, mut wrong) = (0, 0);
    // At least one, so that there is a time to tell.
    while rounds == 0 || !stop.reached() {
        wrong += u64::from(!round(common, common.seed.wrapping_add(rounds))?);
        rounds += 1;
    }
    Ok(Done::new(stop.elapsed(), rounds)?.checked(wrong, 0))
}

/// One round; whether the memory held what was written.
fn round(common: &Common, seed: u64) -> Result<bool, Error> {
    let mut area = map(common.size())?;
    touch(&mut area, 1, seed);
    advise(&area, common)?;
    Ok(sum(&area) == sum_of_touched(&area, 1, seed))
}
