//! `zeros`: asks for huge pages by `MADV_HUGEPAGE` and writes one base page in four, so three quarters are bloat.

use super::access::{NOT_ZERO, map, sum, sum_of_touched, touch};
use super::arguments::Common;
use super::report::{Accessed, AreaReport, Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut area = map(common.size())?;
    area.advise_huge()
        .map_err(|e| Error::io("asking for huge pages by MADV_HUGEPAGE", e))?;
    let touched = touch(&mut area, NOT_ZERO, common.seed);
    reporter.ready(vec![AreaReport::new(
        "zeros",
        &area,
        touched,
        Accessed::None,
    )])?;
    stop.start();
    stop.wait();
    let done = Done::new(stop.elapsed(), touched as u64)?;
    Ok(done.checked(sum(&area), sum_of_touched(&area, NOT_ZERO, common.seed)))
}
