//! How large the folios are whose pages base page table entries map.
//!
//! The kernel can take memory in folios of sizes between a base page and a huge page (`hugepages-*kB/enabled`, Linux 6.8), and
//! it can map a huge folio page by page. Page tables do not tell, so no tracker does: `/proc/kpageflags` does, for root.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use mega_core::{BASE_PAGE_SIZE, PAGES_PER_REGION, Region};

use super::pagemap::{self, KernelPageFlags, PageFlags};
use crate::kernel::Kernel;

/// The size of a folio in bytes, more than a base page, and how many bytes of such folios base page table entries map.
pub type FolioSizes = BTreeMap<u64, u64>;

/// Looks at each of the regions, which ascend. Calls `looked` after each.
///
/// # Errors
/// As reading `/proc/PID/pagemap` and `/proc/kpageflags`; `PermissionDenied` where the former hides which frames are mapped.
pub(crate) fn look(
    kernel: &dyn Kernel,
    pid: u32,
    regions: &[Region],
    mut looked: impl FnMut(),
) -> io::Result<BTreeMap<Region, FolioSizes>> {
    let pagemap = pagemap::open(kernel, &pid.to_string())?;
    let mut folios = Folios::open(kernel)?;
    let mut seen = BTreeMap::new();
    pagemap::for_each_region(kernel, &pagemap, &joined(regions), |region, entries| {
        let present = entries.iter().filter(|entry| entry.is_present());
        let frames: Option<Vec<u64>> = present.map(|entry| entry.frame()).collect();
        let frames = frames.ok_or(io::ErrorKind::PermissionDenied)?;
        seen.insert(region, folios.sizes(kernel, &frames)?);
        looked();
        Ok(())
    })?;
    Ok(seen)
}

/// The addresses of regions that ascend, as few ranges.
fn joined(regions: &[Region]) -> Vec<Range<u64>> {
    let neighbours = regions.chunk_by(|a, b| a.end() == b.start());
    neighbours
        .filter_map(|run| Some(run.first()?.start()..run.last()?.end()))
        .collect()
}

/// Which folio each frame is in.
struct Folios {
    flags: KernelPageFlags,
    /// The first frame of the block that was read last.
    block: Option<u64>,
    /// The pages of the folio that each frame of that block is in.
    pages: Vec<u64>,
}

impl Folios {
    fn open(kernel: &dyn Kernel) -> io::Result<Self> {
        Ok(Folios {
            flags: KernelPageFlags::open(kernel)?,
            block: None,
            pages: Vec::new(),
        })
    }

    /// The sizes of the larger folios that the frames are in.
    fn sizes(&mut self, kernel: &dyn Kernel, frames: &[u64]) -> io::Result<FolioSizes> {
        let mut sizes = FolioSizes::new();
        // Neighbours take one call; a base page's neighbours that are not mapped are not looked at.
        for run in frames.chunk_by(|a, b| *a + 1 == *b) {
            let Some(&first) = run.first() else { continue };
            let flags = self.flags.of_run(kernel, first, run.len())?;
            for (&frame, flags) in run.iter().zip(flags) {
                if flags.is_compound() {
                    let pages = self.pages_of(kernel, frame)?;
                    *sizes.entry(pages * BASE_PAGE_SIZE).or_default() += BASE_PAGE_SIZE;
                }
            }
        }
        Ok(sizes)
    }

    /// The pages of the folio that a frame is in. A folio is aligned to its size, so none of up to 2 MiB lies in two blocks.
    fn pages_of(&mut self, kernel: &dyn Kernel, frame: u64) -> io::Result<u64> {
        let in_block = frame % u64::from(PAGES_PER_REGION);
        let block = frame - in_block;
        if self.block != Some(block) {
            let flags = self
                .flags
                .of_run(kernel, block, usize::from(PAGES_PER_REGION))?;
            self.pages = pages_of_folios(&flags);
            self.block = Some(block);
        }
        let index = usize::try_from(in_block).map_err(io::Error::other)?;
        Ok(self.pages.get(index).copied().unwrap_or(1))
    }
}

/// For each frame of a block how many pages the folio has that it is in.
fn pages_of_folios(flags: &[PageFlags]) -> Vec<u64> {
    let folios = flags.chunk_by(|_, next| next.is_tail());
    folios
        .flat_map(|folio| std::iter::repeat_n(folio.len() as u64, folio.len()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fake_memory::FakeMemory;
    use super::*;

    const FIRST: u64 = 4;

    fn look_at(memory: &FakeMemory, count: u64) -> BTreeMap<Region, FolioSizes> {
        let regions = (FIRST..FIRST + count).map(|index| Region::containing(index << 21));
        let regions: Vec<Region> = regions.collect();
        let mut looked = 0;
        let seen = look(memory, 42, &regions, || looked += 1).unwrap();
        assert_eq!((looked, seen.len() as u64), (count, count));
        seen
    }

    #[test]
    fn folios_are_told_from_base_pages_and_from_each_other() {
        let mut memory = FakeMemory::default();
        memory.compound.extend([(1024, 4), (1040, 4), (512, 9)]);
        // 64 KiB whole, half of one, 8 base pages; in the next region three pages of a huge folio.
        let page = FIRST * 512;
        memory.mapped.extend((0..32).map(|n| (page + n, 1024 + n)));
        memory.mapped.retain(|page, _| page % 32 < 24);
        memory.mapped.extend((64..72).map(|n| (page + n, 2048 + n)));
        memory
            .mapped
            .extend((0..3).map(|n| (page + 512 + n, 515 + n)));
        let seen = look_at(&memory, 2);
        let sizes: Vec<FolioSizes> = seen.into_values().collect();
        let wanted = [
            FolioSizes::from([(64 << 10, 24 << 12)]),
            FolioSizes::from([(2 << 20, 3 << 12)]),
        ];
        assert_eq!(sizes, wanted);
    }

    proptest! {
        #[test]
        fn every_page_of_a_larger_folio_counts_once(
            orders in prop::collection::vec(0_u32..=9, 1..40),
            mapped in prop::collection::btree_map(0_u64..2 * 512, 0_u64..4096, 0..300),
        ) {
            let mut memory = FakeMemory::default();
            let mut frame: u64 = 0;
            let mut wanted = vec![FolioSizes::new(); 2];
            for order in orders {
                frame = frame.next_multiple_of(1 << order);
                if order > 0 {
                    memory.compound.insert(frame, order);
                }
                frame += 1 << order;
            }
            for (page, frame) in mapped {
                let frame = frame + 1; // no frame is 0: that means hidden
                memory.mapped.insert(FIRST * 512 + page, frame);
                let head = memory.head(frame);
                if let Some(order) = memory.compound.get(&head) {
                    let sizes = &mut wanted[usize::try_from(page / 512).unwrap()];
                    *sizes.entry(BASE_PAGE_SIZE << order).or_default() += BASE_PAGE_SIZE;
                }
            }
            let seen: Vec<FolioSizes> = look_at(&memory, 2).into_values().collect();
            prop_assert_eq!(seen, wanted);
        }
    }
}
