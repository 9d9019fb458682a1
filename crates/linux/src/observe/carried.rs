//! What the meter saw accessed before it cleared it: the interval that runs counts it.

use std::collections::BTreeMap;

use mega_core::{Region, RegionObservation};

/// Accessed base pages of regions that the meter cleared since they were last observed.
#[derive(Debug, Default)]
pub(crate) struct Carried(BTreeMap<Region, u16>);

impl Carried {
    /// Remembers regions as they are before they are cleared.
    pub(crate) fn remember(&mut self, regions: &[RegionObservation]) {
        for region in regions.iter().filter(|region| region.accessed > 0) {
            let accessed = self.0.entry(region.region).or_default();
            *accessed = region.accessed.max(*accessed);
        }
    }

    /// Adds to regions just observed what was accessed in them before: so many pages at least were accessed. Those touched
    /// both before and after count once, so the larger number stands.
    pub(crate) fn add_to(&self, regions: &mut [RegionObservation]) {
        if self.0.is_empty() {
            return;
        }
        for region in regions {
            if let Some(before) = self.0.get(&region.region) {
                region.accessed = region.accessed.max(*before).min(region.mapped);
            }
        }
    }

    /// Forgets regions whose bits are cleared: their next interval begins.
    pub(crate) fn forget(&mut self, cleared: &[RegionObservation]) {
        if self.0.is_empty() {
            return;
        }
        for region in cleared {
            self.0.remove(&region.region);
        }
    }

    /// Forgets all: another program runs.
    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use mega_core::{HUGE_PAGE_SIZE, PageSize};

    use super::*;

    fn region(index: u64, mapped: u16, accessed: u16) -> RegionObservation {
        RegionObservation {
            region: Region::containing(index * HUGE_PAGE_SIZE),
            mapped,
            accessed,
            page_size: PageSize::Base,
            zero_filled: None,
            swapped: 0,
        }
    }

    #[test]
    fn what_the_meter_cleared_counts_until_the_next_interval_begins() {
        let mut carried = Carried::default();
        carried.remember(&[region(1, 512, 300), region(2, 512, 0)]);
        // Twice in one interval: what came in between is less.
        carried.remember(&[region(1, 512, 20)]);
        let mut seen = [region(1, 512, 7), region(2, 512, 7)];
        carried.add_to(&mut seen);
        assert_eq!(seen.map(|region| region.accessed), [300, 7]);
        // Some of it was unmapped meanwhile.
        let mut fewer = [region(1, 100, 7)];
        carried.add_to(&mut fewer);
        assert_eq!(fewer[0].accessed, 100);
        carried.forget(&seen);
        let mut next = [region(1, 512, 7)];
        carried.add_to(&mut next);
        assert_eq!(next[0].accessed, 7);
    }
}
