//! Base pages that a fork left shared with another process.
//!
//! A collapse copies them, so that memory holds twice what both processes had once. khugepaged leaves a region alone if
//! it shares more than `max_ptes_shared` base pages. `MADV_COLLAPSE` does not check (mm/khugepaged.c, 6.1 to 6.18), so
//! mega does. A program that forks a child to save its memory is not promoted while the child lives, and neither is the
//! child.

use std::path::Path;

use mega_core::{PAGES_PER_REGION, RegionObservation};

use crate::kernel::{FileHandle, Kernel};
use crate::observe::tracker::pagemap::{self, ENTRIES, Entry};

/// Where the administrator says how many khugepaged tolerates.
const LIMIT: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_shared";
/// What it is by default: half of a region (`HPAGE_PMD_NR / 2`).
const DEFAULT_LIMIT: u16 = PAGES_PER_REGION / 2;

/// Base pages looked at first. If none of them is shared, the others are not read: that would take a twelfth of the
/// time of a collapse. A fork shares all of a region at once, and each write takes one page out again.
const SAMPLE: usize = 32;

/// Looks into the regions of one process.
pub(crate) struct SharedPages {
    pagemap: Option<FileHandle>,
    limit: u16,
}

impl SharedPages {
    /// Opens the pagemap of `pid`. Where that is refused, nothing counts as shared.
    pub(crate) fn of(kernel: &dyn Kernel, pid: u32) -> Self {
        let limit = kernel.read(Path::new(LIMIT)).ok().and_then(|text| {
            let text = String::from_utf8(text).ok()?;
            text.trim().parse().ok()
        });
        SharedPages {
            pagemap: pagemap::open(kernel, &pid.to_string()).ok(),
            limit: limit.unwrap_or(DEFAULT_LIMIT),
        }
    }

    /// Whether too many pages of the region are shared for it to be promoted. `seen` is what was last seen of it.
    pub(crate) fn too_many_in(&self, kernel: &dyn Kernel, seen: &RegionObservation) -> bool {
        let mut sample = [Entry::default(); SAMPLE];
        let mut all = [Entry::default(); ENTRIES];
        self.read(kernel, seen, &mut sample)
            && sample.into_iter().any(Entry::is_private_and_shared)
            && self.read(kernel, seen, &mut all)
            && shared(&all, seen.mapped) > self.limit
    }

    /// Reads the first entries of the region; false where that is refused.
    fn read(&self, kernel: &dyn Kernel, seen: &RegionObservation, entries: &mut [Entry]) -> bool {
        let start = seen.region.start();
        let pagemap = self.pagemap.as_ref();
        pagemap.is_some_and(|file| pagemap::read(kernel, file, start, entries).is_ok())
    }
}

/// The pages shared since a fork. `mapped` pages are the process's own or another's: what is present beyond them is the
/// page of zeros, which an entry does not tell from a shared page.
fn shared(entries: &[Entry], mapped: u16) -> u16 {
    let count = |is: fn(Entry) -> bool| {
        entries
            .iter()
            .fold(0_u16, |count, entry| count + u16::from(is(*entry)))
    };
    let zero = count(Entry::is_present).saturating_sub(mapped);
    count(Entry::is_private_and_shared).saturating_sub(zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENT: u64 = 1 << 63;
    const FILE_OR_SHARED_MEMORY: u64 = 1 << 61;
    const MAPPED_ONCE: u64 = 1 << 56;

    fn table(entries: &[(usize, u64)]) -> Vec<Entry> {
        let entries = entries
            .iter()
            .flat_map(|&(count, entry)| std::iter::repeat_n(Entry(entry), count));
        let mut table: Vec<Entry> = entries.collect();
        table.resize(ENTRIES, Entry::default());
        table
    }

    #[test]
    fn only_what_another_process_maps_too_is_shared() {
        let own = PRESENT | MAPPED_ONCE | 7;
        let shared_memory = PRESENT | FILE_OR_SHARED_MEMORY;
        let table = table(&[(100, own), (30, PRESENT | 9), (20, shared_memory)]);
        assert_eq!(shared(&table, 150), 30);
    }

    #[test]
    fn the_page_of_zeros_is_nobodys() {
        let table = table(&[(400, PRESENT | 1), (12, PRESENT | MAPPED_ONCE)]);
        assert_eq!(shared(&table, 12), 0);
        assert_eq!(shared(&table, 62), 50);
    }
}
