//! One process of a recording on the simulated kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use mega_core::{
    BASE_PAGE_SIZE, CgroupMemory, PageSize, ProcessObservation, Region, RegionObservation,
};
use mega_sim::Kernel;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Pid;

use super::super::process::Accessed;
use crate::pages::{Pages, without};

/// One process of a recording on the simulated kernel.
pub(super) struct Played {
    pid: Pid,
    cpu_time: Option<Duration>,
    /// Its regions as they were at the latest look.
    recorded: BTreeMap<Region, RegionObservation>,
    accesses_known: bool,
    node: Option<u32>,
    cgroup: Option<CgroupMemory>,
}

impl Played {
    pub(super) fn start(kernel: &mut Kernel) -> Self {
        Played {
            pid: kernel.spawn(0),
            cpu_time: None,
            recorded: BTreeMap::new(),
            accesses_known: false,
            node: None,
            cgroup: None,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.cpu_time
    }

    pub(super) fn accesses_known(&self) -> bool {
        self.accesses_known
    }

    pub(super) fn node(&self) -> Option<u32> {
        self.node
    }

    pub(super) fn cgroup(&self) -> Option<CgroupMemory> {
        self.cgroup
    }

    pub(super) fn recorded_bytes(&self) -> u64 {
        let regions = self.recorded.values();
        regions.map(RegionObservation::resident_bytes).sum()
    }

    pub(super) fn recorded_huge_bytes(&self) -> u64 {
        let huge = self.recorded.values().filter(|region| region.is_huge());
        huge.map(RegionObservation::resident_bytes).sum()
    }

    /// Whether it is known of each base page of a region whether it holds only zeros: it was counted, or a huge page that a policy
    /// made brought those that do.
    pub(super) fn knows_zeros(&self, kernel: &Kernel, region: Region) -> bool {
        let recorded = self.recorded.get(&region);
        recorded.is_some_and(|seen| {
            seen.zero_filled.is_some() || !seen.is_huge() && is_huge(kernel, self.pid, region)
        })
    }

    /// Whether a huge page of the recording hid what was used of a region.
    fn was_huge(&self, region: Region) -> bool {
        self.recorded
            .get(&region)
            .is_some_and(|seen| seen.is_huge())
    }

    /// Whether what is seen of a region is made up: base pages that a huge page of the recording hides.
    pub(super) fn is_blind(&self, seen: &RegionObservation) -> bool {
        seen.page_size == PageSize::Base && self.was_huge(seen.region)
    }

    pub(super) fn blind_bytes(&self, kernel: &Kernel) -> u64 {
        let huge = self.recorded.values().filter(|seen| seen.is_huge());
        let blind = huge.filter(|seen| !is_huge(kernel, self.pid, seen.region));
        blind.map(RegionObservation::resident_bytes).sum()
    }

    /// The regions that huge or giant pages map here and base pages in the recording.
    pub(super) fn promoted(&self, kernel: &Kernel) -> BTreeSet<Region> {
        let base = self.recorded.values().filter(|seen| !seen.is_huge());
        let regions = base.map(|seen| seen.region);
        regions
            .filter(|region| is_huge(kernel, self.pid, *region))
            .collect()
    }

    /// What was accessed since the last observation of what base pages map in the recording.
    pub(super) fn accessed(&mut self, kernel: &Kernel) -> Accessed {
        let mut sum = Accessed::default();
        let regions = self.recorded.values_mut();
        for seen in regions.filter(|seen| !seen.is_huge() && seen.accessed > 0) {
            match is_huge(kernel, self.pid, seen.region) {
                true => sum.in_huge += u64::from(seen.accessed),
                false => sum.in_base += u64::from(seen.accessed),
            }
            sum.regions += 1;
        }
        sum
    }

    /// Takes over where memory can be mapped.
    pub(super) fn remap(&mut self, kernel: &mut Kernel, mappings: &[Range<u64>]) {
        let old = areas(kernel, self.pid);
        for gone in without(&old, mappings) {
            kernel.unmap(self.pid, gone.start, gone.end - gone.start);
        }
        for new in without(mappings, &old) {
            kernel.map_at(self.pid, new, Advice::None);
        }
    }

    /// Goes on to the next look.
    /// With `adds`, what was accessed until then still counts.
    pub(super) fn go_on(&mut self, kernel: &mut Kernel, next: &ProcessObservation, adds: bool) {
        let mut before = std::mem::take(&mut self.recorded);
        for seen in &next.regions {
            let old = before.remove(&seen.region);
            self.change(kernel, old.as_ref(), seen);
            let earlier = old.filter(|_| adds).map_or(0, |old| old.accessed);
            let accessed = seen.accessed.max(earlier).min(seen.mapped);
            kernel.access_first(self.pid, seen.region, accessed);
            let now = RegionObservation { accessed, ..*seen };
            self.recorded.insert(seen.region, now);
        }
        for region in before.into_keys() {
            kernel.discard(self.pid, region.start(), region.end() - region.start());
        }
        self.accesses_known = next.accesses_known && (!adds || self.accesses_known);
        self.cpu_time = next.cpu_time;
        self.node = next.node;
        self.cgroup = next.cgroup;
    }

    /// Makes a region what it was at the look.
    fn change(
        &self,
        kernel: &mut Kernel,
        old: Option<&RegionObservation>,
        seen: &RegionObservation,
    ) {
        let start = seen.region.start();
        let place = |page: u16| start + u64::from(page) * BASE_PAGE_SIZE;
        if kernel.process(self.pid).space.area_of(start).is_none() {
            // A mapping that the recording does not have, as one that has just come.
            let whole = start..seen.region.end();
            let there = areas(kernel, self.pid);
            for missing in without(std::slice::from_ref(&whole), &there) {
                kernel.map_at(self.pid, missing, Advice::None);
            }
        }
        let was_huge = old.is_some_and(RegionObservation::is_huge);
        if was_huge && !seen.is_huge() {
            // The policy made no huge page of it: it was there in the recording, and ended there.
            kernel.demote(self.pid, seen.region);
        }
        let pages = Pages::of(old, seen);
        if !pages.gone.is_empty() {
            let bytes = pages.gone.len() as u64 * BASE_PAGE_SIZE;
            kernel.discard(self.pid, place(pages.gone.start), bytes);
        }
        for page in pages.new {
            // Without memory it stays as it is; a live program would have been ended.
            if kernel.touch(self.pid, place(page)).is_err() {
                break;
            }
        }
        for page in pages.zeros {
            kernel.write_zeros(self.pid, place(page));
        }
        if seen.is_huge() && !was_huge {
            kernel.promote(self.pid, seen.region);
        }
    }

    /// Loses the regions that lie in a range whole.
    pub(super) fn lose(&mut self, kernel: &mut Kernel, range: &Range<u64>) {
        let lost: Vec<Region> = self
            .recorded
            .keys()
            .filter(|region| range.start <= region.start() && region.end() <= range.end)
            .copied()
            .collect();
        for region in lost {
            self.recorded.remove(&region);
            kernel.discard(self.pid, region.start(), region.end() - region.start());
        }
    }
}

fn is_huge(kernel: &Kernel, pid: Pid, region: Region) -> bool {
    let size = kernel.page_size(pid, region.start());
    matches!(size, Some(PageSize::Huge | PageSize::Giant))
}

fn areas(kernel: &Kernel, pid: Pid) -> Vec<Range<u64>> {
    let areas = kernel.process(pid).space.areas().iter();
    areas.map(|area| area.start..area.end).collect()
}
