//! Backs free blocks just before they are taken.
//!
//! A hypervisor backs memory at its first touch, and some take free memory back within seconds (free page reporting). A
//! promotion into a block that is not backed takes 2 to 6 ms where else it takes half a millisecond, and its program stands
//! still all that time. So mega takes the next few blocks itself, touches them and frees them: the kernel hands out first
//! what was freed last. The time is the same, but the program runs meanwhile.
//!
//! Whether this pays is found out by touching a few of them again. Where that takes as long as the first time, as on a
//! machine of its own, they were backed. Where all were so for a while, mega asks ever more seldom.

use crate::kernel::Kernel;

/// Blocks that are touched twice to find out.
const SAMPLE: usize = 4;
/// The most blocks that are touched at once: as much of this process's memory as it takes for a moment, 64 MiB.
const MOST: usize = 32;
/// How many times as long as a backed block takes one that is not, at least.
const COLD: f64 = 2.0;
/// Batches in a row whose blocks were backed before any is left out.
const WARM_IN_A_ROW: u32 = 8;
/// The most batches in a row that are left out.
const LONGEST_PAUSE: u32 = 15;

/// Finds out whether free blocks are backed, and sees to it.
#[derive(Debug, Default)]
pub(crate) struct Warmer {
    /// Batches to leave out.
    pause: u32,
    /// Batches in a row whose blocks were backed.
    warm: u32,
}

impl Warmer {
    /// Touches the next `blocks` free blocks, so that the hypervisor backs them, if that helped before.
    pub(crate) fn prepare(&mut self, kernel: &dyn Kernel, blocks: usize) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        if were_cold(kernel, blocks.min(MOST)) {
            self.warm = 0;
            return;
        }
        self.warm += 1;
        let too_many = self.warm.saturating_sub(WARM_IN_A_ROW);
        self.pause = (1 << too_many.min(LONGEST_PAUSE.ilog2() + 1)) - 1;
    }
}

/// Touches the next free blocks, and some of them again. Whether that showed that the hypervisor had not backed them.
fn were_cold(kernel: &dyn Kernel, blocks: usize) -> bool {
    let each = |count: usize| {
        let took = kernel.touch_blocks(count).ok()?;
        #[allow(clippy::cast_precision_loss)]
        Some(took.as_secs_f64() / count as f64)
    };
    let is_slower = |first| each(blocks.min(SAMPLE)).is_some_and(|again| first > again * COLD);
    each(blocks).is_some_and(is_slower)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            assert_eq!(state.touched_blocks, batch * 24);
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
        assert!(touched <= 24 * 32, "{touched}");
        // What changes is noticed.
        let mut state = kernel.state();
        state.warm_blocks = 0;
        state.touched_blocks = 0;
        drop(state);
        (0..16).for_each(|_| warmer.prepare(&kernel, 20));
        assert!(kernel.state().touched_blocks >= 24);
    }

    #[test]
    fn nothing_more_than_a_few_blocks_is_taken_at_once() {
        let kernel = kernel(0);
        Warmer::default().prepare(&kernel, 1000);
        assert_eq!(kernel.state().warm_blocks, 32);
    }
}
