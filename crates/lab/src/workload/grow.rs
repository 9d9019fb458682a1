//! `grow`: touches memory page by page, as an allocator hands it out, or object by object. It times every first touch.

use super::access::{advise, map, sum, sum_of_touched};
use super::arguments::{Common, Growth};
use super::bursts;
use super::first_touch::FirstTouches;
use super::objects::Objects;
use super::report::{Accessed, AreaReport, Done, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::Area;

pub(super) fn run(
    common: &Common,
    growth: &Growth,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    if growth.bursts {
        return bursts::run(common, growth, reporter, stop);
    }
    let mut touches = FirstTouches::new()?;
    stop.start();
    let grown = Grown::new(common.size(), growth.objects, common.seed, &mut touches)?;
    let growing = stop.elapsed();
    let area = grown.area();
    advise(area, common)?;
    let report = AreaReport::new("grown", area, grown.pages(), Accessed::None);
    reporter.ready(vec![report])?;
    stop.start();
    stop.wait();
    let mut done = Done::new(growing, touches.count())?;
    done.first_touch = Some(touches.summary());
    let (found, expected) = grown.sums();
    Ok(done.checked(found, expected))
}

/// Memory once it has grown.
pub(super) enum Grown {
    /// Page by page, by this seed.
    Array(Area, u64),
    Objects(Objects),
}

impl Grown {
    /// Maps `bytes` and lets them grow.
    pub(super) fn new(
        bytes: usize,
        objects: bool,
        seed: u64,
        touches: &mut FirstTouches,
    ) -> Result<Self, Error> {
        let mut area = map(bytes)?;
        if objects {
            return Objects::grow(area, seed, touches).map(Grown::Objects);
        }
        touches.grow(&mut area, seed)?;
        Ok(Grown::Array(area, seed))
    }

    fn area(&self) -> &Area {
        match self {
            Grown::Array(area, _) => area,
            Grown::Objects(objects) => objects.area(),
        }
    }

    /// Pages that were touched.
    fn pages(&self) -> usize {
        match self {
            Grown::Array(area, _) => area.pages(),
            Grown::Objects(objects) => objects.pages(),
        }
    }

    /// What the content comes to, and what it must.
    pub(super) fn sums(&self) -> (u64, u64) {
        match self {
            Grown::Array(area, seed) => (sum(area), sum_of_touched(area, 1, *seed)),
            Grown::Objects(objects) => objects.sums(),
        }
    }
}
