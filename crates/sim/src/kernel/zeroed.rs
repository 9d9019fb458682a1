//! Free chunks that the kernel has zeroed before somebody needs them (Trident, section 5.1.2).

use std::time::Duration;

use super::Kernel;

/// How many there are. Which ones is not kept: a chunk that is free as a whole is as good as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZeroedChunks {
    count: u64,
    /// Up to when the thread that zeroes has worked.
    until: Duration,
}

impl Kernel {
    /// Whether a free chunk of a node is zeroed now. A thread zeroes one after the other, on a CPU that nobody else wants; before
    /// this was asked first it had all the time that it needed.
    pub(super) fn has_zeroed_chunk(&mut self, node: u32) -> bool {
        if !self.settings.zeroes_ahead {
            return false;
        }
        let free = self.free_chunks(node);
        let now = self.memory.now();
        let all = ZeroedChunks {
            count: free,
            until: now,
        };
        let zeroed = self.zeroed.get_or_insert(all);
        let takes = self.costs.time(512 * 512 * self.costs.zero_page);
        let passed = now.saturating_sub(zeroed.until).as_nanos();
        let made = u64::try_from(passed / takes.as_nanos().max(1)).unwrap_or(u64::MAX);
        if zeroed.count.saturating_add(made) >= free {
            *zeroed = all;
        } else {
            zeroed.count += made;
            zeroed.until += takes * u32::try_from(made).unwrap_or(u32::MAX);
        }
        zeroed.count > 0
    }

    /// A giant page took one of them.
    pub(super) fn take_zeroed_chunk(&mut self) {
        if let Some(zeroed) = &mut self.zeroed {
            zeroed.count = zeroed.count.saturating_sub(1);
        }
    }
}
