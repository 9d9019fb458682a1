//! How much of what base page table entries map is in folios larger than a base page: an estimate, from a few regions of each
//! process at each look.
//!
//! Page tables do not tell (`observe/tracker/folios.rs`), and to look at every region would take a hundred times as long
//! as an observation does. Where the machine has no such folios the kernel's counts say so, and no region is looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::{
    BASE_PAGE_SIZE, Observation, ProcessId, ProcessObservation, Region, RegionObservation,
};

use super::tracker::FolioSizes;
use crate::kernel::Kernel;
use crate::settings::thp_mode;

/// The share of a core that it takes at most.
const CPU_SHARE: f64 = 0.001;
/// CPU time that one region takes: 45 ms for each GiB (docs/architecture.md, "Folios between base and huge pages").
const REGION_SECONDS: f64 = 90e-6;
/// Regions of one process in one look at most, so that others have their turn.
const AT_ONCE: usize = 16;
/// By how much less each earlier look at a process weighs than the one after it.
const FADES: f64 = 0.75;
/// For how long the kernel's counts are taken as they were.
const ASKED_EVERY: Duration = Duration::from_secs(10);

/// What is known of each process.
#[derive(Clone, Debug, Default)]
pub struct LargerFolios {
    /// Whether the machine has such folios, and when that was asked.
    exist: Option<(bool, Duration)>,
    /// The kernel does not say what is in frames: nobody is looked at any more.
    hidden: bool,
    known: BTreeMap<ProcessId, Known>,
    /// Who was looked at last.
    last: Option<ProcessId>,
}

/// What is known of one process.
#[derive(Clone, Debug, Default)]
struct Known {
    /// How often it was looked at.
    looks: usize,
    /// Base pages that were looked at, and those of them in larger folios, by the size of these. Earlier ones weigh less.
    pages: f64,
    in_folios: BTreeMap<u64, f64>,
    estimate: FolioSizes,
}

/// Regions of one process to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Whose.
    pub process: ProcessId,
    /// Which, ascending.
    pub regions: Vec<Region>,
    /// Base pages that base page table entries map in them.
    pages: u64,
    /// Bytes that they map in all of the process.
    bytes: u64,
}

impl LargerFolios {
    /// Who is looked at after this observation: as many regions as its interval has room for, of one process after the other.
    pub(crate) fn turns(
        &mut self,
        kernel: &dyn Kernel,
        now: Duration,
        observation: &Observation,
    ) -> Vec<Turn> {
        let processes = &observation.processes;
        self.known
            .retain(|process, _| observation.process(*process).is_some());
        if self.hidden || !self.exist(kernel, now) {
            return Vec::new();
        }
        let mut room = room(observation.interval);
        let first = processes.partition_point(|seen| Some(seen.process) <= self.last);
        let (before, after) = processes.split_at(first);
        let mut turns = Vec::new();
        for seen in after.iter().chain(before) {
            if room == 0 {
                break;
            }
            let looks = self.known.get(&seen.process).map_or(0, |known| known.looks);
            if let Some(turn) = turn(seen, looks, room.min(AT_ONCE)) {
                room -= turn.regions.len();
                self.last = Some(turn.process);
                turns.push(turn);
            }
        }
        turns
    }

    /// Takes in what was seen at a turn.
    pub(crate) fn saw(&mut self, turn: &Turn, seen: &BTreeMap<Region, FolioSizes>) {
        let known = self.known.entry(turn.process).or_default();
        known.add(turn.pages, seen.values());
        known.estimate_of(turn.bytes);
    }

    /// The kernel hides what is in frames from this user.
    pub(crate) fn are_hidden(&mut self) {
        self.hidden = true;
        self.known.clear();
    }

    /// An estimate of how many bytes base page table entries map of folios of each size, for a process that was observed.
    /// `None` where that is not known, or not yet.
    #[must_use]
    pub fn of(&self, process: ProcessId) -> Option<FolioSizes> {
        match self.exist? {
            _ if self.hidden => None,
            (false, _) => Some(FolioSizes::new()),
            (true, _) => Some(self.known.get(&process)?.estimate.clone()),
        }
    }

    fn exist(&mut self, kernel: &dyn Kernel, now: Duration) -> bool {
        match self.exist {
            Some((exist, asked)) if now.saturating_sub(asked) < ASKED_EVERY => exist,
            _ => {
                let exist = machine_has_any(kernel);
                self.exist = Some((exist, now));
                exist
            }
        }
    }
}

impl Known {
    fn add<'a>(&mut self, pages: u64, seen: impl Iterator<Item = &'a FolioSizes>) {
        self.looks += 1;
        self.pages = self.pages * FADES + pages_as_number(pages);
        self.in_folios
            .values_mut()
            .for_each(|pages| *pages *= FADES);
        for (&size, &bytes) in seen.flatten() {
            *self.in_folios.entry(size).or_default() += pages_as_number(bytes / BASE_PAGE_SIZE);
        }
        // What was seen long ago alone.
        self.in_folios.retain(|_, pages| *pages >= 1.0);
    }

    /// Of all that base page table entries map, the same part is in folios as of what was looked at.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn estimate_of(&mut self, bytes: u64) {
        let whole = pages_as_number(bytes / BASE_PAGE_SIZE);
        let bytes_of = |pages: f64| (pages / self.pages * whole).round() as u64 * BASE_PAGE_SIZE;
        let of_size = self.in_folios.iter();
        self.estimate = of_size
            .map(|(&size, &pages)| (size, bytes_of(pages)))
            .collect();
    }
}

/// Exact: a machine has less than 2^52 base pages.
#[allow(clippy::cast_precision_loss)]
fn pages_as_number(pages: u64) -> f64 {
    pages as f64
}

/// How many regions may be looked at after `interval`; at least one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn room(interval: Duration) -> usize {
    ((interval.as_secs_f64() * CPU_SHARE / REGION_SECONDS) as usize).max(1)
}

/// At most `most` regions of a process, evenly over those that base pages map, and other ones at each look. `None` where there
/// are none.
fn turn(seen: &ProcessObservation, looks: usize, most: usize) -> Option<Turn> {
    let is_base = |region: &&RegionObservation| !region.is_huge() && region.mapped > 0;
    let base: Vec<&RegionObservation> = seen.regions.iter().filter(is_base).collect();
    let apart = base.len().div_ceil(most.max(1)).max(1);
    let chosen = || base.iter().skip(looks % apart).step_by(apart);
    let bytes = base.iter().map(|region| region.resident_bytes()).sum();
    (!base.is_empty()).then(|| Turn {
        process: seen.process,
        regions: chosen().map(|region| region.region).collect(),
        pages: chosen().map(|region| u64::from(region.mapped)).sum(),
        bytes,
    })
}

/// Whether anything of the machine may be in a folio between a base page and a huge page. Private memory is counted since Linux
/// 6.12 (`nr_anon`); of shared memory, which the page cache can hold in folios as well, the kernel counts what it allocated since boot.
fn machine_has_any(kernel: &dyn Kernel) -> bool {
    thp_mode::smaller_sizes(kernel).into_iter().any(|size| {
        let folder = thp_mode::folder_of(size);
        let count = |name: &str| -> Option<u64> {
            let text = kernel.read(&folder.join("stats").join(name)).ok()?;
            std::str::from_utf8(&text).ok()?.trim().parse().ok()
        };
        let is_private = || kernel.read(&folder.join("enabled")).is_ok();
        let private = count("nr_anon").map_or_else(is_private, |folios| folios > 0);
        private || count("shmem_alloc").is_some_and(|folios| folios > 0)
    })
}

#[cfg(test)]
mod tests {
    use mega_core::PageSize;
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::fake::FakeKernel;

    const FIRST: ProcessId = ProcessId {
        pid: 7,
        start_time: 1,
    };
    const SIZE: u64 = 64 << 10;

    fn process(process: ProcessId, mapped: &[(u16, PageSize)]) -> ProcessObservation {
        let region = |(index, &(mapped, page_size)): (u64, &(u16, PageSize))| RegionObservation {
            region: Region::containing(index << 21),
            mapped,
            accessed: 0,
            page_size,
            zero_filled: None,
            swapped: 0,
        };
        ProcessObservation {
            process,
            cpu_time: None,
            regions: (1..).zip(mapped).map(region).collect(),
            accesses_known: true,
            node: None,
            cgroup: None,
        }
    }

    fn observation(seconds: u64, processes: Vec<ProcessObservation>) -> Observation {
        Observation {
            interval: Duration::from_secs(seconds),
            processes,
            ..Observation::default()
        }
    }

    fn counts(text: &str) -> FakeKernel {
        let count = format!("{}/hugepages-64kB/stats/nr_anon", thp_mode::FOLDER);
        FakeKernel::with_files(&[(count, text)])
    }

    /// Looks so often, at memory of which the regions that `folios` names are in folios.
    fn look(
        larger: &mut LargerFolios,
        times: usize,
        seen: &Observation,
        folios: impl Fn(Region) -> bool,
    ) {
        for _ in 0..times {
            for turn in larger.turns(&counts("1\n"), Duration::ZERO, seen) {
                let mapped = |region: &Region| {
                    let process = seen
                        .processes
                        .iter()
                        .find(|seen| seen.process == turn.process);
                    let regions = &process.expect("observed").regions;
                    let found = regions.iter().find(|seen| seen.region == *region);
                    found.expect("a region of it").resident_bytes()
                };
                let sizes = |region: &Region| match folios(*region) {
                    true => FolioSizes::from([(SIZE, mapped(region))]),
                    false => FolioSizes::new(),
                };
                let sizes = turn.regions.iter().map(|region| (*region, sizes(region)));
                larger.saw(&turn, &sizes.collect());
            }
        }
    }

    #[test]
    fn nobody_is_looked_at_where_the_machine_has_no_such_folios() {
        let seen = observation(5, vec![process(FIRST, &[(512, PageSize::Base)])]);
        let mut larger = LargerFolios::default();
        assert_eq!(larger.of(FIRST), None, "nobody asked yet");
        assert_eq!(larger.turns(&counts("0\n"), Duration::ZERO, &seen), []);
        assert_eq!(larger.of(FIRST), Some(FolioSizes::new()));
        // The counts are asked again after a while.
        let early = ASKED_EVERY - Duration::from_millis(1);
        assert_eq!(larger.turns(&counts("3\n"), early, &seen), []);
        assert_eq!(larger.turns(&counts("3\n"), ASKED_EVERY, &seen).len(), 1);
        assert_eq!(larger.of(FIRST), None, "not yet");
    }

    #[test]
    fn a_kernel_that_does_not_count_them_may_have_some() {
        let file = |name: &str| format!("{}/hugepages-64kB/{name}", thp_mode::FOLDER);
        let private = FakeKernel::with_files(&[(file("enabled"), "[never]\n")]);
        assert!(machine_has_any(&private));
        let shared = |count| {
            let never = (file("shmem_enabled"), "[never]\n");
            FakeKernel::with_files(&[never, (file("stats/shmem_alloc"), count)])
        };
        assert!(machine_has_any(&shared("1\n")));
        assert!(!machine_has_any(&shared("0\n")));
        assert!(!machine_has_any(&FakeKernel::new()));
    }

    #[test]
    fn what_is_hidden_is_not_known() {
        let seen = observation(5, vec![process(FIRST, &[(512, PageSize::Base)])]);
        let mut larger = LargerFolios::default();
        look(&mut larger, 1, &seen, |_| true);
        assert_eq!(larger.of(FIRST), Some(FolioSizes::from([(SIZE, 2 << 20)])));
        larger.are_hidden();
        assert_eq!(larger.of(FIRST), None);
        assert_eq!(larger.turns(&counts("1\n"), Duration::ZERO, &seen), []);
    }

    #[test]
    fn processes_take_turns_where_there_is_room_for_few_regions() {
        let id = |pid| ProcessId { pid, start_time: 1 };
        let one = |pid| process(id(pid), &[(512, PageSize::Base); 40]);
        let seen = observation(1, (1..=3).map(one).collect());
        let mut larger = LargerFolios::default();
        let mut order = Vec::new();
        for _ in 0..3 {
            let turns = larger.turns(&counts("1\n"), Duration::ZERO, &seen);
            let regions: usize = turns.iter().map(|turn| turn.regions.len()).sum();
            assert!(regions <= 11, "a thousandth of a second, at 90 us each");
            order.extend(turns.into_iter().map(|turn| turn.process.pid));
        }
        assert_eq!(order[..3], [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn each_region_of_base_pages_has_its_turn_and_no_other(
            mapped in prop::collection::vec((1..=512_u16, any::<bool>()), 1..200),
            most in 1..40_usize,
        ) {
            let size = |huge| if huge { PageSize::Huge } else { PageSize::Base };
            let mapped: Vec<_> = mapped.into_iter().map(|(mapped, huge)| (mapped, size(huge))).collect();
            let seen = process(FIRST, &mapped);
            let base = seen.regions.iter().filter(|region| !region.is_huge());
            let wanted: Vec<Region> = base.map(|region| region.region).collect();
            let mut chosen = Vec::new();
            for looks in 0..wanted.len().div_ceil(most) {
                let turn = turn(&seen, looks, most).expect("base pages");
                prop_assert!((1..=most).contains(&turn.regions.len()));
                prop_assert!(turn.regions.is_sorted());
                chosen.extend(turn.regions);
            }
            chosen.sort();
            prop_assert_eq!(chosen, wanted);
        }

        #[test]
        fn the_estimate_is_never_more_than_there_is_and_true_where_all_is_alike(
            mapped in prop::collection::vec(1..=512_u16, 1..120),
            every in 1..5_u64,
            looks in 1..30_usize,
        ) {
            let pages: Vec<_> = mapped.iter().map(|&mapped| (mapped, PageSize::Base)).collect();
            let seen = observation(5, vec![process(FIRST, &pages)]);
            let whole = mapped.iter().map(|&mapped| u64::from(mapped) * BASE_PAGE_SIZE).sum::<u64>();
            let mut larger = LargerFolios::default();
            look(&mut larger, looks, &seen, |region| (region.start() >> 21) % every == 0);
            let estimate = larger.of(FIRST).expect("looked at").into_values().sum::<u64>();
            prop_assert!(estimate <= whole);
            if every == 1 {
                prop_assert_eq!(estimate, whole);
            }
        }
    }
}
