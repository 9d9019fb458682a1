//! The simulated kernel: processes, page faults, promotion, compaction. Every operation says what it cost.

mod allocate;
mod check;
mod chunk;
mod compaction;
mod copy_on_write;
mod empty;
mod families;
mod fault;
mod fork;
mod giant;
#[cfg(test)]
mod giant_tests;
mod khugepaged;
mod look;
mod page_cache;
mod promote;
mod settings;
mod shared_memory;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;
mod unmap;
mod zeroed;

use mega_core::{PageSize, ProcessId, Region};

pub use check::Inconsistent;
pub(crate) use copy_on_write::MOST_SHARED;
pub use fault::{Fault, Touched};
pub use khugepaged::Khugepaged;
pub use settings::{ChunkChoice, Defrag, KhugepagedSettings, Settings, Thp};

use crate::address_space::{AddressSpace, Advice, Area, Entry, offset_of};
use crate::costs::Costs;
use crate::latencies::Latencies;
use crate::physical::{Frame, Layout, Owner, PhysicalMemory};
use compaction::ZoneScanners;
use families::Families;
use page_cache::PageCache;
use shared_memory::{SharedMemory, mappers};
use zeroed::ZeroedChunks;

/// What the kernel did since the start, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Base pages that compaction and promotion to giant pages migrated (`pgmigrate_success`).
    pub migrated: u64,
    /// Frames that compaction looked at for pages to move (`compact_migrate_scanned`).
    pub migrate_scanned: u64,
    /// Frames that it looked at for free ones (`compact_free_scanned`).
    pub free_scanned: u64,
    /// Pages taken off their lists, free ones included (`compact_isolated`).
    pub isolated: u64,
    /// Runs of compaction in a fault or a promotion (`compact_stall`).
    pub compact_stalls: u64,
    /// Of them, those after which there was a block.
    pub compact_successes: u64,
    /// Bytes copied, by migration and by promotion.
    pub bytes_copied: u64,
    /// Base pages that were copied because a process wrote to one that it shared since a fork.
    pub copied_on_write: u64,
    /// Huge pages that such a write took from the process that wrote, and left to the others.
    pub split_on_write: u64,
    /// Page cache that was reclaimed, in base pages.
    pub reclaimed: u64,
    /// Faults that wanted a giant page and did not get one, and those that did.
    pub giant_fault_failed: u64,
    /// See above.
    pub giant_faults: u64,
    /// Promotions to giant pages that found no chunk, and those that did.
    pub giant_promotion_failed: u64,
    /// See above.
    pub giant_promotions: u64,
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it is called.
    pub id: ProcessId,
    /// The node that it allocates on.
    pub node: u32,
    /// Whether its faults take base pages only (`PR_SET_THP_DISABLE` except where advised).
    pub faults_base: bool,
    /// Its virtual memory.
    pub space: AddressSpace,
    /// What its faults took, in cycles, by the page size that they mapped.
    pub faults: [Latencies; 3],
    /// Its end has come.
    is_gone: bool,
}

impl Process {
    /// Whether it is still there.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        !self.is_gone
    }

    /// What all its faults took, in cycles.
    #[must_use]
    pub fn all_faults(&self) -> Latencies {
        self.faults
            .iter()
            .fold(Latencies::default(), |mut all, of| {
                all.merge(of);
                all
            })
    }
}

/// A process by its place among all that there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(u32);

impl Pid {
    /// The place.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kernel, its memory and its processes.
#[derive(Clone, Debug)]
pub struct Kernel {
    memory: PhysicalMemory,
    processes: Vec<Process>,
    families: Families,
    shared: Vec<SharedMemory>,
    cache: PageCache,
    settings: Settings,
    costs: Costs,
    scanners: Vec<ZoneScanners>,
    chunk_scanner: u32,
    /// `None` until the first giant fault.
    zeroed: Option<ZeroedChunks>,
    counters: Counters,
    /// In builds with debug assertions: operations until everything is looked through.
    until_check: u64,
}

impl Kernel {
    /// A kernel just booted, with all memory free.
    #[must_use]
    pub fn new(layout: &Layout, settings: Settings, costs: Costs) -> Self {
        let memory = PhysicalMemory::new(layout);
        let scanners = ZoneScanners::of(&memory);
        Kernel {
            memory,
            processes: Vec::new(),
            families: Families::default(),
            shared: Vec::new(),
            cache: PageCache::default(),
            settings,
            costs,
            scanners,
            chunk_scanner: 0,
            zeroed: None,
            counters: Counters::default(),
            until_check: 0,
        }
    }

    /// Its physical memory.
    #[must_use]
    pub fn memory(&self) -> &PhysicalMemory {
        &self.memory
    }

    /// What it was set to do.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes what it is set to do.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// What things cost.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// What it did since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Says what time it is, for the ages of blocks.
    pub fn set_time(&mut self, now: std::time::Duration) {
        self.memory.set_time(now);
    }

    /// Starts a process on a node.
    pub fn spawn(&mut self, node: u32) -> Pid {
        let place = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        debug_assert!(place as usize + self.shared.len() < PageCache::HOLDER as usize);
        self.processes.push(Process {
            id: ProcessId {
                pid: place + 1,
                start_time: place.into(),
            },
            node,
            faults_base: false,
            space: AddressSpace::default(),
            faults: Default::default(),
            is_gone: false,
        });
        Pid(place)
    }

    /// A process.
    #[must_use]
    pub fn process(&self, pid: Pid) -> &Process {
        &self.processes[pid.index()]
    }

    /// A process, to change.
    pub fn process_mut(&mut self, pid: Pid) -> &mut Process {
        &mut self.processes[pid.index()]
    }

    /// All processes that there were, in the order of their starts.
    pub fn processes(&self) -> impl Iterator<Item = (Pid, &Process)> {
        (0..).map(Pid).zip(&self.processes)
    }

    /// The living process of that name.
    #[must_use]
    pub fn find(&self, id: ProcessId) -> Option<Pid> {
        let place = id.pid.checked_sub(1)?;
        let process = self.processes.get(place as usize)?;
        (process.id == id && process.is_alive()).then_some(Pid(place))
    }

    /// Maps private anonymous memory; returns its first address.
    pub fn map(&mut self, pid: Pid, bytes: u64, advice: Advice) -> u64 {
        self.debug_check_sometimes();
        self.process_mut(pid).space.map(bytes, advice)
    }

    /// Maps private anonymous memory at addresses that have none (`MAP_FIXED`), in whole base pages.
    pub fn map_at(&mut self, pid: Pid, addresses: std::ops::Range<u64>, advice: Advice) {
        self.debug_check_sometimes();
        self.process_mut(pid).space.add(Area {
            start: addresses.start,
            end: addresses.end,
            advice,
            shared: None,
        });
    }

    /// Has the first `pages` base pages of a region accessed, of those that are mapped, and no others since somebody looked. The
    /// Accessed bit of a larger page is only set.
    pub fn access_first(&mut self, pid: Pid, region: Region, pages: u16) {
        self.process_mut(pid).space.access_first(region, pages);
    }

    /// Pages of the kernel's own. `None` where memory is used up.
    pub fn allocate_own(&mut self, pages: crate::physical::Pages, node: u32) -> Option<Frame> {
        self.debug_check_sometimes();
        let compacts = false;
        self.allocate(pages, node, compacts).0
    }

    /// Gives them back.
    pub fn free_own(&mut self, first: Frame) {
        self.debug_check_sometimes();
        self.memory.free(first);
    }

    /// Writes zeros over a base page that is mapped, as a program does that clears memory.
    pub fn write_zeros(&mut self, pid: Pid, address: u64) {
        self.debug_check_sometimes();
        let space = &mut self.process_mut(pid).space;
        let offset = offset_of(address);
        match space.entry_mut(Region::containing(address)) {
            Some(Entry::Base(pages)) => pages.filled.clear(offset),
            Some(Entry::Huge(page)) => page.filled.clear(offset),
            Some(Entry::None) | None => {}
        }
    }

    /// The size of the page that maps an address now.
    #[must_use]
    pub fn page_size(&self, pid: Pid, address: u64) -> Option<PageSize> {
        let space = &self.process(pid).space;
        let region = Region::containing(address);
        match space.entry(region) {
            Entry::None => None,
            Entry::Base(pages) => pages.frame(offset_of(address)).map(|_| PageSize::Base),
            Entry::Huge(_) => {
                let giant = space.span(address).is_some_and(|span| span.giant.is_some());
                Some(if giant {
                    PageSize::Giant
                } else {
                    PageSize::Huge
                })
            }
        }
    }

    /// Tells whoever maps a base page where it lies now (`remove_migration_ptes`).
    fn relocated(&mut self, owner: Owner, from: Frame, to: Frame) {
        if owner.holder() == PageCache::HOLDER {
            self.cache.relocated(owner.page(), to);
            return;
        }
        for (pid, address) in mappers(&self.families, &self.shared, owner) {
            let space = &mut self.processes[pid.index()].space;
            let place = offset_of(address);
            if let Some(Entry::Base(pages)) = space.entry_mut(Region::containing(address))
                && pages.frame(place) == Some(from)
            {
                pages.moved(place, to);
            }
        }
        if let Some(id) = self.shared_of(owner) {
            self.shared[id.0 as usize].relocated(owner.page(), to);
        }
        self.debug_check_mappings(to);
    }

    /// What migrating a page takes beyond the copy, in cycles: each entry that maps it is changed.
    fn cost_of_remapping(&self, mappings: u32) -> u64 {
        u64::from(mappings.max(1)) * self.costs.migrate_page
    }

    fn count_migrated(&mut self, pages: u64) {
        self.counters.migrated += pages;
        self.counters.bytes_copied += pages * mega_core::BASE_PAGE_SIZE;
    }

    /// Bytes of this program's own memory that physical memory and page tables take.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        let spaces = self
            .processes
            .iter()
            .map(|process| process.space.state_bytes());
        let shared = self.shared.iter().map(SharedMemory::state_bytes);
        self.memory.state_bytes() + spaces.sum::<u64>() + shared.sum::<u64>()
    }
}
