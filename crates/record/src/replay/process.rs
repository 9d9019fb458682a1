//! One process of a recording, and what a policy made of its memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mega_core::{
    BASE_PAGE_SIZE, CgroupMemory, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, ProcessObservation,
    Region, RegionObservation,
};

use super::terms::Taken;

/// A region that is not as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    /// A huge page maps it, and base pages in the recording.
    Promoted {
        /// Whether the page was made since the last look. Its Accessed bit is set then (`vm_page_prot` on x86 has it).
        is_new: bool,
    },
    /// Base pages map it, so many of them more than in the recording: a huge page had brought them.
    Fuller { pages: u16 },
    /// Base pages map it, and a huge page in the recording: which of them are used is not known.
    Blind,
}

/// Base pages that were accessed of those that base pages map in the recording, and what maps them under the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accessed {
    /// Huge pages.
    pub(super) in_huge: u64,
    /// Base pages.
    pub(super) in_base: u64,
    /// Regions that have any.
    pub(super) regions: u64,
}

/// What a process has given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gone {
    /// The regions.
    pub(super) regions: BTreeSet<Region>,
    /// Bytes of the recording that were resident there.
    pub(super) bytes: u64,
    /// Of them in huge pages of the recording.
    pub(super) blocks_in_bytes: u64,
}

/// One process of a recording, as far as it was played.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// As it was at its latest look. What is accessed is that since the last observation.
    recorded: ProcessObservation,
    /// The regions that are otherwise.
    changed: BTreeMap<Region, Changed>,
    taken: Taken,
}

impl Process {
    pub(super) fn new(recorded: ProcessObservation) -> Self {
        Process {
            recorded,
            changed: BTreeMap::new(),
            taken: Taken::default(),
        }
    }

    /// The NUMA node that it allocates on.
    pub(super) fn node(&self) -> Option<u32> {
        self.recorded.node
    }

    /// What the policy took for it.
    pub(super) fn taken(&self) -> Taken {
        self.taken
    }

    /// Bytes that are resident in the recording.
    pub(super) fn recorded_bytes(&self) -> u64 {
        let regions = self.recorded.regions.iter();
        regions.map(RegionObservation::resident_bytes).sum()
    }

    /// Bytes of it that huge pages map in the recording, which hide what is used of them.
    pub(super) fn recorded_huge_bytes(&self) -> u64 {
        let regions = self.recorded.regions.iter();
        let huge = regions.filter(|region| region.is_huge());
        huge.map(RegionObservation::resident_bytes).sum()
    }

    /// Bytes in regions that the policy sees no more.
    pub(super) fn blind_bytes(&self) -> u64 {
        let changed = self.changed.values();
        let blind = changed.filter(|changed| **changed == Changed::Blind);
        blind.count() as u64 * HUGE_PAGE_SIZE
    }

    /// Goes on to the next look. With `adds`, what was accessed until then still counts: of each region the larger of both
    /// numbers, since the same pages may be in both.
    pub(super) fn go_on(&mut self, mut next: ProcessObservation, adds: bool) {
        let before = std::mem::take(&mut self.recorded.regions);
        let mut before = before.iter().peekable();
        let changed = std::mem::take(&mut self.changed);
        self.taken = Taken::default();
        for seen in &mut next.regions {
            while before.next_if(|old| old.region < seen.region).is_some() {}
            // What was unmapped in between is new memory, and what was changed in it is gone.
            let Some(old) = before.next_if(|old| old.region == seen.region) else {
                continue;
            };
            if adds {
                seen.accessed = seen.accessed.max(old.accessed).min(seen.mapped);
            }
            let changed = changed.get(&seen.region);
            if let Some(changed) = changed.and_then(|changed| changed.after(old, seen)) {
                self.taken.add(changed.takes(seen));
                self.changed.insert(seen.region, changed);
            }
        }
        if adds {
            next.accesses_known &= self.recorded.accesses_known;
        }
        self.recorded = next;
    }

    /// Loses what lies at these addresses, and with it what the policy made of it. A region of which only a part lies there stays
    /// until the next look, which tells what is left of it.
    pub(super) fn lose(&mut self, range: &Range<u64>) -> Gone {
        let mut gone = Gone::default();
        let regions = &self.recorded.regions;
        let first = regions.partition_point(|seen| seen.region.start() < range.start);
        let last = regions.partition_point(|seen| seen.region.end() <= range.end);
        if first >= last {
            return gone;
        }
        let lost: Vec<RegionObservation> = self.recorded.regions.drain(first..last).collect();
        for seen in lost {
            if let Some(changed) = self.changed.remove(&seen.region) {
                self.taken.remove(changed.takes(&seen));
            }
            gone.bytes += seen.resident_bytes();
            gone.blocks_in_bytes += if seen.is_huge() { HUGE_PAGE_SIZE } else { 0 };
            gone.regions.insert(seen.region);
        }
        gone
    }

    /// What was accessed since the last observation.
    pub(super) fn accessed(&self) -> Accessed {
        let mut sum = Accessed::default();
        let regions = self.recorded.regions.iter();
        for region in
            regions.filter(|region| region.page_size == PageSize::Base && region.accessed > 0)
        {
            let pages = u64::from(region.accessed);
            match self.changed.get(&region.region) {
                Some(Changed::Promoted { .. }) => sum.in_huge += pages,
                _ => sum.in_base += pages,
            }
            sum.regions += 1;
        }
        sum
    }

    /// What a policy sees of it. What was accessed until now counts no more afterwards.
    pub(super) fn observe(&mut self) -> ProcessObservation {
        let regions = self.recorded.regions.iter();
        let seen = regions.filter_map(|recorded| match self.changed.get(&recorded.region) {
            Some(changed) => changed.seen(recorded),
            None => Some(unchanged(recorded)),
        });
        let observation = ProcessObservation {
            process: self.recorded.process,
            cpu_time: self.recorded.cpu_time,
            regions: seen.collect(),
            accesses_known: self.recorded.accesses_known,
            node: self.recorded.node,
            cgroup: self.recorded.cgroup.map(|cgroup| CgroupMemory {
                available: cgroup.available.saturating_sub(self.taken.bytes),
                ..cgroup
            }),
        };
        for region in &mut self.recorded.regions {
            region.accessed = 0;
        }
        for changed in self.changed.values_mut() {
            if let Changed::Promoted { is_new } = changed {
                *is_new = false;
            }
        }
        observation
    }

    /// A region as a policy sees it now. `None` where nothing of it is mapped, or which pages are is not known.
    pub(super) fn look(&self, region: Region) -> Option<RegionObservation> {
        let recorded = self.find(region)?;
        match self.changed.get(&region) {
            Some(changed) => changed.seen(recorded),
            None => Some(unchanged(recorded)),
        }
    }

    /// Base pages of a region that hold only zeros for certain. `None` where nobody counted them.
    pub(super) fn zero_filled(&self, region: Region) -> Option<u16> {
        let recorded = self.find(region)?;
        match self.changed.get(&region) {
            None => recorded.zero_filled,
            Some(Changed::Blind) => None,
            // What a huge page added was never written to; of the rest it is known only where it was counted.
            Some(changed) => Some(recorded.zero_filled.unwrap_or(0) + changed.more_pages(recorded)),
        }
    }

    /// Makes a region huge that base pages map.
    pub(super) fn promote(&mut self, region: Region) {
        self.set(region, Some(Changed::Promoted { is_new: true }));
    }

    /// Breaks the huge page up that maps a region. Returns the bytes that are resident in it then, as far as is known.
    pub(super) fn demote(&mut self, region: Region, gives_back: bool) -> u64 {
        let Some(recorded) = self.find(region).copied() else {
            return 0;
        };
        if recorded.is_huge() {
            self.set(region, Some(Changed::Blind));
            let zero = recorded.zero_filled.filter(|_| gives_back).unwrap_or(0);
            return HUGE_PAGE_SIZE - u64::from(zero) * BASE_PAGE_SIZE;
        }
        let pages = PAGES_PER_REGION - recorded.mapped;
        if gives_back || pages == 0 {
            self.set(region, None);
            return recorded.resident_bytes();
        }
        self.set(region, Some(Changed::Fuller { pages }));
        HUGE_PAGE_SIZE
    }

    fn find(&self, region: Region) -> Option<&RegionObservation> {
        let regions = &self.recorded.regions;
        let place = regions.binary_search_by_key(&region, |recorded| recorded.region);
        regions.get(place.ok()?)
    }

    fn set(&mut self, region: Region, changed: Option<Changed>) {
        let Some(recorded) = self.find(region).copied() else {
            return;
        };
        let before = match changed {
            Some(changed) => self.changed.insert(region, changed),
            None => self.changed.remove(&region),
        };
        let takes = |changed: Option<Changed>| {
            changed.map_or(Taken::default(), |changed| changed.takes(&recorded))
        };
        self.taken.remove(takes(before));
        self.taken.add(takes(changed));
    }
}

impl Changed {
    /// What is left of the change after the recording went from `old` to `new`. `None` where the region is as it was
    /// recorded.
    fn after(self, old: &RegionObservation, new: &RegionObservation) -> Option<Self> {
        if self == Changed::Blind {
            // Its base pages are there to be seen again.
            return new.is_huge().then_some(self);
        }
        // Somebody else made it huge, in the recording too.
        if new.is_huge() {
            return None;
        }
        match self {
            Changed::Promoted { is_new } if new.mapped >= old.mapped => {
                // It is looked at in the meantime, and its bit is cleared, only where the policy looks.
                Some(Changed::Promoted { is_new })
            }
            // The kernel splits a huge page when a part of it is freed; the rest stays.
            Changed::Promoted { .. } => fuller(PAGES_PER_REGION - old.mapped, new),
            Changed::Fuller { pages } => fuller(pages, new),
            Changed::Blind => Some(self),
        }
    }

    /// Base pages that it has mapped beyond the recording.
    fn more_pages(self, recorded: &RegionObservation) -> u16 {
        match self {
            Changed::Promoted { .. } => PAGES_PER_REGION - recorded.mapped,
            Changed::Fuller { pages } => pages,
            Changed::Blind => 0,
        }
    }

    fn takes(self, recorded: &RegionObservation) -> Taken {
        Taken {
            blocks: u64::from(matches!(self, Changed::Promoted { .. })),
            bytes: u64::from(self.more_pages(recorded)) * BASE_PAGE_SIZE,
        }
    }

    /// The region as a policy sees it.
    fn seen(self, recorded: &RegionObservation) -> Option<RegionObservation> {
        let base = unchanged(recorded);
        match self {
            Changed::Promoted { is_new } => {
                let is_used = is_new || recorded.accessed > 0;
                Some(RegionObservation {
                    mapped: PAGES_PER_REGION,
                    accessed: if is_used { PAGES_PER_REGION } else { 0 },
                    page_size: PageSize::Huge,
                    swapped: 0,
                    ..base
                })
            }
            Changed::Fuller { pages } => {
                let mapped = recorded.mapped + pages;
                Some(RegionObservation {
                    mapped,
                    swapped: recorded.swapped.min(PAGES_PER_REGION - mapped),
                    ..base
                })
            }
            Changed::Blind => None,
        }
    }
}

/// A region that is as it was recorded. What of it was found to hold zeros tells only who asks for that.
fn unchanged(recorded: &RegionObservation) -> RegionObservation {
    RegionObservation {
        zero_filled: None,
        ..*recorded
    }
}

/// So many base pages beyond those that the recording has, as far as there is room for them: what the program mapped may be
/// the same pages.
fn fuller(pages: u16, recorded: &RegionObservation) -> Option<Changed> {
    let pages = pages.min(PAGES_PER_REGION - recorded.mapped);
    (pages > 0).then_some(Changed::Fuller { pages })
}
