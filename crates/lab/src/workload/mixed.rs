//! `mixed`: the demo's program. It grows a dense area page by page and then updates it at random, beside a sparse area
//! of the same size.

use super::access::{SPARSE, advise, map, sum_of_pages, sum_of_touched, touch};
use super::arguments::Common;
use super::first_touch::FirstTouches;
use super::random;
use super::report::{Accessed, AreaReport, Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut dense = map(common.size())?;
    let mut sparse = map(common.size())?;
    let mut touches = FirstTouches::new()?;
    touches.grow(&mut dense, common.seed)?;
    let touched = touch(&mut sparse, SPARSE, common.seed);
    advise(&dense, common)?;
    advise(&sparse, common)?;
    reporter.ready(vec![
        AreaReport::new("dense", &dense, dense.pages(), Accessed::EveryPage),
        AreaReport::new("sparse", &sparse, touched, Accessed::None),
    ])?;
    let mut done = random::update(&mut dense, 1, common.seed, reporter, stop)?;
    done.first_touch = Some(touches.summary());
    done.verified &= sum_of_pages(&sparse, SPARSE) == sum_of_touched(&sparse, SPARSE, common.seed);
    Ok(done)
}
