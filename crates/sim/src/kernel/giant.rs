//! Promotion of spans to giant pages, and back, as the patched kernel does it.

use mega_core::{BASE_PAGE_SIZE, Cause, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, Outcome, Region, Span};

use super::chunk::Chunk;
use super::promote::Done;
use super::{Kernel, Pid};
use crate::address_space::{Entry, Marks};
use crate::physical::{Frame, Owner};

impl Kernel {
    /// Maps a span by a giant page. Huge pages must map all of it; where they do not lie side by side, a chunk is emptied for
    /// them and they are copied. What is shared since a fork is not.
    pub(crate) fn promote_giant(&mut self, pid: Pid, first: Region) -> Done {
        self.debug_check_sometimes();
        let span = Span::of(first);
        if !self.settings.giant_pages || span.first_region() != first {
            return (Outcome::Failed(Cause::NotEligible), 0);
        }
        if self.process(pid).space.shared_at(span.start()).is_some() {
            return (Outcome::Failed(Cause::NotEligible), 0);
        }
        let Some(table) = self.process(pid).space.span(span.start()) else {
            return (Outcome::Failed(Cause::NotHuge), 0);
        };
        if table.giant.is_some() {
            return (Outcome::AlreadySo, 0);
        }
        let mut frames = Vec::with_capacity(table.regions.len());
        for entry in &table.regions {
            match entry {
                Entry::Huge(page) => frames.push(page.frame),
                _ => return (Outcome::Failed(Cause::NotHuge), 0),
            }
        }
        if frames.iter().any(|frame| self.memory.is_shared(*frame)) {
            return (Outcome::Failed(Cause::Busy), 0);
        }
        let (copied, exchanged, took) = if in_one_chunk(&frames) {
            (0, 0, 0)
        } else {
            match self.gather(pid, span) {
                (true, took) if self.settings.exchanges => (0, GIANT_PAGE_SIZE, took),
                (true, took) => (GIANT_PAGE_SIZE, 0, took),
                (false, took) => {
                    self.counters.giant_promotion_failed += 1;
                    return (Outcome::Failed(Cause::NoMemory), took);
                }
            }
        };
        if let Some(table) = self.process_mut(pid).space.span_mut(span.start()) {
            table.giant = Some(Marks::SET);
            // Who shared them is gone, or they would not be here.
            for entry in &mut table.regions {
                if let Entry::Huge(page) = entry {
                    page.protected = false;
                }
            }
        }
        self.counters.giant_promotions += 1;
        self.counters.bytes_copied += copied;
        (
            Outcome::Remapped { copied, exchanged },
            took + self.costs.map_giant,
        )
    }

    /// Moves the huge pages of a span side by side into a chunk. Whether there was one, and the cycles that took.
    fn gather(&mut self, pid: Pid, span: Span) -> (bool, u64) {
        let node = self.node_of(pid);
        let mut took = 0;
        let chunk = match self.free_chunk(node) {
            Some(chunk) => chunk,
            None => {
                let Some(chunk) = self.chunk_to_empty(node) else {
                    return (false, 0);
                };
                took += self.empty_chunk(chunk);
                chunk
            }
        };
        if self.memory.chunk_counts(chunk.0).free as usize != 512 * 512 {
            return (false, took);
        }
        for (region, block) in Region::wholly_inside(span.start(), span.end()).zip(chunk.blocks()) {
            self.move_huge(pid, region, block);
        }
        (
            true,
            took + chunk.blocks().count() as u64 * self.cost_of_moving_huge(),
        )
    }

    /// What moving a huge page for a giant one takes, in cycles: a copy, or an exchange by the hypervisor.
    pub(super) fn cost_of_moving_huge(&self) -> u64 {
        if self.settings.exchanges {
            self.costs.exchange
        } else {
            512 * self.costs.copy_page
        }
    }

    /// Moves the huge page of a region into a free block.
    fn move_huge(&mut self, pid: Pid, region: Region, block: u32) {
        let owner = Owner::new(pid.0, region.start() / BASE_PAGE_SIZE);
        if !self.memory.take_block(block, owner) {
            return;
        }
        let space = &mut self.processes[pid.index()].space;
        if let Some(Entry::Huge(page)) = space.entry_mut(region) {
            let old = std::mem::replace(&mut page.frame, Frame::new(block * 512));
            self.memory.free(old);
        }
    }

    /// Maps a span by huge pages again.
    pub(crate) fn demote_giant(&mut self, pid: Pid, first: Region) -> Done {
        self.debug_check_sometimes();
        match self.end_giant(pid, first) {
            0 => (Outcome::AlreadySo, 0),
            took => (
                Outcome::Remapped {
                    copied: 0,
                    exchanged: 0,
                },
                took,
            ),
        }
    }

    /// Gives back the huge pages of a span that hold only zeros and that no other process maps.
    pub(crate) fn free_zero(&mut self, pid: Pid, first: Region) -> Done {
        let span = Span::of(first);
        let (mut huge, mut empty) = (0, Vec::new());
        for region in Region::wholly_inside(span.start(), span.end()) {
            if let Entry::Huge(page) = self.process(pid).space.entry(region) {
                huge += 1;
                if page.filled.count() == 0 && !self.memory.is_shared(page.frame) {
                    empty.push(region);
                }
            }
        }
        let mut took = huge * 512 * self.costs.inspect_page;
        if empty.is_empty() {
            return (Outcome::AlreadySo, took);
        }
        for region in &empty {
            took += self.discard(pid, region.start(), HUGE_PAGE_SIZE);
        }
        let left = huge - empty.len() as u64;
        let done = Outcome::Done {
            resident_before: huge * HUGE_PAGE_SIZE,
            resident_after: left * HUGE_PAGE_SIZE,
        };
        (done, took)
    }

    /// Moves everything out of a chunk. The cycles that took.
    fn empty_chunk(&mut self, chunk: Chunk) -> u64 {
        let (_, _, took) = self.empty_blocks(chunk.blocks(), true);
        took
    }
}

/// Whether huge pages lie side by side in one chunk, in their order.
fn in_one_chunk(frames: &[Frame]) -> bool {
    let Some(first) = frames.first() else {
        return false;
    };
    let is_aligned = first.number().is_multiple_of(512 * 512);
    is_aligned
        && (0..)
            .zip(frames)
            .all(|(place, frame)| frame.number() == first.number() + place * 512)
}
