//! The `module` tracker and the compactor against the kernel module, with memory that knows its own truth.
//!
//! Ignored where cargo runs all tests: `kernel/vm/suites/run module-live` runs them in a guest that has loaded the module.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use mega_core::compaction::{
    self, BlockObservation, Compactor, Emptied, Goal, PhysicalObservation, Stopped, Unit,
};
use mega_core::promotion::Parameters;
use mega_core::{RegionObservation, compaction::ToEmpty};
use mega_lab::mapping::{Area, HUGE_PAGE, PAGE, WORDS_PER_PAGE};
use mega_linux::kernel::{Kernel, LiveKernel, ReadOnly};
use mega_linux::module::{Device, interface};
use mega_linux::observe::tracker::{self, TrackerKind};
use mega_linux::physical::{PhysicalMemory, Source};
use mega_linux::process;

/// Base pages, every `keep`th page of which is touched and holds its own number.
struct Subject {
    area: Area,
    keep: usize,
}

impl Subject {
    fn new(bytes: usize, keep: usize) -> Self {
        let mut area = Area::map(bytes).unwrap();
        area.advise_base().unwrap();
        // All are touched first, so that those kept lie as far apart in physical memory as in this.
        for page in 0..area.pages() {
            area.words_mut()[page * WORDS_PER_PAGE] = page as u64 + 1;
        }
        for page in (0..area.pages()).filter(|page| page % keep != 0) {
            area.give_back_pages(page..page + 1).unwrap();
        }
        Subject { area, keep }
    }

    fn range(&self) -> Range<u64> {
        self.area.start()..self.area.start() + self.area.bytes() as u64
    }

    fn read(&self, pages: Range<usize>) {
        for page in pages.filter(|page| page % self.keep == 0) {
            let found = self.area.words()[page * WORDS_PER_PAGE];
            assert_eq!(std::hint::black_box(found), page as u64 + 1, "page {page}");
        }
    }

    fn read_all(&self) {
        self.read(0..self.area.pages());
    }
}

fn scan(subject: &Subject, kernel: Arc<dyn Kernel>) -> Vec<RegionObservation> {
    let mut tracker = tracker::open_one(&kernel, TrackerKind::Module).unwrap();
    let process = process::identify(&LiveKernel, std::process::id()).unwrap();
    let handle = kernel.open_process(process.pid).unwrap();
    let target = tracker::TrackedProcess {
        process,
        handle: &handle,
    };
    let mut out = Vec::new();
    tracker
        .scan(&target, std::slice::from_ref(&subject.range()), &mut out)
        .unwrap();
    out
}

fn memory(kernel: impl Kernel + 'static) -> PhysicalMemory {
    let memory = PhysicalMemory::with_module(Arc::new(kernel)).unwrap();
    assert_eq!(memory.source(), Source::Module);
    memory
}

fn select(observation: &PhysicalObservation, policy: &str, count: u64) -> Vec<ToEmpty> {
    let goal = Goal {
        unit: Unit::Block,
        count,
        pages: u64::MAX,
    };
    compaction::build(policy, &Parameters::new())
        .unwrap()
        .select(observation, &goal)
}

fn blocks(observation: &PhysicalObservation) -> BTreeMap<u64, BlockObservation> {
    let blocks = observation.zones.iter().flat_map(|zone| &zone.blocks);
    blocks
        .map(|block| (block.block.first_pfn(), *block))
        .collect()
}

#[test]
#[ignore = "needs the kernel module: kernel/vm/suites/run module-live"]
fn the_tracker_sees_what_is_mapped_and_what_was_accessed() {
    let subject = Subject::new(64 * HUGE_PAGE, 4);
    let live: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let first = scan(&subject, Arc::clone(&live));
    assert_eq!(first.len(), 64);
    for region in &first {
        assert_eq!((region.mapped, region.accessed), (128, 128), "just touched");
    }
    // Nothing is accessed now, but for what the walk of a page that shares a cached translation may set.
    let second = scan(&subject, Arc::clone(&live));
    assert!(
        second
            .iter()
            .all(|region| region.accessed == 0 && region.mapped == 128)
    );

    subject.read(0..16 * 512);
    let third = scan(&subject, live);
    let (hot, cold) = third.split_at(16);
    assert!(
        cold.iter().all(|region| region.accessed == 0),
        "the rest was left alone"
    );
    // Translations may have stayed in the TLB: never more than what was read, and not nothing.
    assert!(hot.iter().all(|region| region.accessed <= 128));
    assert!(hot.iter().any(|region| region.accessed > 0));
}

#[test]
#[ignore = "needs the kernel module: kernel/vm/suites/run module-live"]
fn a_dry_run_clears_no_accessed_bit() {
    let subject = Subject::new(4 * HUGE_PAGE, 1);
    let dry: Arc<dyn Kernel> = Arc::new(ReadOnly(LiveKernel));
    for _ in 0..2 {
        let seen = scan(&subject, Arc::clone(&dry));
        assert!(seen.iter().all(|region| region.accessed == 512), "{seen:?}");
    }
}

#[test]
#[ignore = "needs the kernel module: kernel/vm/suites/run module-live"]
fn selected_blocks_are_emptied_and_what_was_in_them_arrives() {
    let subject = Subject::new(128 * HUGE_PAGE, 8);
    for policy in ["mega", "trident", "ingens"] {
        let mut memory = memory(LiveKernel);
        let before = memory.observe_physical().unwrap();
        let targets = select(&before, policy, 16);
        assert_eq!(targets.len(), 16, "{policy}: there is enough to select");
        let reports = memory.empty(&targets).unwrap();
        subject.read_all();
        let emptied = |report: &&Emptied| report.stopped == Stopped::Emptied;
        let done: Vec<&Emptied> = reports.iter().filter(emptied).collect();
        assert!(done.len() >= 12, "{policy}: {reports:?}");
        let after = blocks(&memory.observe_physical().unwrap());
        let free = done
            .iter()
            .filter(|report| after[&report.target.first_pfn].is_free())
            .count();
        // Others may allocate from an emptied block at once.
        assert!(
            free * 4 >= done.len() * 3,
            "{policy}: {free} of {} stayed free",
            done.len()
        );
        // What was moved out of one block may have arrived in another before its turn came.
        let mut moved_before = 0;
        for report in &reports {
            let (moved, counted) = (report.counts.migrated, u64::from(report.target.pages));
            if report.stopped == Stopped::Emptied {
                let most = counted + moved_before;
                assert!(
                    moved + 64 >= counted && moved <= most + 64,
                    "{policy}, {moved_before} moved before: {report:?}"
                );
            }
            moved_before += moved;
        }
    }
}

#[test]
#[ignore = "needs the kernel module: kernel/vm/suites/run module-live"]
fn a_dry_run_empties_nothing() {
    let subject = Subject::new(64 * HUGE_PAGE, 8);
    let mut memory = memory(ReadOnly(LiveKernel));
    let before = memory.observe_physical().unwrap();
    let targets = select(&before, "mega", 8);
    let reports = memory.empty(&targets).unwrap();
    assert_eq!(reports.len(), 8);
    assert!(reports.iter().all(|report| report.counts.migrated == 0));
    assert!(
        reports
            .iter()
            .filter(|report| report.stopped == Stopped::Would)
            .count()
            >= 6
    );
    let after = blocks(&memory.observe_physical().unwrap());
    let occupied = targets
        .iter()
        .filter(|target| after[&target.first_pfn].movable > 0)
        .count();
    assert!(occupied >= 7, "{occupied} of 8 still hold what they held");
    subject.read_all();
}

#[test]
#[ignore = "needs the kernel module: kernel/vm/suites/run module-live"]
fn hot_blocks_are_known_as_hot_and_cold_ones_as_cold() {
    let subject = Subject::new(64 * HUGE_PAGE, 1);
    let live: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let mut memory = memory(LiveKernel);
    memory.observe_physical().unwrap(); // blocks are known from here on
    scan(&subject, Arc::clone(&live));
    memory.observe_physical().unwrap(); // and accesses are counted anew
    subject.read(0..32 * 512);
    // Evicts what the TLB still holds, so that the second half of the reads sets the bits.
    std::thread::sleep(std::time::Duration::from_millis(50));
    subject.read(0..32 * 512);
    scan(&subject, live);
    let observation = memory.observe_physical().unwrap();
    let accessed: u64 = blocks(&observation)
        .values()
        .filter_map(|block| block.accessed)
        .map(u64::from)
        .sum();
    let read = 32 * 512;
    assert!(accessed > 0 && accessed <= read, "{accessed} of {read}");
}

#[test]
#[ignore = "needs the kernel module: kernel/vm/suites/run module-live"]
fn the_modules_counts_are_those_of_the_page_flags() {
    let _subject = Subject::new(64 * HUGE_PAGE, 3);
    let device = Device::open(Arc::new(LiveKernel)).unwrap();
    assert_eq!(device.info().version, interface::VERSION);
    let by_module = blocks(&memory(LiveKernel).observe_physical().unwrap());
    let flags = mega_linux::physical::page_flags::PageFlags::open(&LiveKernel).unwrap();
    let end = device.info().end_frame / 512 * 512;
    let by_flags = flags.blocks(&LiveKernel, 0..end, &mut |_| ()).unwrap();
    let mut differing = 0;
    for block in &by_flags {
        let Some(other) = by_module.get(&block.block.first_pfn()) else {
            continue;
        };
        // Free ones cannot be compared: those on per-CPU lists look unmovable to the one.
        differing += usize::from(block.movable.abs_diff(other.movable) > 32);
    }
    assert!(
        differing * 20 <= by_flags.len(),
        "{differing} of {} blocks differ",
        by_flags.len()
    );
    let mut nothing = interface::Compact {
        frame: 1,
        order: 9,
        ..interface::Compact::default()
    };
    let refused = device.compact(&mut nothing, &[]).unwrap_err();
    assert_eq!(
        refused.raw_os_error(),
        Some(22),
        "a frame that is not aligned"
    );
    assert_eq!(PAGE, 4096);
}
