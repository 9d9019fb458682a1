//! What a recording has, added up.

use std::collections::{BTreeMap, BTreeSet};

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, ProcessId, ProcessObservation};
use mega_record::Look;
use serde::Serialize;

/// What a recording has.
#[derive(Default)]
pub(super) struct Overview {
    pub(super) missed: u64,
    pub(super) others: BTreeSet<String>,
    pub(super) processes: BTreeMap<ProcessId, Known>,
}

/// One process of it.
#[derive(Default)]
pub(super) struct Known {
    pub(super) overview: ProcessOverview,
    /// Numbers of the regions that had a page at any time.
    pub(super) regions: BTreeSet<u64>,
}

/// One process of a recording. Sizes are in bytes, times in seconds since it began.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ProcessOverview {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) looks: u64,
    /// The most that was mapped at one look.
    pub(super) peak: u64,
    /// Means over the looks.
    pub(super) mapped: u64,
    pub(super) huge: u64,
    /// Over those that knew; `None` where none did.
    pub(super) accessed: Option<u64>,
    /// Touches a second of CPU time, as they were measured last.
    pub(super) touches_per_second: Option<f64>,
    /// Changes of its mappings after the first.
    pub(super) mapping_changes: u64,
    #[serde(skip)]
    sums: Sums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    mapped: u64,
    huge: u64,
    accessed: u64,
    known: u64,
}

impl Overview {
    pub(super) fn add(&mut self, look: &Look) {
        self.missed += u64::from(look.missed);
        self.others
            .extend(look.news.others.iter().flatten().cloned());
        for seen in &look.observation.processes {
            let known = self.processes.entry(seen.process).or_default();
            known.add(look.at.as_secs_f64(), seen);
            let overview = &mut known.overview;
            if let Some(name) = look.news.names.get(&seen.process) {
                overview.name.clone_from(name);
            }
            if let Some(rate) = look.news.touches.get(&seen.process) {
                overview.touches_per_second = Some(rate.per_cpu_second);
            }
            if overview.looks > 1 && look.news.mappings.contains_key(&seen.process) {
                overview.mapping_changes += 1;
            }
        }
    }

    /// The process with the most resident.
    pub(super) fn largest(&self) -> Option<ProcessId> {
        let processes = self.processes.iter();
        let largest = processes.max_by_key(|(_, known)| known.overview.peak)?;
        Some(*largest.0)
    }
}

impl Known {
    fn add(&mut self, seconds: f64, seen: &ProcessObservation) {
        let (mut mapped, mut huge, mut accessed) = (0, 0, 0);
        for region in &seen.regions {
            let bytes = u64::from(region.mapped) * BASE_PAGE_SIZE;
            mapped += bytes;
            huge += if region.is_huge() { bytes } else { 0 };
            accessed += u64::from(region.accessed) * BASE_PAGE_SIZE;
            self.regions.insert(region.region.start() / HUGE_PAGE_SIZE);
        }
        let overview = &mut self.overview;
        if overview.looks == 0 {
            overview.pid = seen.process.pid;
            overview.first = seconds;
        }
        overview.looks += 1;
        overview.last = seconds;
        overview.peak = overview.peak.max(mapped);
        let sums = &mut overview.sums;
        sums.mapped += mapped;
        sums.huge += huge;
        if seen.accesses_known {
            sums.accessed += accessed;
            sums.known += 1;
        }
        overview.mapped = sums.mapped / overview.looks;
        overview.huge = sums.huge / overview.looks;
        overview.accessed = sums.accessed.checked_div(sums.known);
    }
}
