//! How much smaller than the paper's machine the simulated one is.

/// What memory comes in: the largest free area of the page allocator.
const UNIT: u64 = 4 << 20;

/// The simulated machine has one part in so many of the paper's memory, and the programs of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale(u64);

impl Scale {
    /// One part in `parts`, 1 or more.
    pub(super) fn new(parts: u64) -> Self {
        Scale(parts.max(1))
    }

    /// In how many parts.
    pub(super) fn parts(self) -> u64 {
        self.0
    }

    /// So many bytes of the paper's, here: a multiple of 4 MiB, 4 MiB at least.
    pub(super) fn bytes(self, paper: u64) -> u64 {
        (paper / self.0 / UNIT * UNIT).max(UNIT)
    }

    /// So many things of the paper's, here: one at least.
    pub(super) fn count(self, paper: u64) -> u64 {
        (paper / self.0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_whole_and_above_nothing() {
        let scale = Scale::new(48);
        assert_eq!(scale.bytes(16 << 30), 340 << 20);
        assert_eq!(scale.bytes(1), UNIT);
        assert_eq!(scale.count(100), 2);
        assert_eq!(Scale::new(0).bytes(8 << 20), 8 << 20);
    }
}
