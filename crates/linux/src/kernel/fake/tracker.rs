//! A tracker that sees everything of a fake kernel.

use std::ops::Range;

use mega_core::{PageSize, Region, RegionObservation};

use super::FakeKernel;
use crate::observe::tracker::{TrackError, TrackedProcess, Tracker, TrackerKind};

/// Sees everything of a fake kernel.
pub struct FakeTracker(pub FakeKernel);

impl Tracker for FakeTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Bpf
    }

    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        out.clear();
        let pid = target.process.pid;
        let state = self.0.state();
        let process = state.processes.get(&pid).ok_or(TrackError::Gone { pid })?;
        if process.start_time != target.process.start_time {
            return Err(TrackError::Gone { pid });
        }
        let regions = ranges
            .iter()
            .flat_map(|range| Region::wholly_inside(range.start, range.end));
        out.extend(regions.filter_map(|region| {
            let seen = process.regions.get(&region.start())?;
            (seen.mapped > 0).then_some(RegionObservation {
                region,
                mapped: seen.mapped,
                accessed: seen.accessed,
                page_size: if process.is_giant(region) {
                    PageSize::Giant
                } else if seen.huge {
                    PageSize::Huge
                } else {
                    PageSize::Base
                },
                zero_filled: None,
                swapped: seen.swapped,
            })
        }));
        Ok(())
    }
}
