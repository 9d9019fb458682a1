//! Whatever is allocated, freed, moved and isolated, in any order: physical memory stays as it must be.

use std::collections::BTreeMap;

use mega_core::compaction::ZoneKind;
use proptest::prelude::*;

use super::zone::Watermarks;
use super::*;

const MIB: u64 = 1 << 20;

fn memory(mib: u64) -> PhysicalMemory {
    PhysicalMemory::new(&Layout::one_node(mib * MIB).unwrap())
}

fn owner(page: u64) -> Owner {
    Owner::new(1, page)
}

#[derive(Clone, Debug)]
enum Operation {
    Base,
    Huge,
    Unmovable(u8),
    Reclaimable(u8),
    /// Of what is in use, by place.
    Free(usize),
    Split(usize),
    Migrate(usize),
    /// What is in use, by place, onto the first free frame of a block.
    MoveInto(usize, u32),
    /// By block.
    Isolate(u32),
    EndIsolation(u32),
    TakeBlock(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => Just(Operation::Base),
        2 => Just(Operation::Huge),
        3 => (0u8..=10).prop_map(Operation::Unmovable),
        2 => (0u8..=3).prop_map(Operation::Reclaimable),
        8 => any::<prop::sample::Index>().prop_map(|i| Operation::Free(i.index(1 << 20))),
        2 => any::<prop::sample::Index>().prop_map(|i| Operation::Split(i.index(1 << 20))),
        3 => any::<prop::sample::Index>().prop_map(|i| Operation::Migrate(i.index(1 << 20))),
        2 => (any::<prop::sample::Index>(), 0u32..24)
            .prop_map(|(i, block)| Operation::MoveInto(i.index(1 << 20), block)),
        1 => (0u32..24).prop_map(Operation::Isolate),
        1 => (0u32..24).prop_map(Operation::EndIsolation),
        1 => (0u32..24).prop_map(Operation::TakeBlock),
    ]
}

/// What a test knows to be in use: by first frame, what it is.
#[derive(Default)]
struct Known {
    in_use: BTreeMap<Frame, Pages>,
    next: u64,
}

impl Known {
    fn nth(&self, place: usize) -> Option<(Frame, Pages)> {
        let count = self.in_use.len();
        let (frame, pages) = self.in_use.iter().nth(place % count.max(1))?;
        Some((*frame, *pages))
    }

    fn next_owner(&mut self) -> Owner {
        self.next += 512;
        owner(self.next)
    }

    fn allocate(&mut self, memory: &mut PhysicalMemory, pages: Pages) {
        let node = u32::try_from(self.next % 3).unwrap();
        if let Some(frame) = memory.allocate(pages, node, Urgency::Pressed) {
            self.put(frame, pages);
        }
    }

    fn put(&mut self, frame: Frame, pages: Pages) {
        let size = 1 << pages.order();
        assert_eq!(frame.number() % size, 0, "{pages:?} is not aligned");
        let end = Frame::new(frame.number() + size);
        assert!(
            self.in_use.range(frame..end).next().is_none(),
            "it overlaps what begins in it"
        );
        if let Some((before, other)) = self.in_use.range(..frame).next_back() {
            assert!(
                before.number() + (1 << other.order()) <= frame.number(),
                "it overlaps"
            );
        }
        self.in_use.insert(frame, pages);
    }

    fn apply(&mut self, memory: &mut PhysicalMemory, operation: &Operation) {
        match *operation {
            Operation::Base => {
                let pages = Pages::Base(self.next_owner());
                self.allocate(memory, pages);
            }
            Operation::Huge => {
                let pages = Pages::Huge(self.next_owner());
                self.allocate(memory, pages);
            }
            Operation::Unmovable(order) => self.allocate(memory, Pages::Unmovable(order)),
            Operation::Reclaimable(order) => self.allocate(memory, Pages::Reclaimable(order)),
            Operation::Free(place) => {
                if let Some((frame, pages)) = self.nth(place) {
                    self.in_use.remove(&frame);
                    assert_eq!(memory.free(frame), 1 << pages.order());
                }
            }
            Operation::Split(place) => {
                let Some((frame, Pages::Huge(first))) = self.nth(place) else {
                    return;
                };
                memory.split_huge(frame);
                for page in 0..512 {
                    let base = Pages::Base(first.plus(page.into()));
                    self.in_use.insert(frame.plus(page), base);
                }
            }
            Operation::Migrate(place) => {
                let Some((frame, pages @ Pages::Base(owner))) = self.nth(place) else {
                    return;
                };
                if let Some(to) = memory.migrate(frame) {
                    self.in_use.remove(&frame);
                    assert_eq!(memory.owner_of(to), Some(owner));
                    self.put(to, pages);
                }
            }
            Operation::MoveInto(place, block) => {
                let Some((frame, pages @ Pages::Base(owner))) = self.nth(place) else {
                    return;
                };
                if let Some(to) = memory.take_frame(block) {
                    assert!(memory.migrate_to(frame, to));
                    self.in_use.remove(&frame);
                    assert_eq!(memory.owner_of(to), Some(owner));
                    self.put(to, pages);
                }
            }
            Operation::Isolate(block) => memory.isolate(block),
            Operation::EndIsolation(block) => memory.end_isolation(block),
            Operation::TakeBlock(block) => {
                let is_free = memory.block_use(block) == BlockUse::Free;
                let owner = self.next_owner();
                assert_eq!(memory.take_block(block, owner), is_free);
                if is_free {
                    self.put(Frame::in_block(block, 0), Pages::Huge(owner));
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn it_holds_after_every_operation(
        operations in prop::collection::vec(operation(), 1..250),
        nodes in prop_oneof![Just(vec![48 * MIB]), Just(vec![16 * MIB, 32 * MIB])],
    ) {
        let mut memory = PhysicalMemory::new(&Layout::new(&nodes).unwrap());
        let frames = memory.frames();
        let blocks = memory.blocks();
        let mut known = Known::default();
        for operation in &operations {
            known.apply(&mut memory, operation);
            prop_assert_eq!(memory.check(), Ok(()));
            for (&frame, pages) in &known.in_use {
                let expected = match *pages {
                    Pages::Base(owner) | Pages::Huge(owner) => Some(owner),
                    _ => None,
                };
                prop_assert_eq!(memory.owner_of(frame), expected);
            }
        }
        for block in 0..blocks {
            memory.end_isolation(block);
        }
        let in_use: u64 = known.in_use.values().map(|pages| 1u64 << pages.order()).sum();
        prop_assert_eq!(memory.free_frames(), frames - in_use);
        for frame in known.in_use.keys() {
            memory.free(*frame);
            prop_assert_eq!(memory.check(), Ok(()));
        }
        prop_assert_eq!(memory.free_frames(), frames);
        prop_assert_eq!(memory.free_blocks(), u64::from(blocks), "all is whole again");
        prop_assert_eq!(memory.state_bytes(), u64::from(blocks) * size_of::<block::BlockRecord>() as u64);
    }

    #[test]
    fn the_same_operations_give_the_same_memory(
        operations in prop::collection::vec(operation(), 1..100),
    ) {
        let run = || {
            let (mut memory, mut known) = (memory(48), Known::default());
            for operation in &operations {
                known.apply(&mut memory, operation);
            }
            (format!("{memory:?}"), known.in_use)
        };
        prop_assert!(run() == run());
    }
}

#[test]
fn the_first_page_comes_from_the_lowest_address_of_the_highest_zone() {
    let mut memory = memory(8 << 10);
    let frame = memory.allocate(Pages::Base(owner(0)), 0, Urgency::Normal);
    assert_eq!(frame, Some(Frame::new(1 << 20)), "Normal begins at 4 GiB");
    let next = memory.allocate(Pages::Base(owner(1)), 0, Urgency::Normal);
    assert_eq!(next, Some(Frame::new((1 << 20) + 1)));
}

/// A page of the kernel's own that finds no block of its kind takes a whole free one, the largest there is: two blocks, of
/// which it then uses the rest.
#[test]
fn what_cannot_move_claims_whole_blocks() {
    let mut memory = memory(64);
    let first = memory
        .allocate(Pages::Unmovable(0), 0, Urgency::Normal)
        .unwrap();
    assert_eq!(memory.events().blocks_claimed, 2);
    assert_eq!(memory.mobility_of(first), Mobility::Unmovable);
    for _ in 1..1024 {
        let frame = memory
            .allocate(Pages::Unmovable(0), 0, Urgency::Normal)
            .unwrap();
        assert_eq!(frame.block_index() / 2, first.block_index() / 2);
    }
    assert_eq!(memory.events().blocks_claimed, 2);
}

/// With no whole block left, an unmovable page claims a movable block that is half free, and only takes a page of one that
/// is not.
#[test]
fn a_block_is_claimed_if_half_of_it_suits() {
    for (kept, claimed) in [(100, 1), (400, 0)] {
        let mut memory = memory(64);
        for zone in &mut memory.zones {
            (zone.watermarks, zone.kept) = (Watermarks::default(), 0);
        }
        let pages: Vec<Frame> = (0..)
            .map_while(|page| memory.allocate(Pages::Base(owner(page)), 0, Urgency::Pressed))
            .collect();
        assert_eq!(pages.len() as u64, memory.frames());
        let block = pages[0].block_index();
        let of_block = pages.iter().filter(|page| page.block_index() == block);
        // Every fifth stays: no free area is large, so the block's share decides.
        let mut stays = 0;
        for (number, page) in of_block.enumerate() {
            if stays < kept && (number % 5 == 0 || kept > 102) {
                stays += 1;
            } else {
                memory.free(*page);
            }
        }
        let before = memory.events();
        let frame = memory
            .allocate(Pages::Unmovable(0), 0, Urgency::Pressed)
            .unwrap();
        let events = memory.events();
        assert_eq!(
            events.blocks_claimed - before.blocks_claimed,
            claimed,
            "{kept} kept"
        );
        assert_eq!(
            memory.mobility_of(frame) == Mobility::Unmovable,
            claimed == 1
        );
        assert_eq!(memory.check(), Ok(()));
    }
}

#[test]
fn the_watermark_is_kept_and_dma32_keeps_pages_from_programs() {
    let mut memory = memory(8 << 10);
    while memory
        .allocate(Pages::Huge(owner(0)), 0, Urgency::Normal)
        .is_some()
    {}
    let low = memory.kept_frames();
    assert!(memory.free_frames() >= low);
    let dma32 = memory
        .zones
        .iter()
        .find(|zone| zone.kind == ZoneKind::Dma32)
        .unwrap();
    assert_eq!(dma32.kept, (4 << 30) / 4096 / 256);
    assert!(dma32.free >= dma32.watermarks.low + dma32.kept);
    let before = memory.free_frames();
    assert!(
        memory
            .allocate(Pages::Huge(owner(0)), 0, Urgency::Pressed)
            .is_some()
    );
    assert_eq!(memory.free_frames(), before - 512);
}

#[test]
fn a_node_without_room_lets_others_give() {
    let mut memory = PhysicalMemory::new(&Layout::new(&[32 * MIB, 32 * MIB]).unwrap());
    let on = |memory: &mut PhysicalMemory, node| {
        let frame = memory.allocate(Pages::Huge(owner(0)), node, Urgency::Normal)?;
        Some(frame.block_index() / 16)
    };
    assert_eq!(on(&mut memory, 1), Some(1));
    while on(&mut memory, 0) == Some(0) {}
    assert_eq!(on(&mut memory, 0), Some(1));
}

#[test]
fn chunks_count_what_is_in_them() {
    let mut memory = memory(8 << 10);
    let base = memory
        .allocate(Pages::Base(owner(0)), 0, Urgency::Normal)
        .unwrap();
    memory
        .allocate(Pages::Huge(owner(512)), 0, Urgency::Normal)
        .unwrap();
    memory
        .allocate(Pages::Unmovable(3), 0, Urgency::Normal)
        .unwrap();
    let counts = memory.chunk_counts(4);
    assert_eq!(
        counts,
        ChunkCounts {
            free: (1 << 18) - 521,
            movable: 513,
            unmovable: 8
        }
    );
    memory.free(base);
    assert_eq!(memory.chunk_counts(4).movable, 512);
    assert_eq!(
        memory.chunk_counts(3),
        ChunkCounts {
            free: 1 << 18,
            ..ChunkCounts::default()
        }
    );
}

/// 16 bytes for each frame of memory that is all in base pages, and next to nothing where nothing is split.
#[test]
fn state_is_small() {
    let mut memory = memory(256);
    let untouched = memory.state_bytes();
    assert!(untouched <= memory.frames() / 8);
    for page in 0.. {
        if memory
            .allocate(Pages::Base(owner(page)), 0, Urgency::Pressed)
            .is_none()
        {
            break;
        }
    }
    assert!(
        memory.state_bytes() <= memory.frames() * 10,
        "{}",
        memory.state_bytes()
    );
}
