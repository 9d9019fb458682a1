//! Backs free blocks just before they are taken.
//!
//! A hypervisor backs memory at its first touch, and some take free memory back within seconds (free page reporting). A
//! promotion into a block that is not backed takes 2 to 6 ms where else it takes half a millisecond, and its program stands
//! still all that time. So mega takes the next few blocks itself, touches them and frees them: the kernel hands out first
//! what was freed last. The time is the same, but the program runs meanwhile.
//!
//! Whether this pays is found out by trying: a few blocks are touched twice. Where the second time takes as long as the
//! first, as on a machine of its own, they were backed, and mega asks ever more seldom.

use std::time::Duration;

use crate::kernel::Kernel;

/// Blocks that are touched twice to find out.
const SAMPLE: usize = 4;
/// The most blocks that are touched at once: as much of this process's memory as it takes for a moment, 64 MiB.
const MOST: usize = 32;
/// How many times as long as a backed block takes one that is not, at least.
const COLD: u32 = 2;
/// The most batches in a row of which none is tried, once blocks were found to be backed.
const LONGEST_PAUSE: u32 = 15;

/// Finds out whether free blocks are backed, and sees to it.
#[derive(Debug, Default)]
pub(crate) struct Warmer {
    /// Batches until it is tried again.
    pause: u32,
    /// How many batches the last pause lasted.
    last_pause: u32,
}

impl Warmer {
    /// Has the next so many blocks backed, where it is of use. Costs less than a millisecond where it is not.
    pub(crate) fn prepare(&mut self, kernel: &dyn Kernel, blocks: usize) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let sample = blocks.min(SAMPLE);
        let touch = |count| kernel.touch_blocks(count).ok();
        let (Some(first), Some(again)) = (touch(sample), touch(sample)) else {
            return self.pause_longer();
        };
        if is_cold(first, again) {
            self.last_pause = 0;
            if blocks > sample {
                touch(blocks.min(MOST));
            }
        } else {
            self.pause_longer();
        }
    }

    fn pause_longer(&mut self) {
        self.last_pause = (2 * self.last_pause + 1).min(LONGEST_PAUSE);
        self.pause = self.last_pause;
    }
}

/// Whether blocks were not backed that took so long when they were touched first and then again.
fn is_cold(first: Duration, again: Duration) -> bool {
    first > again * COLD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    fn kernel(warm_blocks: u32) -> FakeKernel {
        let kernel = FakeKernel::new();
        let mut state = kernel.state();
        state.warm_blocks = warm_blocks;
        state.warm_block = Duration::from_micros(100);
        state.cold_block = Duration::from_millis(3);
        drop(state);
        kernel
    }

    #[test]
    fn cold_blocks_are_touched_before_every_batch() {
        let kernel = kernel(0);
        let mut warmer = Warmer::default();
        for batch in 1..=5 {
            warmer.prepare(&kernel, 20);
            let mut state = kernel.state();
            assert_eq!(state.warm_blocks, 20);
            assert_eq!(state.touched_blocks, batch * 28);
            // A promotion takes them.
            state.warm_blocks = 0;
        }
    }

    #[test]
    fn where_blocks_are_backed_it_is_tried_ever_more_seldom() {
        let kernel = kernel(u32::MAX);
        let mut warmer = Warmer::default();
        (0..320).for_each(|_| warmer.prepare(&kernel, 20));
        let touched = kernel.state().touched_blocks;
        assert!((160..=200).contains(&touched), "{touched}");
        // What changes is noticed.
        let mut state = kernel.state();
        state.warm_blocks = 0;
        state.touched_blocks = 0;
        drop(state);
        (0..16).for_each(|_| warmer.prepare(&kernel, 20));
        assert!(kernel.state().touched_blocks >= 28);
    }

    #[test]
    fn nothing_more_than_a_few_blocks_is_taken_at_once() {
        let kernel = kernel(0);
        Warmer::default().prepare(&kernel, 1000);
        assert_eq!(kernel.state().warm_blocks, 32);
    }
}
