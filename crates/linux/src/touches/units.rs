//! What of a process's memory is looked at as one.

use std::ops::Range;

use mega_core::{HUGE_PAGE_SIZE, PageSize, RegionObservation};

use crate::target::Held;
use crate::{Error, Host};

/// Huge pages looked at together at most. So many entries fill four cache lines of their table.
const HUGE_TOGETHER: usize = 32;

/// The units of one process, each kind in address order.
pub(super) struct Units {
    /// Regions that base pages map.
    base: Vec<RegionObservation>,
    /// Runs of neighbouring regions that huge pages map.
    huge: Vec<Range<u64>>,
    /// All its regions.
    pub(super) regions: Vec<RegionObservation>,
}

impl Units {
    /// Looks at all of the process's eligible memory. Clears nothing.
    ///
    /// # Errors
    /// As the tracker.
    pub(super) fn find(host: &Host, held: &Held) -> Result<Self, Error> {
        let mut regions = Vec::new();
        host.tracker()
            .peek(&held.tracked(), &held.ranges, &mut regions)?;
        let base = regions.iter().filter(|region| !region.is_huge());
        let huge: Vec<RegionObservation> = regions
            .iter()
            .filter(|region| region.page_size == PageSize::Huge)
            .copied()
            .collect();
        Ok(Units {
            base: base.copied().collect(),
            huge: neighbours(&huge),
            regions,
        })
    }

    /// Base pages mapped in each of the units of the one kind.
    pub(super) fn base_entries(&self) -> Vec<u16> {
        self.base.iter().map(|region| region.mapped).collect()
    }

    /// Huge pages in each of the units of the other.
    pub(super) fn huge_entries(&self) -> Vec<u16> {
        self.huge
            .iter()
            .map(|range| {
                u16::try_from((range.end - range.start) / HUGE_PAGE_SIZE).unwrap_or(u16::MAX)
            })
            .collect()
    }

    /// The addresses of a unit of the one kind.
    pub(super) fn base(&self, unit: usize) -> Range<u64> {
        let region = self.base[unit].region;
        region.start()..region.end()
    }

    /// A region that base pages map.
    pub(super) fn base_region(&self, unit: usize) -> &RegionObservation {
        &self.base[unit]
    }

    /// The addresses of a unit of the other.
    pub(super) fn huge(&self, unit: usize) -> Range<u64> {
        self.huge[unit].clone()
    }
}

/// The runs that neighbours make, each of [`HUGE_TOGETHER`] at most.
fn neighbours(regions: &[RegionObservation]) -> Vec<Range<u64>> {
    regions
        .chunk_by(|left, right| left.region.end() == right.region.start())
        .flat_map(|run| run.chunks(HUGE_TOGETHER))
        .filter_map(|run| Some(run.first()?.region.start()..run.last()?.region.end()))
        .collect()
}
