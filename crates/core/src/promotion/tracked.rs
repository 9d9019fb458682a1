//! What a policy remembers of each region: compact sorted vectors that it merges with each observation.

use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::Region;
use crate::process::ProcessId;

/// One `T` per remembered region, by process and address.
///
/// Costs `size_of::<(Region, T)>()` bytes a region.
#[derive(Debug)]
pub(super) struct Tracked<T> {
    processes: Vec<(ProcessId, Vec<(Region, T)>)>,
}

impl<T> Default for Tracked<T> {
    fn default() -> Self {
        Tracked {
            processes: Vec::new(),
        }
    }
}

impl<T: Copy> Tracked<T> {
    /// Brings the memory up to an observation, in one pass over it: O(regions). `update` gets each observed region with what is
    /// remembered of it, and returns what to remember now, `None` to forget it. Regions and processes
    /// that are no longer observed are forgotten.
    pub(super) fn merge(
        &mut self,
        observation: &Observation,
        mut update: impl FnMut(&ProcessObservation, &RegionObservation, Option<T>) -> Option<T>,
    ) {
        let mut before = std::mem::take(&mut self.processes).into_iter().peekable();
        for process in &observation.processes {
            while before.next_if(|(id, _)| *id < process.process).is_some() {}
            let remembered = before
                .next_if(|(id, _)| *id == process.process)
                .map(|(_, regions)| regions)
                .unwrap_or_default();
            let regions = merge_regions(process, remembered, &mut update);
            self.processes.push((process.process, regions));
        }
    }

    /// Where a process is in the list.
    fn place(&self, process: ProcessId) -> Option<usize> {
        self.processes
            .binary_search_by_key(&process, |(id, _)| *id)
            .ok()
    }

    /// What is remembered of one region.
    pub(super) fn get_mut(&mut self, target: RegionRef) -> Option<&mut T> {
        let process = self.place(target.process)?;
        let (_, regions) = self.processes.get_mut(process)?;
        let region = regions
            .binary_search_by_key(&target.region, |(region, _)| *region)
            .ok()?;
        regions.get_mut(region).map(|(_, value)| value)
    }

    /// What is remembered of one process's regions, in address order.
    pub(super) fn of(&self, process: ProcessId) -> &[(Region, T)] {
        self.place(process)
            .and_then(|place| self.processes.get(place))
            .map(|(_, regions)| regions.as_slice())
            .unwrap_or_default()
    }

    /// The same, to change, without the regions.
    pub(super) fn of_mut(&mut self, process: ProcessId) -> impl Iterator<Item = &mut T> {
        let place = self.place(process);
        let regions = place.and_then(|place| self.processes.get_mut(place));
        let regions = regions.into_iter().flat_map(|(_, regions)| regions);
        regions.map(|(_, value)| value)
    }

    /// Each observed region of one process that is remembered, with what is.
    pub(super) fn join<'a>(
        &'a self,
        process: &'a ProcessObservation,
    ) -> impl Iterator<Item = (&'a RegionObservation, &'a T)> {
        let mut remembered = self.of(process.process).iter().peekable();
        process.regions.iter().filter_map(move |observed| {
            while remembered
                .next_if(|(region, _)| *region < observed.region)
                .is_some()
            {}
            remembered
                .next_if(|(region, _)| *region == observed.region)
                .map(|(_, value)| (observed, value))
        })
    }
}

/// Where nothing came or went, which is the rule, what is remembered is updated in place.
fn merge_regions<T: Copy>(
    process: &ProcessObservation,
    mut remembered: Vec<(Region, T)>,
    update: &mut impl FnMut(&ProcessObservation, &RegionObservation, Option<T>) -> Option<T>,
) -> Vec<(Region, T)> {
    let mut same = 0;
    let mut is_to_forget = false;
    for ((region, value), observed) in remembered.iter_mut().zip(&process.regions) {
        if *region != observed.region {
            break;
        }
        match update(process, observed, Some(*value)) {
            Some(new) => *value = new,
            None => {
                is_to_forget = true;
                break;
            }
        }
        same += 1;
    }
    let rest = remembered.split_off(same);
    let mut before = rest.into_iter().peekable();
    let mut observed = process.regions[same..].iter();
    if is_to_forget {
        // This one was asked about, and is to be forgotten.
        before.next();
        observed.next();
    }
    remembered.reserve_exact(observed.len());
    for observed in observed {
        while before
            .next_if(|(region, _)| *region < observed.region)
            .is_some()
        {}
        let old = before
            .next_if(|(region, _)| *region == observed.region)
            .map(|(_, value)| value);
        if let Some(new) = update(process, observed, old) {
            remembered.push((observed.region, new));
        }
    }
    remembered
}
