//! `hot-cold`: one mapping, fully mapped; the first half of its regions is hot, the second half cold.

use super::access::{advise, half, map, pages, sum, sum_of_touched, sweep, touch};
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
    touch(&mut area, 1, common.seed);
    let hot = half(&area);
    let part = |name: &str, start: u64, bytes: usize, accessed| AreaReport {
        name: name.into(),
        start,
        bytes: bytes as u64,
        mapped_pages: pages(bytes),
        zero_pages: 0,
        accessed,
    };
    let mut areas = vec![part("hot", area.start(), hot, Accessed::EveryPage)];
    if area.bytes() > hot {
        let start = area.start() + hot as u64;
        areas.push(part("cold", start, area.bytes() - hot, Accessed::None));
    }
    advise(&area, common)?;
    reporter.ready(areas)?;
    stop.start();
    let passes = sweep(&mut area, hot, stop)?;
    let done = Done::new(stop.elapsed(), passes * pages(hot))?;
    Ok(done.checked(sum(&area), sum_of_touched(&area, 1, common.seed)))
}
