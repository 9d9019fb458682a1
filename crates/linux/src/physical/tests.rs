//! Reports of the module turned into the vocabulary, with a device that answers as told.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;

use mega_core::compaction::ZoneKind;

use super::*;
use crate::kernel::fake::{FakeKernel, FakeModule};
use crate::kernel::{LiveKernel, ReadOnly};
use crate::module::ModuleRequest;

/// What was asked: frame, order and flags.
type Asked = Arc<Mutex<Vec<(u64, u32, u32)>>>;

/// A kernel whose module answers COMPACT from a list, and keeps what it was asked.
fn compacting(answers: Vec<io::Result<u32>>) -> (FakeKernel, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let mut answers = VecDeque::from(answers);
    let kernel = FakeKernel::new();
    kernel.state().module = Some(FakeModule::scripted(move |request| {
        let ModuleRequest::Compact { request, .. } = request else {
            return Err(io::Error::from_raw_os_error(libc::ENOTTY));
        };
        let asked = (request.frame, request.order, request.flags);
        kept.lock().expect("no test panics with it").push(asked);
        request.stop = answers.pop_front().expect("an answer for each request")?;
        request.migrated = 100;
        Ok(())
    }));
    (kernel, asked)
}

/// A device whose module knows these blocks, and reports at most `most` at once.
fn blocks_device(known: Vec<interface::Block>, most: u32) -> Device {
    let mut module = FakeModule::scripted(move |request| {
        let ModuleRequest::ScanBlocks { request, blocks } = request else {
            return Err(io::Error::from_raw_os_error(libc::ENOTTY));
        };
        let first = usize::try_from(request.start_frame / 512).unwrap_or(usize::MAX);
        let known = known.get(first..).unwrap_or_default();
        for (slot, block) in blocks.iter_mut().zip(known) {
            *slot = *block;
            request.done += 1;
        }
        Ok(())
    });
    module.info.max_blocks = most;
    let kernel = FakeKernel::new();
    kernel.state().module = Some(module);
    Device::open(Arc::new(kernel)).expect("the module is loaded")
}

fn target(unit: Unit, first_pfn: u64) -> ToEmpty {
    ToEmpty {
        unit,
        first_pfn,
        pages: 100,
        empties: true,
    }
}

fn errno(number: i32) -> io::Result<u32> {
    Err(io::Error::from_raw_os_error(number))
}

fn empty(answers: Vec<io::Result<u32>>) -> Result<Vec<Stopped>, Error> {
    let targets: Vec<ToEmpty> = (0..answers.len() as u64)
        .map(|i| target(Unit::Block, i * 512))
        .collect();
    let (kernel, _) = compacting(answers);
    let mut memory = PhysicalMemory::open(Arc::new(kernel)).expect("the module is loaded");
    Ok(memory
        .empty(&targets)?
        .iter()
        .map(|report| report.stopped)
        .collect())
}

#[test]
fn every_reason_to_stop_is_told_apart() {
    let reasons = empty((0..=8).map(Ok).collect()).expect("all are known");
    use Stopped::*;
    let expected = [
        Emptied,
        AlreadyFree,
        Unmovable,
        Pinned,
        Busy,
        NoMemory,
        Huge,
        Interrupted,
    ];
    assert_eq!(reasons, expected, "and an interruption is the last");
    assert_eq!(empty(vec![Ok(8)]).expect("it is known"), [Would]);
    assert_eq!(
        empty(vec![errno(libc::ENXIO), errno(libc::EBUSY)]).expect("known"),
        [NotInOneZone, Busy]
    );
}

#[test]
fn what_is_not_understood_is_an_error_and_a_lost_privilege_says_so() {
    assert!(matches!(empty(vec![Ok(77)]), Err(Error::Malformed { .. })));
    assert!(matches!(
        empty(vec![errno(libc::EPERM)]),
        Err(Error::Missing { .. })
    ));
    assert!(matches!(
        empty(vec![errno(libc::EFAULT)]),
        Err(Error::Io { .. })
    ));
}

#[test]
fn a_dry_run_asks_the_module_to_look_only() {
    let (kernel, asked) = compacting(vec![Ok(8), Ok(8)]);
    let kernel = Arc::new(ReadOnly(kernel));
    let mut memory = PhysicalMemory::open(kernel).expect("the module is loaded");
    let targets = [target(Unit::Block, 512), target(Unit::Chunk, 1 << 18)];
    assert!(memory.empty(&targets).is_ok());
    let both = interface::COMPACT_DRY_RUN | interface::COMPACT_MOVE_HUGE;
    assert_eq!(
        *asked.lock().expect("nobody panicked"),
        [(512, 9, interface::COMPACT_DRY_RUN), (1 << 18, 18, both)]
    );
}

/// Which frames the module was told to avoid at each call, of one that knows these features.
fn avoided(features: u64, targets: &[ToEmpty], answers: &[u32]) -> (Vec<Vec<u64>>, Vec<Stopped>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let mut answers = VecDeque::from(answers.to_vec());
    let mut module = FakeModule::scripted(move |request| {
        let ModuleRequest::Compact { request, avoid } = request else {
            return Err(io::Error::from_raw_os_error(libc::ENOTTY));
        };
        kept.lock()
            .expect("no test panics with it")
            .push(avoid.to_vec());
        request.stop = answers.pop_front().expect("an answer for each request");
        request.migrated = 100;
        Ok(())
    });
    module.info.features |= features;
    let kernel = FakeKernel::new();
    kernel.state().module = Some(module);
    let mut memory = PhysicalMemory::open(Arc::new(kernel)).expect("the module is loaded");
    let reports = memory.empty(targets).expect("it answers");
    let told = told.lock().expect("nobody panicked").clone();
    (told, reports.iter().map(|report| report.stopped).collect())
}

#[test]
fn nothing_is_moved_into_what_is_next_unless_there_is_no_other_room() {
    let (emptied, no_memory) = (0, 5);
    let targets = [
        target(Unit::Block, 1536),
        target(Unit::Block, 4096),
        target(Unit::Chunk, 1 << 18),
        target(Unit::Block, 512),
    ];
    let avoid = interface::FEATURE_AVOID;
    let (told, stopped) = avoided(avoid, &targets, &[emptied; 4]);
    assert_eq!(told, [vec![512, 4096], vec![512], vec![], vec![]]);
    assert_eq!(stopped, [Stopped::Emptied; 4]);

    let answers = [no_memory, emptied, no_memory];
    let (told, stopped) = avoided(avoid, &targets[..2], &answers);
    assert_eq!(told, [vec![4096], vec![], vec![]], "then anywhere");
    assert_eq!(stopped, [Stopped::Emptied, Stopped::NoMemory]);

    let (told, _) = avoided(0, &targets, &[emptied; 4]);
    assert!(told.iter().all(Vec::is_empty), "a kernel that cannot");
}

/// What came of emptying a memory block of `pages` pages, and which frames the module was asked for, in which orders.
fn empty_memory_block(pages: u64, answers: &[u32]) -> (Stopped, u64, Vec<(u64, u32, u32)>) {
    let (kernel, asked) = compacting(answers.iter().copied().map(Ok).collect());
    let mut memory = PhysicalMemory::open(Arc::new(kernel)).expect("the module is loaded");
    let block = MemoryBlock {
        first_pfn: 2 * pages,
        pages,
        node: 0,
        movable: 5,
    };
    let (stopped, counts) = memory.empty_memory_block(&block).expect("it answers");
    let asked = asked.lock().expect("nobody panicked").clone();
    (stopped, counts.migrated, asked)
}

#[test]
fn a_memory_block_is_emptied_whole_or_in_chunks_until_one_stays() {
    let huge = interface::COMPACT_MOVE_HUGE;
    let (emptied, already_free, pinned) = (0, 1, 3);
    assert_eq!(
        empty_memory_block(1 << 15, &[emptied]),
        (Stopped::Emptied, 100, vec![(1 << 16, 15, huge)])
    );
    let first = (1 << 20, 18, huge);
    let second = ((1 << 20) + (1 << 18), 18, huge);
    assert_eq!(
        empty_memory_block(1 << 19, &[emptied, already_free]),
        (Stopped::Emptied, 200, vec![first, second])
    );
    assert_eq!(
        empty_memory_block(1 << 19, &[pinned]),
        (Stopped::Pinned, 100, vec![first])
    );
}

#[test]
fn a_module_that_speaks_another_version_is_not_asked_and_named() {
    let kernel = FakeKernel::new();
    let mut module = FakeModule::with_giant_pages();
    module.info.version += 1;
    kernel.state().module = Some(module);
    let flags = "/proc/kpageflags".into();
    kernel.state().files.insert(flags, Vec::new());
    let mut memory = PhysicalMemory::open(Arc::new(kernel.clone())).expect("there are the flags");
    assert_eq!(memory.source(), Source::PageFlags);
    assert!(matches!(
        memory.other_module(),
        Some(Error::OtherModule { theirs: Some(2) })
    ));
    assert!(matches!(
        memory.empty(&[target(Unit::Block, 0)]),
        Err(Error::OtherModule { .. })
    ));
    kernel.state().module = None;
    let memory = PhysicalMemory::open(Arc::new(kernel)).expect("there are the flags");
    assert!(memory.other_module().is_none(), "none is loaded");
}

#[test]
fn blocks_are_read_in_batches_and_the_first_look_knows_no_age() {
    let old = interface::Block {
        free: 500,
        movable: 12,
        accessed: 3,
        age: 1500,
        ..Default::default()
    };
    let new = interface::Block {
        flags: interface::BLOCK_NEW,
        ..old
    };
    let absent = interface::Block {
        flags: interface::BLOCK_ABSENT,
        ..Default::default()
    };
    let device = blocks_device(vec![old, new, absent, old, old], 2);
    let blocks = module_blocks::read(&device, 0..5 * 512, false, &mut |_| ()).expect("it answers");
    let seen: Vec<_> = blocks
        .iter()
        .map(|b| (b.block.index(), b.accessed, b.age))
        .collect();
    let known = (Some(3), Some(Duration::from_millis(1500)));
    assert_eq!(
        seen,
        [
            (0, known.0, known.1),
            (1, None, None),
            (3, known.0, known.1),
            (4, known.0, known.1)
        ]
    );
}

#[test]
fn a_reserved_pageblock_holds_nothing_that_can_be_moved() {
    let reserved = interface::Block {
        free: 500,
        movable: 10,
        unmovable: 2,
        flags: interface::BLOCK_RESERVED,
        ..Default::default()
    };
    let device = blocks_device(vec![reserved], 1);
    let blocks = module_blocks::read(&device, 0..512, false, &mut |_| ()).expect("it answers");
    let counts: Vec<_> = blocks
        .iter()
        .map(|b| (b.free, b.movable, b.unmovable))
        .collect();
    assert_eq!(counts, [(500, 0, 12)]);
}

#[test]
fn a_scan_that_does_not_get_on_ends_as_interrupted() {
    let device = blocks_device(Vec::new(), 1);
    assert!(module_blocks::read(&device, 0..512, false, &mut |_| ()).is_err());
}

#[test]
fn where_one_nodes_memory_lies_inside_anothers_each_block_counts_once() {
    let span = |node, start_pfn, spanned| ZoneSpan {
        node,
        kind: ZoneKind::Normal,
        start_pfn,
        spanned,
        high: 0,
    };
    let spans = [span(0, 0, 512 * 10), span(1, 512 * 4, 512 * 2)];
    let owners: Vec<u32> = (0..10)
        .map(|index| {
            owner(&spans, Block::containing(index * 512))
                .expect("one has it")
                .node
        })
        .collect();
    assert_eq!(owners, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
}

/// On the kernel this runs on: what is counted agrees with what the free lists say.
#[test]
fn the_free_pages_of_all_blocks_are_those_of_the_free_lists() {
    let mut memory = match PhysicalMemory::open(Arc::new(LiveKernel)) {
        Ok(memory) => memory,
        Err(error) => {
            let name = "the_free_pages_of_all_blocks_are_those_of_the_free_lists";
            eprintln!("SKIPPED {name}: {error}");
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "{name} cannot run: {error}"
            );
            return;
        }
    };
    let observation = memory.observe(&mut |_, _| ()).expect("it can be read");
    let listed = observation.free_pages();
    let blocks = || observation.zones.iter().flat_map(|zone| &zone.blocks);
    let counted: u64 = blocks().map(|block| u64::from(block.free)).sum();
    // Others allocate and free meanwhile, and the module counts per-CPU lists too.
    let tolerance = listed / 10 + 65_536;
    assert!(
        counted.abs_diff(listed) < tolerance,
        "{counted} counted, {listed} listed"
    );
    assert!(
        blocks().any(|block| block.unmovable > 0),
        "the kernel itself lies somewhere"
    );
    assert!(blocks().all(|block| block.free + block.movable + block.unmovable <= 512));
}
