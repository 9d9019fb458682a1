//! The `mapped` tracker: what is mapped and by which page size, without accesses.
//!
//! From 6.7 on `PAGEMAP_SCAN` tells all of it. On older kernels it reads pagemap entry by entry: 2 MiB of entries for
//! each GiB of address space, holes included. There a region counts as huge if its 512 frames are one compound page,
//! which `/proc/kpageflags` tells root. So a huge page still counts as huge there after only its mapping was split, say
//! by `mprotect` of a part.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use mega_core::page::GIANT_PAGE_SIZE;
use mega_core::{BASE_PAGE_SIZE, PAGES_PER_REGION, PageSize, Region, RegionObservation};

use super::finish::finish;
use super::pagemap::{self, Entry, KernelPageFlags};
use super::whole::{USER_END, whole_regions};
use super::zero_page::ZeroPages;
use super::{TrackError, TrackedProcess, Tracker, TrackerKind, Unavailable};
use crate::kernel::own_memory::OwnMemory;
use crate::kernel::{FileHandle, Kernel, PageRange, PagemapScan, category};

/// The longest piece of address space that one call scans: 1 TiB, reached only over holes.
const LONGEST_PIECE: u64 = 1 << 40;

/// Knows what is mapped.
pub struct MappedTracker {
    kernel: Arc<dyn Kernel>,
    source: Source,
}

enum Source {
    /// `PAGEMAP_SCAN`.
    Scan,
    /// Reading pagemap. Without the flags of physical pages every region counts as base pages.
    Entries {
        flags: Option<KernelPageFlags>,
        zero: ZeroPages,
    },
}

impl MappedTracker {
    /// Finds out which way this kernel offers.
    ///
    /// # Errors
    /// When `/proc/self/pagemap` cannot be read.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<MappedTracker, Unavailable> {
        let source = Self::source(&*kernel).map_err(|error| Unavailable::File {
            path: "/proc/self/pagemap",
            error,
            remedy: ": boot a kernel with CONFIG_PROC_PAGE_MONITOR=y, and mount /proc",
        })?;
        Ok(MappedTracker { kernel, source })
    }

    fn source(kernel: &dyn Kernel) -> io::Result<Source> {
        let file = pagemap::open(kernel, "self")?;
        let memory = OwnMemory::new(1)?;
        match kernel.pagemap_scan(&file, &request(memory.range()), &mut Vec::new()) {
            Ok(()) => Ok(Source::Scan),
            Err(_) => {
                let mut entry = [Entry::default()];
                pagemap::read(kernel, &file, memory.range().start, &mut entry)?;
                Ok(Source::Entries {
                    flags: KernelPageFlags::open(kernel).ok(),
                    zero: ZeroPages::find(kernel)?,
                })
            }
        }
    }

    fn look(
        &self,
        file: &FileHandle,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> io::Result<()> {
        let kernel = &*self.kernel;
        match &self.source {
            Source::Scan => ranges
                .iter()
                .try_for_each(|range| scan(kernel, file, range, out)),
            Source::Entries { flags, zero } => {
                pagemap::for_each_region(kernel, file, ranges, |region, entries| {
                    let counts = |entry: &&Entry| {
                        entry.is_present()
                            && !entry.frame().is_some_and(|frame| zero.contains(frame))
                    };
                    let mapped = entries.iter().filter(counts).count();
                    let huge = match (flags, pagemap::aligned_run(entries)) {
                        (Some(flags), Some(first)) => flags.is_huge(kernel, first)?,
                        _ => false,
                    };
                    let swapped = entries.iter().filter(|entry| entry.is_swapped()).count();
                    let pages = Pages {
                        mapped: mapped as u64,
                        swapped: swapped as u64,
                        huge,
                    };
                    pages.observe(region, out);
                    Ok(())
                })
            }
        }
    }
}

impl Tracker for MappedTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Mapped
    }

    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        out.clear();
        let pid = target.process.pid;
        let file = pagemap::open_target(&*self.kernel, pid)?;
        let whole: Vec<Range<u64>> = whole_regions(ranges, USER_END).collect();
        let result = self
            .look(&file, &whole, out)
            .map_err(|error| pagemap::failed(pid, "read pagemap", error));
        finish(target, result, out)
    }
}

/// What is in memory, and of that what is the page of zeros and what a huge page maps; and what is in swap. A page that
/// is just being migrated is reported as in swap too.
fn request(range: Range<u64>) -> PagemapScan {
    PagemapScan {
        range,
        any_of: category::PRESENT | category::SWAPPED,
        report: category::PRESENT | category::SWAPPED | category::ZERO_PAGE | category::HUGE,
    }
}

/// Scans a range in pieces, because a call holds the target's mmap lock: 1 GiB where there is memory, longer
/// ones over holes.
fn scan(
    kernel: &dyn Kernel,
    file: &FileHandle,
    range: &Range<u64>,
    out: &mut Vec<RegionObservation>,
) -> io::Result<()> {
    let mut found = Vec::new();
    let mut piece = GIANT_PAGE_SIZE;
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start.saturating_add(piece));
        found.clear();
        kernel.pagemap_scan(file, &request(start..end), &mut found)?;
        fold(&found, out);
        piece = if found.is_empty() {
            (piece * 2).min(LONGEST_PIECE)
        } else {
            GIANT_PAGE_SIZE
        };
        start = end;
    }
    Ok(())
}

/// What is known of the pages of one region.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    mapped: u64,
    swapped: u64,
    huge: bool,
}

impl Pages {
    fn add(&mut self, count: u64, categories: u64) {
        if categories & category::PRESENT != 0 {
            self.mapped += count;
        } else if categories & category::SWAPPED != 0 {
            self.swapped += count;
        }
        self.huge |= categories & category::HUGE != 0;
    }

    /// Adds the region, if anything of it is mapped.
    fn observe(self, region: Region, out: &mut Vec<RegionObservation>) {
        let count = |pages: u64, most: u16| u16::try_from(pages).unwrap_or(most).min(most);
        let mapped = count(self.mapped, PAGES_PER_REGION);
        if mapped == 0 {
            return;
        }
        out.push(RegionObservation {
            region,
            mapped,
            accessed: 0,
            page_size: if self.huge && mapped == PAGES_PER_REGION {
                PageSize::Huge
            } else {
                PageSize::Base
            },
            zero_filled: None,
            swapped: count(self.swapped, PAGES_PER_REGION - mapped),
        });
    }
}

/// Adds up ascending page ranges into regions.
fn fold(found: &[PageRange], out: &mut Vec<RegionObservation>) {
    let mut current: Option<(Region, Pages)> = None;
    for pages in found
        .iter()
        .filter(|pages| pages.categories & category::ZERO_PAGE == 0)
    {
        let mut start = pages.range.start;
        while start < pages.range.end {
            let region = Region::containing(start);
            let end = pages.range.end.min(region.end());
            let mut sum = Pages::default();
            match current {
                Some((same, seen)) if same == region => sum = seen,
                Some((other, seen)) => seen.observe(other, out),
                None => {}
            }
            sum.add((end - start) / BASE_PAGE_SIZE, pages.categories);
            current = Some((region, sum));
            start = end;
        }
    }
    if let Some((region, pages)) = current {
        pages.observe(region, out);
    }
}

#[cfg(test)]
mod tests {
    use mega_core::HUGE_PAGE_SIZE;
    use proptest::prelude::*;

    use super::*;

    /// Ascending, disjoint ranges of pages, 1 to 1,300 pages each, with gaps.
    fn page_ranges() -> impl Strategy<Value = Vec<PageRange>> {
        let piece = (0_u64..700, 1_u64..1300, any::<bool>(), 0_u8..5);
        prop::collection::vec(piece, 0..12).prop_map(|pieces| {
            let mut at = 5 * HUGE_PAGE_SIZE;
            pieces
                .into_iter()
                .map(|(gap, pages, huge, kind)| {
                    let start = at + gap * BASE_PAGE_SIZE;
                    at = start + pages * BASE_PAGE_SIZE;
                    let mut categories = match kind {
                        0 => category::PRESENT | category::ZERO_PAGE,
                        1 => category::SWAPPED,
                        _ => category::PRESENT,
                    };
                    categories |= if huge && kind != 1 { category::HUGE } else { 0 };
                    PageRange {
                        range: start..at,
                        categories,
                    }
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn folding_counts_every_page_once(found in page_ranges()) {
            let mut out = Vec::new();
            fold(&found, &mut out);
            let mut expected = std::collections::BTreeMap::<u64, (u16, u16)>::new();
            for pages in found.iter().filter(|pages| pages.categories & category::ZERO_PAGE == 0) {
                let is_swapped = u16::from(pages.categories & category::SWAPPED != 0);
                for page in pages.range.clone().step_by(4096) {
                    let (mapped, swapped) = expected.entry(page / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE).or_default();
                    *mapped += 1 - is_swapped;
                    *swapped += is_swapped;
                }
            }
            expected.retain(|_, (mapped, _)| *mapped > 0);
            let seen: Vec<(u64, (u16, u16))> =
                out.iter().map(|seen| (seen.region.start(), (seen.mapped, seen.swapped))).collect();
            prop_assert_eq!(seen, expected.into_iter().collect::<Vec<_>>());
            prop_assert!(out.iter().all(|seen| seen.page_size == PageSize::Base || seen.mapped == 512));
        }
    }
}
