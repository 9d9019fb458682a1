//! Whatever programs, the manager and the kernel do, in any order: page tables and physical memory agree.

use mega_core::compaction::{
    CompactionPolicy, Goal, PhysicalObservation, ToEmpty, TwoScanners, Unit,
};
use mega_core::{
    BASE_PAGE_SIZE, Cause, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Outcome, PageSize, Region,
};
use proptest::prelude::*;

use super::*;
use crate::address_space::SharedId;
use crate::physical::Pages;

const MIB: u64 = 1 << 20;

pub(super) fn kernel(mib: u64, settings: Settings) -> Kernel {
    let layout = Layout::one_node(mib * MIB).unwrap();
    Kernel::new(&layout, settings, Costs::trident_server())
}

/// Faults take giant pages where they can.
pub(super) fn giant_faults() -> Settings {
    Settings {
        thp: Thp::Always,
        giant_faults: true,
        giant_pages: true,
        ..Settings::default()
    }
}

/// Maps as much as so many spans; returns where the first whole span begins.
pub(super) fn map_spans(kernel: &mut Kernel, pid: Pid, spans: u64, advice: Advice) -> u64 {
    let start = kernel.map(pid, spans * GIANT_PAGE_SIZE, advice);
    start.next_multiple_of(GIANT_PAGE_SIZE)
}

pub(super) fn settings(thp: Thp, defrag: Defrag) -> Settings {
    Settings {
        thp,
        defrag,
        ..Settings::default()
    }
}

/// A process with an untouched mapping of `mib` MiB.
pub(super) fn process(kernel: &mut Kernel, mib: u64) -> (Pid, u64) {
    let pid = kernel.spawn(0);
    let start = kernel.map(pid, mib * MIB, Advice::None);
    (pid, start)
}

pub(super) fn touch_all(kernel: &mut Kernel, pid: Pid, start: u64, pages: u64) {
    for page in 0..pages {
        kernel.touch(pid, start + page * BASE_PAGE_SIZE).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Touch(u8, u64, u64),
    Discard(u8, u64, u64),
    Unmap(u8, u64, u64),
    Promote(u8, u64),
    Demote(u8, u64),
    FreeZero(u8),
    Exit(u8),
    Fork(u8, u8),
    Read(u8, u64, u64),
    TouchShared(u8, u64, u64),
    DiscardShared(u8, u64, u64),
    PromoteShared(u8, u64),
    DemoteShared(u8, u64),
    RemapShared(u8),
    ReadFile(u32, u32),
    Own(u8),
    FreeOwn(usize),
    CompactMemory,
    Empty(u32),
    Khugepaged,
}

fn operation() -> impl Strategy<Value = Operation> {
    let page = 0u64..8 * 512;
    let shared = 0..SHARED_PAGES;
    prop_oneof![
        8 => (0u8..3, page.clone(), 1u64..600).prop_map(|(p, at, n)| Operation::Touch(p, at, n)),
        3 => (0u8..3, page.clone(), 1u64..900).prop_map(|(p, at, n)| Operation::Discard(p, at, n)),
        1 => (0u8..3, page.clone(), 1u64..900).prop_map(|(p, at, n)| Operation::Unmap(p, at, n)),
        4 => (0u8..3, 0u64..8).prop_map(|(p, region)| Operation::Promote(p, region)),
        2 => (0u8..3, 0u64..8).prop_map(|(p, region)| Operation::Demote(p, region)),
        1 => (0u8..3).prop_map(Operation::FreeZero),
        1 => (0u8..3).prop_map(Operation::Exit),
        3 => (0u8..3, 0u8..3).prop_map(|(parent, child)| Operation::Fork(parent, child)),
        1 => (0u8..3, page.clone(), 1u64..600).prop_map(|(p, at, n)| Operation::Read(p, at, n)),
        4 => (0u8..3, shared.clone(), 1u64..600).prop_map(|(p, at, n)| Operation::TouchShared(p, at, n)),
        1 => (0u8..3, shared, 1u64..600).prop_map(|(p, at, n)| Operation::DiscardShared(p, at, n)),
        3 => (0u8..3, 0u64..2).prop_map(|(p, region)| Operation::PromoteShared(p, region)),
        1 => (0u8..3, 0u64..2).prop_map(|(p, region)| Operation::DemoteShared(p, region)),
        1 => (0u8..3).prop_map(Operation::RemapShared),
        2 => (0u32..2000, 1u32..800).prop_map(|(at, n)| Operation::ReadFile(at, n)),
        2 => (0u8..=10).prop_map(Operation::Own),
        1 => any::<prop::sample::Index>().prop_map(|i| Operation::FreeOwn(i.index(1 << 16))),
        1 => Just(Operation::CompactMemory),
        2 => (0u32..24).prop_map(Operation::Empty),
        1 => Just(Operation::Khugepaged),
    ]
}

/// Pages of the shared memory that all processes map.
const SHARED_PAGES: u64 = 2 * 512;

struct Play {
    kernel: Kernel,
    processes: Vec<(Pid, u64)>,
    shared: SharedId,
    /// Where each process maps it.
    shared_at: Vec<u64>,
    own: Vec<(Frame, u8)>,
    khugepaged: Khugepaged,
}

impl Play {
    fn new(settings: Settings) -> Self {
        let mut kernel = kernel(48, settings);
        let processes: Vec<_> = (0..3).map(|_| process(&mut kernel, 16)).collect();
        let shared = kernel.share_memory(SHARED_PAGES * BASE_PAGE_SIZE);
        let shared_at = processes.iter();
        let shared_at = shared_at
            .map(|(pid, _)| kernel.map_shared(*pid, shared))
            .collect();
        Play {
            kernel,
            processes,
            shared,
            shared_at,
            own: Vec::new(),
            khugepaged: Khugepaged::new(KhugepagedSettings::default()),
        }
    }

    fn own_pages(&self) -> u64 {
        self.own.iter().map(|(_, order)| 1u64 << order).sum()
    }

    fn apply(&mut self, operation: &Operation) {
        let kernel = &mut self.kernel;
        let place = |process: u8| self.processes[usize::from(process)];
        let region = |start: u64, number: u64| Region::containing(start + number * HUGE_PAGE_SIZE);
        match *operation {
            Operation::Touch(process, at, pages) => {
                let (pid, start) = place(process);
                for page in at..at + pages {
                    // Memory may be used up, and a part unmapped.
                    let _ = kernel.touch(pid, start + page % (8 * 512) * BASE_PAGE_SIZE);
                }
            }
            Operation::Discard(process, at, pages) => {
                let (pid, start) = place(process);
                kernel.discard(pid, start + at * BASE_PAGE_SIZE, pages * BASE_PAGE_SIZE);
            }
            Operation::Unmap(process, at, pages) => {
                let (pid, start) = place(process);
                kernel.unmap(pid, start + at * BASE_PAGE_SIZE, pages * BASE_PAGE_SIZE);
            }
            Operation::Promote(process, number) => {
                let (pid, start) = place(process);
                kernel.promote(pid, region(start, number));
            }
            Operation::Demote(process, number) => {
                let (pid, start) = place(process);
                kernel.demote(pid, region(start, number));
            }
            Operation::FreeZero(process) => {
                let (pid, start) = place(process);
                kernel.free_zero(pid, region(start, 0));
            }
            Operation::Exit(process) => {
                let (pid, _) = place(process);
                kernel.exit(pid);
                let born = self::process(kernel, 16);
                self.shared_at[usize::from(process)] = kernel.map_shared(born.0, self.shared);
                self.processes[usize::from(process)] = born;
            }
            Operation::Fork(parent, child) => {
                // The child takes the place of a process, which exits.
                let (pid, start) = place(parent);
                if parent != child
                    && let Some((born, _)) = kernel.fork(pid)
                {
                    kernel.exit(place(child).0);
                    self.processes[usize::from(child)] = (born, start);
                    self.shared_at[usize::from(child)] = self.shared_at[usize::from(parent)];
                }
            }
            Operation::Read(process, at, pages) => {
                let (pid, start) = place(process);
                for page in at..at + pages {
                    let _ = kernel.read(pid, start + page % (8 * 512) * BASE_PAGE_SIZE);
                }
            }
            Operation::TouchShared(process, at, pages) => {
                let (pid, start) = (place(process).0, self.shared_at[usize::from(process)]);
                for page in at..at + pages {
                    let _ = kernel.touch(pid, start + page % SHARED_PAGES * BASE_PAGE_SIZE);
                }
            }
            Operation::DiscardShared(process, at, pages) => {
                let (pid, start) = (place(process).0, self.shared_at[usize::from(process)]);
                kernel.discard(pid, start + at * BASE_PAGE_SIZE, pages * BASE_PAGE_SIZE);
            }
            Operation::PromoteShared(process, number) => {
                let (pid, start) = (place(process).0, self.shared_at[usize::from(process)]);
                kernel.promote(pid, region(start, number));
            }
            Operation::DemoteShared(process, number) => {
                let (pid, start) = (place(process).0, self.shared_at[usize::from(process)]);
                kernel.demote(pid, region(start, number));
            }
            Operation::RemapShared(process) => {
                let pid = place(process).0;
                let at = &mut self.shared_at[usize::from(process)];
                kernel.unmap(pid, *at, SHARED_PAGES * BASE_PAGE_SIZE);
                *at = kernel.map_shared(pid, self.shared);
            }
            Operation::ReadFile(at, pages) => {
                for page in at..at + pages {
                    kernel.read_file(page, 0);
                }
            }
            Operation::Own(order) => {
                if let Some(frame) = kernel.allocate_own(Pages::Unmovable(order), 0) {
                    self.own.push((frame, order));
                }
            }
            Operation::FreeOwn(place) => {
                if !self.own.is_empty() {
                    let (frame, _) = self.own.swap_remove(place % self.own.len());
                    kernel.free_own(frame);
                }
            }
            Operation::CompactMemory => {
                kernel.compact_memory();
            }
            Operation::Empty(block) => {
                let target = ToEmpty {
                    unit: Unit::Block,
                    first_pfn: u64::from(block) * 512,
                    pages: 0,
                    empties: true,
                };
                let (report, _) = kernel.empty(&target);
                let is_free = kernel.memory.block_use(block) == crate::physical::BlockUse::Free;
                assert_eq!(report.stopped.is_free(), is_free, "{report:?}");
            }
            Operation::Khugepaged => {
                let mut khugepaged = self.khugepaged.clone();
                khugepaged.round(kernel, &mut |_, _| ());
                self.khugepaged = khugepaged;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn page_tables_and_memory_agree_after_every_operation(
        operations in prop::collection::vec(operation(), 1..80),
        thp in prop_oneof![Just(Thp::Never), Just(Thp::Always)],
        defrag in prop_oneof![Just(Defrag::Never), Just(Defrag::Always)],
    ) {
        let mut play = Play::new(settings(thp, defrag));
        let frames = play.kernel.memory.frames();
        for operation in &operations {
            play.apply(operation);
            prop_assert_eq!(play.kernel.check(play.own_pages()), Ok(()));
        }
        for (pid, _) in play.processes.clone() {
            play.kernel.exit(pid);
        }
        while let Some(frame) = play.kernel.cache.evict() {
            play.kernel.memory.free(frame);
        }
        prop_assert_eq!(play.kernel.memory.free_frames(), frames - play.own_pages());
    }

    #[test]
    fn the_same_operations_give_the_same_bytes(
        operations in prop::collection::vec(operation(), 1..40),
    ) {
        let run = || {
            let mut play = Play::new(settings(Thp::Always, Defrag::Always));
            operations.iter().for_each(|operation| play.apply(operation));
            format!("{:?}", play.kernel)
        };
        prop_assert!(run() == run());
    }
}

#[test]
fn a_fault_takes_the_page_that_the_mode_allows() {
    for (thp, size) in [
        (Thp::Never, PageSize::Base),
        (Thp::Madvise, PageSize::Base),
        (Thp::Always, PageSize::Huge),
    ] {
        let mut kernel = kernel(64, settings(thp, Defrag::Never));
        let (pid, start) = process(&mut kernel, 8);
        let touched = kernel.touch(pid, start).unwrap();
        assert_eq!(touched.page_size, size);
        let pages = if size == PageSize::Huge { 512 } else { 1 };
        let costs = kernel.costs();
        assert_eq!(touched.fault, costs.fault + pages * costs.zero_page);
        assert_eq!(kernel.touch(pid, start).unwrap().fault, 0);
    }
    let mut kernel = kernel(64, settings(Thp::Madvise, Defrag::Never));
    let pid = kernel.spawn(0);
    let start = kernel.map(pid, 8 * MIB, Advice::Huge);
    assert_eq!(kernel.touch(pid, start).unwrap().page_size, PageSize::Huge);
    assert_eq!(
        kernel.touch(pid, start - 1),
        Err(Fault::NotMapped(start - 1))
    );
}

#[test]
fn a_giant_fault_takes_a_whole_free_chunk_and_its_zeroing() {
    let mut kernel = kernel(7 << 10, giant_faults());
    let pid = kernel.spawn(0);
    let start = map_spans(&mut kernel, pid, 3, Advice::None);
    let touched = kernel.touch(pid, start + 5 * BASE_PAGE_SIZE).unwrap();
    assert_eq!(touched.page_size, PageSize::Giant);
    let milliseconds = kernel.costs().time(touched.fault).as_millis();
    assert!(
        (400..=405).contains(&milliseconds),
        "the paper: 400 ms; {milliseconds}"
    );
    assert_eq!(
        kernel.process(pid).space.mapped_bytes().giant,
        GIANT_PAGE_SIZE
    );
    assert_eq!(kernel.check(0), Ok(()));
    // A change inside ends it: huge pages map the rest.
    kernel.discard(pid, start + HUGE_PAGE_SIZE, BASE_PAGE_SIZE);
    let mapped = kernel.process(pid).space.mapped_bytes();
    assert_eq!((mapped.giant, mapped.huge), (0, 511 * HUGE_PAGE_SIZE));
    assert_eq!(mapped.base, 511 * BASE_PAGE_SIZE);
    assert_eq!(kernel.check(0), Ok(()));
}

/// A fault that finds a zeroed chunk does not pay for the zeroing; one that comes before the next is ready does.
#[test]
fn a_giant_fault_pays_for_zeroing_unless_a_chunk_is_zeroed() {
    let settings = Settings {
        zeroes_ahead: true,
        ..giant_faults()
    };
    let mut kernel = kernel(7 << 10, settings);
    let costs = *kernel.costs();
    let with_zeroing = costs.giant_fault + 512 * 512 * costs.zero_page;
    let fault = |kernel: &mut Kernel| {
        let pid = kernel.spawn(0);
        let start = map_spans(kernel, pid, 2, Advice::None);
        (pid, kernel.touch(pid, start).unwrap())
    };
    let giant = |touched: Touched| {
        assert_eq!(touched.page_size, PageSize::Giant);
        touched.fault
    };
    // All were zeroed while nobody needed any. The last may go for page tables.
    let mut taken = Vec::new();
    while kernel.free_chunks(0) > 0 {
        let (pid, touched) = fault(&mut kernel);
        let is_giant = touched.page_size == PageSize::Giant;
        assert!(!is_giant || touched.fault == costs.giant_fault);
        taken.push(pid);
    }
    let (pid, touched) = fault(&mut kernel);
    assert_eq!(touched.page_size, PageSize::Huge);
    // What comes back is not zeroed yet, and then one is.
    for pid in taken.into_iter().chain([pid]) {
        kernel.exit(pid);
    }
    assert_eq!(giant(fault(&mut kernel).1), with_zeroing);
    kernel.set_time(costs.time(512 * 512 * costs.zero_page + costs.hertz / 1000));
    assert_eq!(giant(fault(&mut kernel).1), costs.giant_fault);
    assert_eq!(giant(fault(&mut kernel).1), with_zeroing);
    assert_eq!(kernel.check(0), Ok(()));
}

/// What is given back costs by its pages, in whichever way; one huge page costs less than its 512 base pages would.
#[test]
fn giving_memory_back_takes_time() {
    for (thp, by_page) in [(Thp::Never, false), (Thp::Always, true)] {
        let mut kernel = kernel(64, settings(thp, Defrag::Never));
        let costs = *kernel.costs();
        let region = if by_page {
            costs.free_huge
        } else {
            512 * costs.free_page
        };
        let pid = kernel.spawn(0);
        let start = kernel.map(pid, 8 * MIB, Advice::None);
        assert_eq!(start % HUGE_PAGE_SIZE, 0);
        touch_all(&mut kernel, pid, start, 4 * 512);
        assert_eq!(
            kernel.discard(pid, start, HUGE_PAGE_SIZE),
            costs.unmap + region
        );
        // Nothing is there any more.
        assert_eq!(kernel.discard(pid, start, HUGE_PAGE_SIZE), costs.unmap);
        assert_eq!(
            kernel.unmap(pid, start + HUGE_PAGE_SIZE, 2 * HUGE_PAGE_SIZE),
            costs.unmap + 2 * region
        );
        assert_eq!(kernel.exit(pid), region);
        assert!(costs.free_huge < 512 * costs.free_page);
    }
}

/// The page tables take the last free chunk apart: a huge page maps the address, and nothing is left over.
#[test]
fn a_giant_fault_whose_page_tables_need_the_chunk_leaves_nothing_behind() {
    let mut kernel = kernel(7 << 10, giant_faults());
    let pid = kernel.spawn(0);
    let start = map_spans(&mut kernel, pid, 3, Advice::None);
    let mut own = Vec::new();
    while let Some(frame) = kernel.allocate_own(Pages::Unmovable(10), 0) {
        own.push(frame);
    }
    let (chunk, mut pages) = (5, own.len() as u64 * 1024);
    for frame in own {
        if frame.block_index() / 512 == chunk {
            kernel.free_own(frame);
            pages -= 1024;
        }
    }
    // What is free outside of the chunk goes first.
    let last = loop {
        let frame = kernel.allocate_own(Pages::Unmovable(0), 0).unwrap();
        pages += 1;
        if kernel.memory.chunk_counts(chunk).free < 512 * 512 {
            break frame;
        }
    };
    kernel.free_own(last);
    pages -= 1;
    assert_eq!(kernel.memory.chunk_counts(chunk).free, 512 * 512);

    let touched = kernel.touch(pid, start).unwrap();
    let mapped = kernel.process(pid).space.mapped_bytes();
    assert_eq!(kernel.counters().giant_fault_failed, 1);
    assert_eq!(touched.page_size, PageSize::Huge);
    assert_eq!((mapped.giant, mapped.huge), (0, HUGE_PAGE_SIZE));
    assert_eq!(kernel.check(pages), Ok(()));
}

#[test]
fn a_span_becomes_giant_by_a_copy_into_an_emptied_chunk() {
    let settings = Settings {
        giant_pages: true,
        ..Settings::default()
    };
    let mut kernel = kernel(7 << 10, settings);
    let (other, first) = process(&mut kernel, 1 << 10);
    touch_all(&mut kernel, other, first, 100);
    let pid = kernel.spawn(0);
    let start = map_spans(&mut kernel, pid, 2, Advice::None);
    let span = Region::containing(start);
    assert_eq!(
        kernel.promote_giant(pid, span).0,
        Outcome::Failed(Cause::NotHuge)
    );
    for region in Region::wholly_inside(start, start + GIANT_PAGE_SIZE) {
        kernel.touch(pid, region.start()).unwrap();
        assert!(matches!(
            kernel.promote(pid, region).0,
            Outcome::Done { .. }
        ));
    }
    let (outcome, cycles) = kernel.promote_giant(pid, span);
    assert_eq!(
        outcome,
        Outcome::Remapped {
            copied: GIANT_PAGE_SIZE,
            exchanged: 0
        }
    );
    let milliseconds = kernel.costs().time(cycles).as_millis();
    assert!(
        (600..650).contains(&milliseconds),
        "the paper: 600 ms; {milliseconds}"
    );
    assert_eq!(kernel.check(0), Ok(()));
    assert_eq!(kernel.promote_giant(pid, span).0, Outcome::AlreadySo);
    assert_eq!(
        kernel.demote_giant(pid, span).0,
        Outcome::Remapped {
            copied: 0,
            exchanged: 0
        }
    );
    // They lie in their places already.
    assert_eq!(
        kernel.promote_giant(pid, span).0,
        Outcome::Remapped {
            copied: 0,
            exchanged: 0
        }
    );
    let (outcome, _) = kernel.free_zero(pid, span);
    assert_eq!(outcome, Outcome::AlreadySo, "each has one page of data");
}

/// Trident, section 6: 500 us for 1 GiB where the hypervisor exchanges what is behind it.
#[test]
fn a_span_becomes_giant_by_an_exchange_of_what_lies_behind_it() {
    let settings = Settings {
        giant_pages: true,
        exchanges: true,
        ..Settings::default()
    };
    let mut kernel = kernel(7 << 10, settings);
    let pid = kernel.spawn(0);
    let start = map_spans(&mut kernel, pid, 2, Advice::Huge);
    for region in Region::wholly_inside(start, start + GIANT_PAGE_SIZE) {
        kernel.touch(pid, region.start()).unwrap();
    }
    let copied_before = kernel.counters().bytes_copied;
    let (outcome, cycles) = kernel.promote_giant(pid, Region::containing(start));
    assert_eq!(
        outcome,
        Outcome::Remapped {
            copied: 0,
            exchanged: GIANT_PAGE_SIZE
        }
    );
    assert_eq!(kernel.counters().bytes_copied, copied_before);
    let microseconds = kernel.costs().time(cycles).as_micros();
    assert!(
        (500..600).contains(&microseconds),
        "the paper: 500 us, and mapping it; {microseconds}"
    );
    assert_eq!(kernel.check(0), Ok(()));
}

/// Memory with blocks whose every other page is in use.
fn checkered(mib: u64) -> Kernel {
    let mut kernel = kernel(mib, settings(Thp::Never, Defrag::Never));
    let (pid, start) = process(&mut kernel, mib);
    let mut page = 0;
    while kernel.touch(pid, start + page * BASE_PAGE_SIZE).is_ok() {
        page += 1;
    }
    for page in (0..page).step_by(2) {
        kernel.discard(pid, start + page * BASE_PAGE_SIZE, BASE_PAGE_SIZE);
    }
    kernel
}

#[test]
fn compaction_makes_blocks_and_a_forecast_tells_which() {
    let mut kernel = checkered(64);
    let before = kernel.memory.free_blocks();
    let (seen, _) = kernel.look_at_physical();
    let observation = PhysicalObservation {
        zones: seen
            .zones
            .into_iter()
            .filter(|zone| zone.free_pages() > 0)
            .collect(),
    };
    let goal = Goal {
        unit: Unit::Block,
        count: u64::MAX,
        pages: u64::MAX,
    };
    let forecast = TwoScanners.select(&observation, &goal);
    assert!(forecast.len() >= 6, "{forecast:?}");
    kernel.compact_memory();
    assert_eq!(kernel.check(0), Ok(()));
    for target in &forecast {
        let block = u32::try_from(target.first_pfn / 512).unwrap();
        assert_eq!(
            kernel.memory.block_use(block),
            crate::physical::BlockUse::Free,
            "{target:?}"
        );
    }
    let made = kernel.memory.free_blocks() - before;
    assert!(
        made >= forecast.len() as u64,
        "{made} of {}",
        forecast.len()
    );
}

/// Where compaction cannot help, fewer and fewer attempts are made.
#[test]
fn what_failed_is_deferred() {
    let mut kernel = checkered(64);
    // A page of the kernel's own in each block, so that none can be emptied.
    let mut own = 0;
    while kernel.memory.free_frames() > 3000 {
        kernel.allocate_own(Pages::Unmovable(0), 0).unwrap();
        own += 1;
    }
    let attempts = (0..200).filter(|_| kernel.compact_for_block(0, compaction::Mode::Sync) > 0);
    let attempts = attempts.count();
    assert!(attempts < 20, "{attempts}");
    assert_eq!(kernel.check(own), Ok(()));
}

#[test]
fn a_demotion_gives_zeros_back_and_keeps_data() {
    let mut kernel = kernel(64, settings(Thp::Always, Defrag::Never));
    let (pid, start) = process(&mut kernel, 4);
    touch_all(&mut kernel, pid, start, 10);
    assert_eq!(
        kernel.process(pid).space.mapped_bytes().huge,
        HUGE_PAGE_SIZE
    );
    let (outcome, _) = kernel.demote(pid, Region::containing(start));
    assert_eq!(
        outcome,
        Outcome::Done {
            resident_before: HUGE_PAGE_SIZE,
            resident_after: 10 * BASE_PAGE_SIZE
        }
    );
    assert_eq!(
        kernel.process(pid).space.mapped_bytes().resident(),
        10 * BASE_PAGE_SIZE
    );
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn page_cache_is_given_up_for_programs() {
    let mut kernel = kernel(64, Settings::default());
    for page in 0..20_000 {
        kernel.read_file(page, 0);
    }
    assert!(kernel.cached() < 16_384);
    let (pid, start) = process(&mut kernel, 32);
    touch_all(&mut kernel, pid, start, 8192);
    assert!(kernel.counters().reclaimed > 8000);
    assert_eq!(kernel.check(0), Ok(()));
}

/// 64 pages a frame's worth of state: what a simulated base page costs here, all together.
#[test]
fn a_mapped_base_page_costs_less_than_sixteen_bytes() {
    let mut kernel = kernel(256, settings(Thp::Never, Defrag::Never));
    let (pid, start) = process(&mut kernel, 240);
    let pages = 50_000;
    touch_all(&mut kernel, pid, start, pages);
    let each = kernel.state_bytes() / pages;
    assert!(each < 16, "{each} bytes");
}
