//! Whatever is done with giant pages, in any order, on a machine of a few chunks: everything holds after each operation.

use mega_core::compaction::{ToEmpty, Unit};
use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Region};
use proptest::prelude::*;

use super::tests::{giant_faults, kernel, map_spans};
use super::*;
use crate::physical::Pages;

/// Memory of the machine, in MiB: four chunks.
const MEMORY: u64 = 4 << 10;
const PROCESSES: u8 = 2;
/// Whole spans that each process has mapped.
const SPANS: u64 = 2;
const CHUNKS: u32 = 4;

/// Processes, spans, regions and chunks are given by their numbers.
#[derive(Clone, Debug)]
enum Operation {
    Touch(u8, u64),
    /// One page of each region of a span.
    TouchRegions(u8, u64),
    /// Base pages from a region on.
    Discard(u8, u64, u64),
    DiscardSpan(u8, u64),
    Promote(u8, u64),
    Demote(u8, u64),
    PromoteGiant(u8, u64),
    DemoteGiant(u8, u64),
    FreeZero(u8, u64),
    EmptyChunk(u32),
    CompactMemory,
    /// The second takes the place of a process, which exits.
    Fork(u8, u8),
    Exit(u8),
    ReadFile(u32, u32),
    Own(u8),
    FreeOwn(usize),
    FaultsGiant(bool),
}

fn operation() -> impl Strategy<Value = Operation> {
    let process = 0..PROCESSES;
    let span = (process.clone(), 0..SPANS);
    let region = (process.clone(), 0..SPANS * 512);
    prop_oneof![
        4 => region.clone().prop_map(|(p, at)| Operation::Touch(p, at)),
        6 => span.clone().prop_map(|(p, at)| Operation::TouchRegions(p, at)),
        3 => (region.clone(), 1u64..2000).prop_map(|((p, at), n)| Operation::Discard(p, at, n)),
        2 => span.clone().prop_map(|(p, at)| Operation::DiscardSpan(p, at)),
        2 => region.clone().prop_map(|(p, at)| Operation::Promote(p, at)),
        2 => region.prop_map(|(p, at)| Operation::Demote(p, at)),
        8 => span.clone().prop_map(|(p, at)| Operation::PromoteGiant(p, at)),
        4 => span.clone().prop_map(|(p, at)| Operation::DemoteGiant(p, at)),
        2 => span.prop_map(|(p, at)| Operation::FreeZero(p, at)),
        4 => (0..CHUNKS).prop_map(Operation::EmptyChunk),
        1 => Just(Operation::CompactMemory),
        1 => (process.clone(), process.clone()).prop_map(|(p, c)| Operation::Fork(p, c)),
        2 => process.prop_map(Operation::Exit),
        2 => (0u32..20_000, 1u32..3000).prop_map(|(at, n)| Operation::ReadFile(at, n)),
        2 => (0u8..=10).prop_map(Operation::Own),
        2 => any::<prop::sample::Index>().prop_map(|i| Operation::FreeOwn(i.index(1 << 16))),
        2 => any::<bool>().prop_map(Operation::FaultsGiant),
    ]
}

struct Play {
    kernel: Kernel,
    /// Each with where its first whole span begins.
    processes: Vec<(Pid, u64)>,
    own: Vec<(Frame, u8)>,
}

impl Play {
    fn new(exchanges: bool) -> Self {
        let settings = Settings {
            exchanges,
            ..giant_faults()
        };
        let mut kernel = kernel(MEMORY, settings);
        let processes = (0..PROCESSES).map(|_| born(&mut kernel)).collect();
        Play {
            kernel,
            processes,
            own: Vec::new(),
        }
    }

    fn own_pages(&self) -> u64 {
        self.own.iter().map(|(_, order)| 1u64 << order).sum()
    }

    fn apply(&mut self, operation: &Operation) {
        let kernel = &mut self.kernel;
        let place = |process: u8| self.processes[usize::from(process)];
        let region = |process: u8, number: u64| {
            let (pid, start) = self.processes[usize::from(process)];
            (pid, Region::containing(start + number * HUGE_PAGE_SIZE))
        };
        let span = |process: u8, number: u64| region(process, number * 512);
        match *operation {
            Operation::Touch(process, at) => {
                let (pid, region) = region(process, at);
                // Memory may be used up.
                let _ = kernel.touch(pid, region.start());
            }
            Operation::TouchRegions(process, at) => {
                let (pid, first) = span(process, at);
                let start = first.start();
                for region in Region::wholly_inside(start, start + GIANT_PAGE_SIZE) {
                    let _ = kernel.touch(pid, region.start());
                }
            }
            Operation::Discard(process, at, pages) => {
                let (pid, region) = region(process, at);
                kernel.discard(pid, region.start(), pages * BASE_PAGE_SIZE);
            }
            Operation::DiscardSpan(process, at) => {
                let (pid, first) = span(process, at);
                kernel.discard(pid, first.start(), GIANT_PAGE_SIZE);
            }
            Operation::Promote(process, at) => {
                let (pid, region) = region(process, at);
                kernel.promote(pid, region);
            }
            Operation::Demote(process, at) => {
                let (pid, region) = region(process, at);
                kernel.demote(pid, region);
            }
            Operation::PromoteGiant(process, at) => {
                let (pid, first) = span(process, at);
                kernel.promote_giant(pid, first);
            }
            Operation::DemoteGiant(process, at) => {
                let (pid, first) = span(process, at);
                kernel.demote_giant(pid, first);
            }
            Operation::FreeZero(process, at) => {
                let (pid, first) = span(process, at);
                kernel.free_zero(pid, first);
            }
            Operation::EmptyChunk(chunk) => {
                let target = ToEmpty {
                    unit: Unit::Chunk,
                    first_pfn: u64::from(chunk) * u64::from(Unit::Chunk.pages()),
                    pages: 0,
                    empties: true,
                };
                let (report, _) = kernel.empty(&target);
                let free = kernel.memory.chunk_counts(chunk).free;
                assert!(
                    !report.stopped.is_free() || free == Unit::Chunk.pages(),
                    "{report:?}"
                );
            }
            Operation::CompactMemory => {
                kernel.compact_memory();
            }
            Operation::Fork(parent, child) => {
                let (pid, start) = place(parent);
                if parent != child
                    && let Some((born, _)) = kernel.fork(pid)
                {
                    kernel.exit(place(child).0);
                    self.processes[usize::from(child)] = (born, start);
                }
            }
            Operation::Exit(process) => {
                kernel.exit(place(process).0);
                self.processes[usize::from(process)] = born(kernel);
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
            Operation::FaultsGiant(giant_faults) => {
                kernel.set(Settings {
                    giant_faults,
                    ..*kernel.settings()
                });
            }
        }
    }
}

fn born(kernel: &mut Kernel) -> (Pid, u64) {
    let pid = kernel.spawn(0);
    let start = map_spans(kernel, pid, SPANS + 1, Advice::None);
    (pid, start)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn giant_pages_agree_with_memory_after_every_operation(
        operations in prop::collection::vec(operation(), 1..40),
        exchanges in any::<bool>(),
    ) {
        let mut play = Play::new(exchanges);
        let frames = play.kernel.memory.frames();
        for operation in &operations {
            play.apply(operation);
            prop_assert_eq!(play.kernel.check(play.own_pages()), Ok(()), "after {:?}", operation);
        }
        for (pid, _) in play.processes.clone() {
            play.kernel.exit(pid);
        }
        let left = play.own_pages() + play.kernel.cached();
        prop_assert_eq!(play.kernel.memory.free_frames(), frames - left);
    }
}
