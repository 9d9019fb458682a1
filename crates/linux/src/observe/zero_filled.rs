//! Counting the base pages of a region that hold nothing but zeros.

use std::ops::Range;

use mega_core::{BASE_PAGE_SIZE, Region};

use crate::kernel::{FileHandle, Kernel, PageRange, PagemapScan, category};
use crate::observe::tracker::pagemap::{self, ENTRIES, Entry};

/// Bytes of one base page, as a length in memory.
const PAGE: usize = 4 << 10;
/// Bytes of one region, as a length in memory.
const REGION: usize = 2 << 20;

/// Counts zero-filled base pages. Keeps one region's worth of memory to read into, from its first count on.
#[derive(Default)]
pub struct ZeroCounter {
    buffer: Vec<u8>,
}

impl ZeroCounter {
    /// The base pages of `region` that have a physical page and hold nothing but zeros, 0 to 512. `None` where
    /// the memory cannot be read. Only pages that are there are read: to read a hole would fill it.
    pub fn count(&mut self, kernel: &dyn Kernel, pid: u32, region: Region) -> Option<u16> {
        let pagemap = pagemap::open(kernel, &pid.to_string()).ok()?;
        let present = present(kernel, &pagemap, region)?;
        self.buffer.resize(REGION, 0);
        let mut zero_filled = 0;
        for run in present {
            let length = usize::try_from(run.end.checked_sub(run.start)?).ok()?;
            let buffer = self.buffer.get_mut(..length)?;
            if kernel.read_memory(pid, run.start, buffer).ok()? != length {
                return None;
            }
            zero_filled += buffer
                .chunks_exact(PAGE)
                .filter(|page| is_zero(page))
                .count();
        }
        u16::try_from(zero_filled).ok()
    }
}

/// Whether all bytes are 0. Most pages that are not show it in their first words.
fn is_zero(page: &[u8]) -> bool {
    page.chunks(256)
        .all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

/// The runs of pages in `region` that are in memory and the process's own.
fn present(kernel: &dyn Kernel, pagemap: &FileHandle, region: Region) -> Option<Vec<Range<u64>>> {
    let scan = PagemapScan {
        range: region.start()..region.end(),
        any_of: category::PRESENT,
        report: category::PRESENT | category::ZERO_PAGE,
    };
    let mut found: Vec<PageRange> = Vec::new();
    match kernel.pagemap_scan(pagemap, &scan, &mut found) {
        Ok(()) => Some(
            found
                .into_iter()
                .filter(|page| page.categories & category::ZERO_PAGE == 0)
                .map(|page| page.range)
                .collect(),
        ),
        // Before 6.7 there is only the table itself; there the page of zeros counts as one that is zero-filled.
        Err(_) => present_by_table(kernel, pagemap, region),
    }
}

fn present_by_table(
    kernel: &dyn Kernel,
    pagemap: &FileHandle,
    region: Region,
) -> Option<Vec<Range<u64>>> {
    let mut table = [Entry::default(); ENTRIES];
    pagemap::read(kernel, pagemap, region.start(), &mut table).ok()?;
    let mut runs: Vec<Range<u64>> = Vec::new();
    let addresses = (region.start()..region.end()).step_by(PAGE);
    for (address, entry) in addresses.zip(table) {
        if !entry.is_present() {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == address => run.end = address + BASE_PAGE_SIZE,
            _ => runs.push(address..address + BASE_PAGE_SIZE),
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeProcess};

    #[test]
    fn one_buffer_is_read_into_again_and_again() {
        let kernel = FakeKernel::new();
        kernel.add(7, FakeProcess::with_regions(1, 0, 2));
        let mut kept = ZeroCounter::default();
        let mut count = |index: u64| {
            // As its owner does, to whom it belongs beside what it reads.
            let mut counter = std::mem::take(&mut kept);
            assert_eq!(kept.buffer.capacity(), 0, "what takes its place is empty");
            let region = Region::containing(index * REGION as u64);
            assert_eq!(counter.count(&kernel, 7, region), Some(0));
            kept = counter;
            kept.buffer.as_ptr()
        };
        assert_eq!(count(0), count(1));
    }
}
