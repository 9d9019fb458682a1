//! `grow`: memory touched page by page, as an allocator hands it out; every first touch is timed.

use super::Common;
use super::access::{grow, map, sum, sum_of_touched};
use super::report::{Accessed, AreaReport, Done, FirstTouch, Reporter};
use super::stop::Stop;
use crate::error::Error;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(common.size())?;
    stop.start();
    let histogram = grow(&mut area, common.seed)?;
    let growing = stop.elapsed();
    let report = AreaReport::new("grown", &area, area.pages(), Accessed::None);
    reporter.ready(vec![report])?;
    stop.start();
    stop.wait();
    let mut done = Done::new(growing, histogram.len())?;
    done.first_touch = Some(FirstTouch::of(&histogram));
    Ok(done.checked(sum(&area), sum_of_touched(&area, 1, common.seed)))
}
