//! What a machine reports at the end of every interval.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use crate::page::{BASE_PAGE_SIZE, PAGES_PER_REGION, PageSize, Region};
use crate::process::ProcessId;

/// One region of one process, as it was at the end of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionObservation {
    /// Where it is.
    pub region: Region,
    /// Base pages with a physical page, 0 to 512; 512 for a region mapped by a larger page.
    pub mapped: u16,
    /// Base pages whose Accessed bit was set in the interval, 0 to `mapped`. A larger page has one bit
    /// for all its base pages, so there it is 0 or 512. 0 where the tracker cannot tell
    /// ([`ProcessObservation::accesses_known`]).
    pub accessed: u16,
    /// The page that maps it. A region mapped partly by base pages is [`PageSize::Base`].
    pub page_size: PageSize,
    /// Base pages that hold nothing but zeros, 0 to 512, for regions that were looked into
    /// ([`crate::Policy::inspect`]).
    pub zero_filled: Option<u16>,
    /// Base pages that are swapped out, 0 to 512 - `mapped`. 0 where the tracker cannot tell. A promotion would read them
    /// from swap, so such a region is not promoted.
    pub swapped: u16,
}

impl RegionObservation {
    /// Bytes of the region that have a physical page.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        u64::from(self.mapped) * BASE_PAGE_SIZE
    }

    /// Bytes that a promotion would add to what is resident: the base pages not mapped now.
    #[must_use]
    pub fn promotion_bloat_bytes(&self) -> u64 {
        u64::from(PAGES_PER_REGION - self.mapped.min(PAGES_PER_REGION)) * BASE_PAGE_SIZE
    }

    /// Whether a huge page or a giant one maps it.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.page_size > PageSize::Base
    }
}

/// One process, as it was at the end of the interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessObservation {
    /// Which process.
    pub process: ProcessId,
    /// CPU time that all its threads have had since it started. `None` where it is not known.
    pub cpu_time: Option<Duration>,
    /// Its eligible regions with at least one base page mapped, in address order, each once.
    pub regions: Vec<RegionObservation>,
    /// Whether the tracker saw accesses over the whole interval. False for the first look at a process,
    /// whose Accessed bits nobody cleared, and always for the `mapped` tracker; and perhaps where the policy does not want to know
    /// ([`crate::Machine::watch`]).
    pub accesses_known: bool,
    /// The NUMA node that it allocates on. `None` where it is not known.
    pub node: Option<u32>,
    /// The tightest memory limit among its cgroup and that cgroup's ancestors. `None` where it has none.
    pub cgroup: Option<CgroupMemory>,
}

/// The memory of a cgroup that has a limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CgroupMemory {
    /// What its processes may use together.
    pub limit: u64,
    /// What they may use beyond what they do: what is free below the limit, and what can be reclaimed without swapping.
    pub available: u64,
}

/// The physical memory of one NUMA node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeMemory {
    /// Its number.
    pub node: u32,
    /// Bytes free.
    pub free: u64,
    /// Bytes free in blocks of at least 2 MiB (order 9 and above).
    pub contiguity: u64,
}

/// The physical memory of the machine, in bytes. All 0 where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryObservation {
    /// Bytes of memory the kernel manages (MemTotal).
    pub total: u64,
    /// Bytes that can be had without swapping (MemAvailable).
    pub available: u64,
    /// Bytes free.
    pub free: u64,
    /// Bytes free in blocks of at least 2 MiB (order 9 and above).
    pub contiguity: u64,
    /// The same node by node, by number. Empty where it is not known.
    pub nodes: Vec<NodeMemory>,
}

impl MemoryObservation {
    /// Where a process finds blocks: the node that it allocates on, and what is known of it. `None` where either is not
    /// known, so that all of memory has to stand for it.
    #[must_use]
    pub fn node_of(&self, process: &ProcessObservation) -> Option<&NodeMemory> {
        let node = process.node?;
        self.nodes.iter().find(|memory| memory.node == node)
    }

    /// The part of free memory that is in blocks too small for a huge page, 0 to 1: the free memory
    /// fragmentation index (FMFI) at order 9. 0 when nothing is free.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn fmfi(&self) -> f64 {
        if self.free == 0 {
            return 0.0;
        }
        1.0 - self.contiguity.min(self.free) as f64 / self.free as f64
    }
}

/// All that a machine reports at the end of one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// How long Accessed bits gathered.
    pub interval: Duration,
    /// The managed processes that were alive, each once, by pid.
    pub processes: Vec<ProcessObservation>,
    /// Physical memory at the end of the interval.
    pub memory: MemoryObservation,
    /// CPUs that were idle in the interval, 0 to all of them. `None` where it is not known.
    pub idle_cpus: Option<f64>,
    /// Whether the machine can map a span by a giant page. Where it cannot, no policy asks for it.
    pub giant_pages: bool,
    /// Whether it can give back the zero-filled huge pages of a span. Where it cannot, no policy asks for it.
    pub free_zero: bool,
    /// Of these processes, only this memory counts for a promise of coverage; of all others all does.
    pub counted: BTreeMap<ProcessId, Counted>,
    /// What processes accessed in the first moment after their Accessed bits were cleared at the end of the interval, each once, by
    /// pid. Empty where nobody looked.
    pub glances: Vec<Glance>,
}

/// What a process accessed in a moment, where an interval is too long to tell what is hot: in seconds a program may go over all of its
/// memory, though nearly all that it touches is in a tenth of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Which process.
    pub process: ProcessId,
    /// How long its bits gathered.
    pub length: Duration,
    /// CPU time that it had in that time. `None` where it is not known.
    pub worked: Option<Duration>,
    /// As it was then, each region that base pages map and whose bits were cleared, in address order, each once.
    pub regions: Vec<RegionObservation>,
}

/// Addresses of a process that count for a promise of coverage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Ascending and disjoint.
    ranges: Vec<Range<u64>>,
}

impl Counted {
    /// These addresses, given in any order; those that overlap count once.
    #[must_use]
    pub fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Counted { ranges: joined }
    }

    /// Whether a region counts: whether its first byte does.
    #[must_use]
    pub fn contains(&self, region: Region) -> bool {
        let after = self
            .ranges
            .partition_point(|range| range.start <= region.start());
        after
            .checked_sub(1)
            .is_some_and(|place| self.ranges[place].end > region.start())
    }
}

impl Observation {
    /// Brings a report from outside into the form that is promised above: processes and regions in
    /// order and each once, every count within its range, no region without a mapped page. What is so
    /// already stays as it is, and costs one look: O(regions).
    pub fn normalise(&mut self) {
        self.processes.sort_by_key(|process| process.process);
        self.processes.dedup_by_key(|process| process.process);
        self.memory.nodes.sort_by_key(|node| node.node);
        self.memory.nodes.dedup_by_key(|node| node.node);
        for process in &mut self.processes {
            normalise(&mut process.regions);
        }
        self.glances.sort_by_key(|glance| glance.process);
        self.glances.dedup_by_key(|glance| glance.process);
        for glance in &mut self.glances {
            normalise(&mut glance.regions);
        }
    }

    /// The glance at a process, of a normalised observation; `None` where there was none.
    #[must_use]
    pub fn glance(&self, process: ProcessId) -> Option<&Glance> {
        let place = self
            .glances
            .binary_search_by_key(&process, |glance| glance.process);
        self.glances.get(place.ok()?)
    }

    /// The memory of a process that counts for a promise of coverage; `None` for all of it.
    #[must_use]
    pub fn counted(&self, process: ProcessId) -> Option<&Counted> {
        self.counted.get(&process)
    }

    /// The named process, of a normalised observation; `None` where it was not observed.
    #[must_use]
    pub fn process(&self, process: ProcessId) -> Option<&ProcessObservation> {
        self.processes.get(self.index(process)?)
    }

    /// The named region, of a normalised observation.
    #[must_use]
    pub fn region(&self, target: RegionRef) -> Option<&RegionObservation> {
        let (process, region) = self.indices(target)?;
        self.processes.get(process)?.regions.get(region)
    }

    /// The named region of a normalised observation, to add to what is known of it.
    pub fn region_mut(&mut self, target: RegionRef) -> Option<&mut RegionObservation> {
        let (process, region) = self.indices(target)?;
        self.processes.get_mut(process)?.regions.get_mut(region)
    }

    fn index(&self, process: ProcessId) -> Option<usize> {
        let place = self
            .processes
            .binary_search_by_key(&process, |observed| observed.process);
        place.ok()
    }

    fn indices(&self, target: RegionRef) -> Option<(usize, usize)> {
        let process = self.index(target.process)?;
        let regions = &self.processes.get(process)?.regions;
        let region = regions
            .binary_search_by_key(&target.region, |region| region.region)
            .ok()?;
        Some((process, region))
    }
}

/// Brings regions into the form that [`Observation`] promises.
fn normalise(regions: &mut Vec<RegionObservation>) {
    if is_normal(regions) {
        return;
    }
    for region in regions.iter_mut() {
        region.mapped = region.mapped.min(PAGES_PER_REGION);
        region.accessed = region.accessed.min(region.mapped);
        region.zero_filled = region.zero_filled.map(|pages| pages.min(region.mapped));
        region.swapped = region.swapped.min(PAGES_PER_REGION - region.mapped);
    }
    regions.retain(|region| region.mapped > 0);
    regions.sort_by_key(|region| region.region);
    regions.dedup_by_key(|region| region.region);
}

/// Whether regions are as [`Observation`] promises, which is the rule.
fn is_normal(regions: &[RegionObservation]) -> bool {
    let in_order = regions.is_sorted_by(|left, right| left.region < right.region);
    in_order
        && regions.iter().all(|region| {
            (1..=PAGES_PER_REGION).contains(&region.mapped)
                && region.accessed <= region.mapped
                && region
                    .zero_filled
                    .is_none_or(|pages| pages <= region.mapped)
                && region.swapped <= PAGES_PER_REGION - region.mapped
        })
}

/// One region of one process, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionRef {
    /// Whose.
    pub process: ProcessId,
    /// Which.
    pub region: Region,
}
