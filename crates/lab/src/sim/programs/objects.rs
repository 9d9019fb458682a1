//! A program that fills memory with objects of 4 KiB, as Redis does with the SETs of MEGA's section 2.4.
//!
//! Redis 4's allocator, jemalloc 4, takes memory in aligned chunks of 2 MiB. Beside it the program has memory that no huge
//! page can map; a fault there comes between two in the heap, evenly.

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::Filling;

/// The program; it ends once it has all of its memory.
pub(in super::super) struct Objects {
    heap: Filling,
    /// Pages of the other memory: all, and those touched.
    others: u64,
    touched: u64,
    first_other: Option<u64>,
    /// Turns that filling the heap takes, and those that it took.
    turns: u64,
    turn: u64,
}

impl Objects {
    pub(in super::super) fn new(heap: u64, others: u64) -> Self {
        Objects {
            heap: Filling::new(heap, HUGE_PAGE_SIZE),
            others,
            touched: 0,
            first_other: None,
            turns: (heap / BASE_PAGE_SIZE).div_ceil(super::AT_ONCE).max(1),
            turn: 0,
        }
    }

    /// Touches so many of the other pages that both ends are reached together.
    fn touch_others(&mut self, memory: &mut Memory<'_>) -> Result<(), Fault> {
        let others = self.others;
        let first = *self
            .first_other
            .get_or_insert_with(|| memory.map(others * BASE_PAGE_SIZE, Advice::NoHuge));
        let wanted = (others * self.turn).div_ceil(self.turns).min(others);
        while self.touched < wanted {
            memory.touch(first + self.touched * BASE_PAGE_SIZE)?;
            self.touched += 1;
        }
        Ok(())
    }
}

impl Program for Objects {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        self.turn += 1;
        if self.others > 0 {
            self.touch_others(memory)?;
        }
        Ok(if self.heap.go_on(memory)? {
            Work::Finished
        } else {
            Work::GoesOn
        })
    }
}
