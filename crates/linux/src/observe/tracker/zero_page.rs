//! The kernel's shared pages of zeros, base and huge: which physical pages they are.
//!
//! Reading memory that was never written maps one of them. It holds nothing of the process's and is no
//! memory of its own, so it must be told from a page that is. (The BPF walker needs only the huge one: the
//! entry of a base one carries a mark.)

use std::io;

use mega_core::{BASE_PAGE_SIZE, PAGES_PER_REGION, Region};

use super::pagemap;
use crate::kernel::Kernel;
use crate::kernel::own_memory::{Advice, OwnMemory};

/// Their frame numbers, where they could be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ZeroPages {
    base: Option<u64>,
    /// The first of 512. Stays the same while this process lives, which from its first use on holds a
    /// reference to it.
    huge: Option<u64>,
}

impl ZeroPages {
    /// Maps and looks. Finds nothing where pagemap hides frame numbers; finds no huge one where reads do not
    /// map it (THP mode `never`, or `use_zero_page` 0).
    ///
    /// # Errors
    /// As `mmap`, and as reading `/proc/self/pagemap`.
    pub(super) fn find(kernel: &dyn Kernel) -> io::Result<ZeroPages> {
        let memory = OwnMemory::new(3)?;
        let file = pagemap::open(kernel, "self")?;
        let advices = [Advice::NoHuge, Advice::Huge, Advice::Huge];
        let mut frames = [[None; 2]; 3];
        let regions = Region::wholly_inside(memory.range().start, memory.range().end);
        for ((region, advice), frames) in regions.zip(advices).zip(&mut frames) {
            // A kernel without THP refuses both, and maps base pages.
            let _ = memory.advise(region.start()..region.end(), advice);
            memory.read(region.start());
            let mut entries = [pagemap::Entry::default(); 2];
            pagemap::read(kernel, &file, region.start(), &mut entries)?;
            *frames = entries.map(pagemap::Entry::frame);
        }
        let [[base, _], first, second] = frames;
        Ok(ZeroPages {
            base,
            huge: shared_huge(first, second),
        })
    }

    /// Whether the frame is one of them, or part of one.
    pub(super) fn contains(&self, frame: u64) -> bool {
        self.base == Some(frame)
            || self
                .huge
                .is_some_and(|first| (first..first + u64::from(PAGES_PER_REGION)).contains(&frame))
    }

    /// The physical address of the huge one, or `u64::MAX`, which is none.
    pub(super) fn huge_address(&self) -> u64 {
        self.huge
            .and_then(|frame| frame.checked_mul(BASE_PAGE_SIZE))
            .unwrap_or(u64::MAX)
    }
}

/// Two regions that were read show the same huge page only if it is the shared one: with `use_zero_page` 0
/// each gets its own, and without huge pages only the first page of each is mapped.
fn shared_huge(first: [Option<u64>; 2], second: [Option<u64>; 2]) -> Option<u64> {
    let [Some(frame), Some(next)] = first else {
        return None;
    };
    (first == second && next == frame + 1 && frame % u64::from(PAGES_PER_REGION) == 0)
        .then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shared_aligned_run_is_the_huge_zero_page() {
        let pair = |frame| [Some(frame), Some(frame + 1)];
        assert_eq!(shared_huge(pair(1024), pair(1024)), Some(1024));
        assert_eq!(
            shared_huge(pair(1024), pair(2048)),
            None,
            "each its own: use_zero_page is 0"
        );
        assert_eq!(
            shared_huge([Some(7), None], [Some(7), None]),
            None,
            "base pages"
        );
        assert_eq!(shared_huge([None; 2], [None; 2]), None, "frames hidden");
        assert_eq!(shared_huge(pair(1025), pair(1025)), None);
    }

    #[test]
    fn every_frame_of_the_huge_zero_page_is_zero() {
        let zero = ZeroPages {
            base: Some(3),
            huge: Some(512),
        };
        assert!(zero.contains(3) && zero.contains(512) && zero.contains(1023));
        assert!(!zero.contains(4) && !zero.contains(511) && !zero.contains(1024));
        assert!(!ZeroPages::default().contains(0));
    }
}
