//! A program that leaves holes of 1 MiB all over memory (MEGA, section 4.5): it fills a lot, frees every second chunk, and then
//! fills half as much again and again, each time freeing what it had before.

use mega_core::BASE_PAGE_SIZE;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::{Filling, Sweep};

/// In what it frees memory.
const CHUNK: u64 = 1 << 20;
/// Chunks that it frees before others have their turn.
const FREED_AT_ONCE: usize = 16;

/// The program; it ends with half of what it had at most, and keeps that.
pub(in super::super) struct Holes {
    half: u64,
    rounds: u32,
    filling: Filling,
    /// The first sweep over all of it.
    sweep: Option<Sweep>,
    is_swept: bool,
    /// Chunks to keep until the next filling is done: first address and bytes.
    kept: Vec<(u64, u64)>,
    /// Chunks to free now.
    to_free: Vec<(u64, u64)>,
}

impl Holes {
    /// It has `bytes` at most, and fills half of them in each of the rounds after the first.
    pub(in super::super) fn new(bytes: u64, rounds: u32) -> Self {
        Holes {
            half: bytes / 2,
            rounds,
            filling: Filling::new(bytes, CHUNK),
            sweep: None,
            is_swept: false,
            kept: Vec::new(),
            to_free: Vec::new(),
        }
    }

    /// Once all is filled for the first time: every second chunk goes.
    fn free_every_second(&mut self) {
        for (place, chunk) in self.filling.pieces().enumerate() {
            if place % 2 == 0 {
                self.kept.push(chunk);
            } else {
                self.to_free.push(chunk);
            }
        }
    }

    /// What is filled now stays, and what was there before goes.
    fn free_what_was_before(&mut self) {
        let filled = self.filling.pieces().collect();
        self.to_free = std::mem::replace(&mut self.kept, filled);
    }

    fn free_some(&mut self, memory: &mut Memory<'_>) {
        for _ in 0..FREED_AT_ONCE {
            if let Some((start, bytes)) = self.to_free.pop() {
                memory.unmap(start, bytes);
            }
        }
    }
}

impl Program for Holes {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if !self.to_free.is_empty() {
            self.free_some(memory);
            return Ok(Work::GoesOn);
        }
        if let Some(sweep) = &mut self.sweep {
            if sweep.go_on(memory)? {
                self.sweep = None;
                self.is_swept = true;
                self.free_every_second();
                self.filling = Filling::new(self.half, CHUNK);
            }
            return Ok(Work::GoesOn);
        }
        if self.is_swept && self.rounds == 0 {
            return Ok(Work::Finished);
        }
        if !self.filling.go_on(memory)? {
            return Ok(Work::GoesOn);
        }
        if !self.is_swept {
            let all = self.filling.pieces().collect();
            self.sweep = Some(Sweep::new(all, BASE_PAGE_SIZE));
            return Ok(Work::GoesOn);
        }
        self.free_what_was_before();
        self.rounds -= 1;
        self.filling = Filling::new(self.half, CHUNK);
        Ok(Work::GoesOn)
    }
}
