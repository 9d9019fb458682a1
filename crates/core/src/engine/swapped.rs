//! Which regions are swapped out in part.

use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::sorted;

/// Which regions are swapped out in part.
pub(super) struct Swapped<'a> {
    /// The processes that have such regions, and where the last search in each ended.
    processes: Vec<(&'a ProcessObservation, usize)>,
    last: usize,
}

impl<'a> Swapped<'a> {
    pub(super) fn of(observation: &'a Observation) -> Self {
        let has_some = |process: &&ProcessObservation| {
            let mut regions = process.regions.iter();
            regions.any(|region| region.swapped > 0)
        };
        let processes = observation.processes.iter().filter(has_some);
        Swapped {
            processes: processes.map(|process| (process, 0)).collect(),
            last: 0,
        }
    }

    /// Whether a part of this one is.
    pub(super) fn holds(&mut self, target: RegionRef) -> bool {
        let key = |(process, _): &(&ProcessObservation, usize)| process.process;
        let place = sorted::find(&self.processes, &mut self.last, &target.process, key);
        let Some((process, near)) = place.and_then(|place| self.processes.get_mut(place)) else {
            return false;
        };
        let key = |region: &RegionObservation| region.region;
        let region = sorted::find(&process.regions, near, &target.region, key);
        region.is_some_and(|region| process.regions[region].swapped > 0)
    }
}
