//! What processes share after a fork, and in shared memory, and what becomes of it.

use mega_core::compaction::{ToEmpty, Unit};
use mega_core::{BASE_PAGE_SIZE, Cause, GIANT_PAGE_SIZE, Outcome, PageSize, Region};

use super::tests::{giant_faults, kernel, map_spans, process, settings, touch_all};
use super::*;
use crate::physical::BlockUse;

fn frame_of(kernel: &Kernel, pid: Pid, address: u64) -> Frame {
    match kernel.process(pid).space.entry(Region::containing(address)) {
        Entry::Base(pages) => pages.frame(offset_of(address)).unwrap(),
        Entry::Huge(page) => Frame::in_block(page.frame.block_index(), offset_of(address)),
        Entry::None => panic!("nothing is mapped"),
    }
}

/// A process with one region of huge page, and a child of it.
fn with_child() -> (Kernel, Pid, Pid, u64) {
    let mut kernel = kernel(64, settings(Thp::Always, Defrag::Never));
    let (pid, start) = process(&mut kernel, 2);
    touch_all(&mut kernel, pid, start, 512);
    let (child, _) = kernel.fork(pid).unwrap();
    (kernel, pid, child, start)
}

#[test]
fn a_base_page_is_shared_until_one_writes() {
    let mut kernel = kernel(64, settings(Thp::Never, Defrag::Never));
    let (parent, start) = process(&mut kernel, 4);
    touch_all(&mut kernel, parent, start, 600);
    let free = kernel.memory.free_frames();
    let (child, took) = kernel.fork(parent).unwrap();
    let costs = *kernel.costs();
    assert_eq!(took, costs.fork + 600 * costs.fork_page);
    // Two page tables, and one above them.
    assert_eq!(free - kernel.memory.free_frames(), 3);
    assert_eq!(kernel.shared_pages(child, Region::containing(start)), 512);
    assert_eq!(kernel.check(0), Ok(()));

    let free = kernel.memory.free_frames();
    let read = kernel.read(child, start).unwrap().unwrap();
    assert_eq!((read.page_size, read.fault), (PageSize::Base, 0));
    assert_eq!(kernel.memory.free_frames(), free);
    let touched = kernel.touch(child, start).unwrap();
    assert_eq!(touched.fault, costs.fault + costs.copy_page);
    assert_eq!(kernel.memory.free_frames(), free - 1);
    assert_ne!(
        frame_of(&kernel, parent, start),
        frame_of(&kernel, child, start)
    );
    // The other has it for itself now.
    assert_eq!(kernel.touch(parent, start).unwrap().fault, costs.reuse);
    assert_eq!(kernel.touch(parent, start).unwrap().fault, 0);
    assert_eq!(kernel.counters().copied_on_write, 1);
    assert_eq!(kernel.check(0), Ok(()));

    kernel.exit(parent);
    assert_eq!(kernel.shared_pages(child, Region::containing(start)), 0);
    assert_eq!(kernel.check(0), Ok(()));
    kernel.exit(child);
    assert_eq!(kernel.memory.free_frames(), kernel.memory.frames());
}

/// Linux 6.12 splits the writer's entry, and copies a base page; the other's entry stays.
#[test]
fn a_write_to_a_shared_huge_page_copies_a_base_page() {
    let (mut kernel, parent, child, start) = with_child();
    let block = frame_of(&kernel, parent, start).block_index();
    let touched = kernel.touch(parent, start + 7 * BASE_PAGE_SIZE).unwrap();
    let costs = *kernel.costs();
    assert_eq!(touched.page_size, PageSize::Base);
    assert_eq!(
        touched.fault,
        costs.split_entry + costs.fault + costs.copy_page
    );
    assert_eq!(kernel.page_size(child, start), Some(PageSize::Huge));
    assert!(matches!(kernel.memory.block_use(block), BlockUse::Huge(_)));
    assert_eq!(kernel.check(0), Ok(()));
    // The child's end leaves the parent's pages, and frees what it alone had.
    let free = kernel.memory.free_frames();
    kernel.exit(child);
    assert_eq!(kernel.memory.block_use(block), BlockUse::Other);
    // The old page, and the page tables.
    assert_eq!(kernel.memory.free_frames(), free + 1 + 2);
    let touched = kernel.touch(parent, start).unwrap();
    assert_eq!(touched.fault, costs.reuse);
    assert_eq!(kernel.counters().copied_on_write, 1);
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn a_huge_page_that_nobody_else_has_is_written_to_whole() {
    let (mut kernel, parent, child, start) = with_child();
    kernel.exit(parent);
    let touched = kernel.touch(child, start).unwrap();
    assert_eq!(touched.page_size, PageSize::Huge);
    assert_eq!(touched.fault, kernel.costs().reuse);
    assert_eq!(kernel.touch(child, start).unwrap().fault, 0);
    assert_eq!(kernel.counters().split_on_write, 0);
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn what_is_shared_is_neither_demoted_nor_given_back() {
    let (mut kernel, parent, child, start) = with_child();
    let region = Region::containing(start);
    let busy = Outcome::Failed(Cause::Busy);
    assert_eq!(kernel.demote(parent, region).0, busy);
    for page in 0..512 {
        kernel.write_zeros(parent, start + page * BASE_PAGE_SIZE);
    }
    let span = mega_core::Span::of(region).first_region();
    assert_eq!(kernel.free_zero(parent, span).0, Outcome::AlreadySo);
    kernel.exit(child);
    assert!(matches!(
        kernel.demote(parent, region).0,
        Outcome::Done { .. }
    ));
    assert_eq!(kernel.check(0), Ok(()));
}

/// All pages are protected after a fork: then the kernel promotes nothing (`SCAN_PAGE_RO`). Later it copies what is shared.
#[test]
fn a_promotion_copies_what_is_shared() {
    let mut kernel = kernel(64, settings(Thp::Never, Defrag::Never));
    let (parent, start) = process(&mut kernel, 2);
    touch_all(&mut kernel, parent, start, 300);
    let (child, _) = kernel.fork(parent).unwrap();
    let region = Region::containing(start);
    assert_eq!(
        kernel.promote(parent, region).0,
        Outcome::Failed(Cause::NotEligible)
    );
    kernel.touch(parent, start).unwrap();
    assert!(matches!(
        kernel.promote(parent, region).0,
        Outcome::Done { .. }
    ));
    assert_eq!(kernel.page_size(parent, start), Some(PageSize::Huge));
    assert_eq!(kernel.page_size(child, start), Some(PageSize::Base));
    assert_eq!(kernel.shared_pages(child, region), 0);
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn khugepaged_leaves_a_region_with_too_many_shared_pages() {
    for (written, collapsed) in [(255, 0), (256, 1)] {
        let mut kernel = kernel(64, settings(Thp::Never, Defrag::Never));
        let (parent, start) = process(&mut kernel, 2);
        touch_all(&mut kernel, parent, start, 512);
        kernel.fork(parent).unwrap();
        touch_all(&mut kernel, parent, start, written);
        kernel.set(settings(Thp::Always, Defrag::Never));
        let mut khugepaged = Khugepaged::new(KhugepagedSettings::default());
        khugepaged.round(&mut kernel, &mut |_, _| ());
        assert_eq!(khugepaged.collapsed, collapsed);
        assert_eq!(kernel.check(0), Ok(()));
    }
}

/// Emptying a block moves pages that several processes map, and they find them.
#[test]
fn migration_changes_all_that_maps_a_page() {
    let mut kernel = kernel(64, settings(Thp::Never, Defrag::Never));
    let (parent, start) = process(&mut kernel, 2);
    touch_all(&mut kernel, parent, start, 512);
    let (child, _) = kernel.fork(parent).unwrap();
    let (grandchild, _) = kernel.fork(child).unwrap();
    kernel.touch(child, start).unwrap();
    let before = frame_of(&kernel, parent, start);
    let target = ToEmpty {
        unit: Unit::Block,
        first_pfn: u64::from(before.block_index()) * 512,
        pages: 0,
        empties: true,
    };
    let (report, _) = kernel.empty(&target);
    assert!(report.stopped.is_free(), "{report:?}");
    let after = frame_of(&kernel, parent, start);
    assert_ne!(after, before);
    assert_eq!(frame_of(&kernel, grandchild, start), after);
    assert_ne!(frame_of(&kernel, child, start), after);
    assert_eq!(kernel.check(0), Ok(()));
}

/// A huge page that one process maps whole and another by parts moves as one.
#[test]
fn migration_of_a_huge_page_takes_its_parts_along() {
    let (mut kernel, parent, child, start) = with_child();
    kernel.touch(parent, start).unwrap();
    let block = frame_of(&kernel, child, start).block_index();
    let (stopped, _, _) = kernel.empty_blocks(block..block + 1, true);
    assert!(stopped.is_free());
    assert_eq!(kernel.page_size(child, start), Some(PageSize::Huge));
    let other = start + 9 * BASE_PAGE_SIZE;
    assert_eq!(
        frame_of(&kernel, parent, other),
        frame_of(&kernel, child, other)
    );
    assert_eq!(kernel.check(0), Ok(()));
}

/// The patched kernel takes giant pages apart at a fork, and makes none of what is shared.
#[test]
fn a_fork_takes_giant_pages_apart() {
    let mut kernel = kernel(7 << 10, giant_faults());
    let pid = kernel.spawn(0);
    let start = map_spans(&mut kernel, pid, 2, Advice::None);
    assert_eq!(kernel.touch(pid, start).unwrap().page_size, PageSize::Giant);
    let (child, _) = kernel.fork(pid).unwrap();
    let mapped = kernel.process(pid).space.mapped_bytes();
    assert_eq!((mapped.giant, mapped.huge), (0, GIANT_PAGE_SIZE));
    let span = Region::containing(start);
    assert_eq!(
        kernel.promote_giant(pid, span).0,
        Outcome::Failed(Cause::Busy)
    );
    kernel.exit(child);
    assert_eq!(
        kernel.promote_giant(pid, span).0,
        Outcome::Remapped {
            copied: 0,
            exchanged: 0
        }
    );
    assert_eq!(kernel.touch(pid, start).unwrap().fault, 0);
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn a_fork_without_memory_for_page_tables_leaves_nothing_behind() {
    let mut kernel = kernel(64, settings(Thp::Never, Defrag::Never));
    let (pid, start) = process(&mut kernel, 16);
    touch_all(&mut kernel, pid, start, 16 * 256);
    let mut own = 0;
    while kernel
        .allocate_own(crate::physical::Pages::Unmovable(0), 0)
        .is_some()
    {
        own += 1;
    }
    assert_eq!(kernel.fork(pid), None);
    assert_eq!(kernel.check(own), Ok(()));
    // What it has is its own; the first entries were protected already.
    assert_eq!(kernel.shared_pages(pid, Region::containing(start)), 0);
}

/// Two processes that map 4 MiB together, the second at another address; the first has written to 100 pages.
fn with_shared_memory() -> (Kernel, [(Pid, u64); 2]) {
    let mut kernel = kernel(64, settings(Thp::Always, Defrag::Never));
    let memory = kernel.share_memory(4 * (1 << 20));
    let first = kernel.spawn(0);
    let (second, _) = process(&mut kernel, 6);
    let mapped = [first, second].map(|pid| (pid, kernel.map_shared(pid, memory)));
    let [(pid, start), _] = mapped;
    touch_all(&mut kernel, pid, start, 100);
    (kernel, mapped)
}

#[test]
fn shared_memory_has_its_pages_once() {
    let (mut kernel, [(first, start), (second, other)]) = with_shared_memory();
    assert_ne!(start, other);
    let costs = *kernel.costs();
    let free = kernel.memory.free_frames();
    // What is there is mapped, whoever wrote it, by a read too; what is not is made.
    let read = kernel.read(second, other).unwrap().unwrap();
    assert_eq!((read.page_size, read.fault), (PageSize::Base, costs.fault));
    let touched = kernel.touch(second, other + 100 * BASE_PAGE_SIZE).unwrap();
    assert_eq!(touched.fault, costs.fault + costs.zero_page);
    // A page, a page table and one above it.
    assert_eq!(free - kernel.memory.free_frames(), 3);
    assert_eq!(
        frame_of(&kernel, first, start),
        frame_of(&kernel, second, other)
    );
    assert_eq!(kernel.touch(second, other).unwrap().fault, 0);
    assert_eq!(kernel.check(0), Ok(()));

    // What one gives back is still there for the other, and for it too.
    let free = kernel.memory.free_frames();
    kernel.discard(second, other, 4 * (1 << 20));
    assert_eq!(kernel.memory.free_frames(), free);
    assert_eq!(kernel.touch(second, other).unwrap().fault, costs.fault);
    kernel.exit(first);
    assert_eq!(kernel.page_size(second, other), Some(PageSize::Base));
    assert_eq!(kernel.check(0), Ok(()));
    kernel.exit(second);
    assert_eq!(kernel.memory.free_frames(), kernel.memory.frames());
}

#[test]
fn shared_memory_becomes_huge_for_all() {
    let (mut kernel, [(first, start), (second, other)]) = with_shared_memory();
    touch_all(&mut kernel, second, other, 50);
    let tables = |kernel: &Kernel| kernel.process(first).space.tables_in_use();
    assert_eq!(tables(&kernel), 2);
    let (outcome, _) = kernel.promote(first, Region::containing(start));
    assert_eq!(tables(&kernel), 1);
    let done = Outcome::Done {
        resident_before: 100 * BASE_PAGE_SIZE,
        resident_after: mega_core::HUGE_PAGE_SIZE,
    };
    assert_eq!(outcome, done);
    assert_eq!(kernel.counters().bytes_copied, 100 * BASE_PAGE_SIZE);
    assert_eq!(kernel.page_size(first, start), Some(PageSize::Huge));
    assert_eq!(kernel.page_size(second, other), None);
    let touched = kernel.touch(second, other).unwrap();
    assert_eq!(touched.page_size, PageSize::Huge);
    assert_eq!(touched.fault, kernel.costs().fault);
    assert_eq!(kernel.check(0), Ok(()));

    let region = Region::containing(start);
    assert_eq!(kernel.demote(first, region).0, Outcome::Failed(Cause::Busy));
    kernel.exit(second);
    assert!(matches!(
        kernel.demote(first, region).0,
        Outcome::Done { .. }
    ));
    assert_eq!(kernel.page_size(first, start), Some(PageSize::Base));
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn a_child_writes_to_shared_memory_without_a_copy() {
    let (mut kernel, [(first, start), _]) = with_shared_memory();
    let (child, _) = kernel.fork(first).unwrap();
    assert_eq!(kernel.page_size(child, start), None);
    kernel.touch(child, start).unwrap();
    assert_eq!(kernel.touch(first, start).unwrap().fault, 0);
    assert_eq!(kernel.counters().copied_on_write, 0);
    assert_eq!(
        frame_of(&kernel, first, start),
        frame_of(&kernel, child, start)
    );
    assert_eq!(kernel.check(0), Ok(()));
}

#[test]
fn migration_moves_shared_memory_for_all() {
    let (mut kernel, [(first, start), (second, other)]) = with_shared_memory();
    touch_all(&mut kernel, second, other, 10);
    for promotes in [false, true] {
        if promotes {
            kernel.promote(first, Region::containing(start));
            kernel.touch(second, other).unwrap();
        }
        let before = frame_of(&kernel, first, start);
        let block = before.block_index();
        let (stopped, _, _) = kernel.empty_blocks(block..block + 1, true);
        assert!(stopped.is_free());
        let after = frame_of(&kernel, first, start);
        assert_ne!(after, before);
        assert_eq!(frame_of(&kernel, second, other), after);
        assert_eq!(kernel.check(0), Ok(()));
    }
}

#[test]
fn khugepaged_leaves_shared_memory_alone() {
    let (mut kernel, _) = with_shared_memory();
    let mut khugepaged = Khugepaged::new(KhugepagedSettings::default());
    khugepaged.round(&mut kernel, &mut |_, _| ());
    assert_eq!(khugepaged.collapsed, 0);
}

/// What physical memory is said to be used, whoever used it: each page once, however many processes map it.
#[test]
fn a_page_that_many_accessed_is_accessed_once() {
    let (mut kernel, mapped) = with_shared_memory();
    let memory = kernel.process(mapped[0].0).space.areas()[0].shared;
    let memory = memory.unwrap().id;
    // More than would overflow the count of a block.
    let mut mappers = mapped.to_vec();
    for _ in 0..140 {
        let pid = kernel.spawn(0);
        mappers.push((pid, kernel.map_shared(pid, memory)));
    }
    for &(pid, start) in &mappers {
        touch_all(&mut kernel, pid, start, 512);
    }
    let (seen, _) = kernel.look_at_physical();
    let blocks = seen.zones.iter().flat_map(|zone| &zone.blocks);
    let accessed = blocks.map(|block| u64::from(block.accessed.unwrap_or(0)));
    assert_eq!(accessed.sum::<u64>(), 512);
    let (seen, _) = kernel.look_at_physical();
    let mut blocks = seen.zones.iter().flat_map(|zone| &zone.blocks);
    assert!(blocks.all(|block| block.accessed == Some(0)));
}
