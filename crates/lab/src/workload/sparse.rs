//! `sparse`: touches one page in eight once and never again. Huge pages would take eight times its memory.

use super::access::{SPARSE, advise, map, sum_of_touched, touch};
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
    let touched = touch(&mut area, SPARSE, common.seed);
    advise(&area, common)?;
    reporter.ready(vec![AreaReport::new(
        "sparse",
        &area,
        touched,
        Accessed::None,
    )])?;
    stop.start();
    stop.wait();
    let done = Done::new(stop.elapsed(), touched as u64)?;
    let found = super::access::sum(&area);
    Ok(done.checked(found, sum_of_touched(&area, SPARSE, common.seed)))
}
