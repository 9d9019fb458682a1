//! Clearing Accessed bits, which starts the next interval.
//!
//! There are two ways, and neither is free. Each process gets the one that holds its mmap lock no longer than the bound:
//! - `clear_refs` walks the whole address space under the mmap lock held for writing: 11 to 18 ms per GiB of base
//!   pages, 0.1 ms per GiB of huge pages (Linux 6.18, seen). It changes nothing but the bits.
//! - `MADV_COLD` walks a range under the lock held for reading, at about the same cost, in pieces of any size;
//!   but it also moves the pages to the inactive list, and passes over those just faulted that still wait in a
//!   CPU's batch for the LRU lists ([`LRU_BATCH`] for each CPU at most). It is given only the regions that were
//!   accessed: the bits of the others are clear already.
//!
//! Both would have the kernel break up a giant page, to get at the bits below it. A giant page is left out, and the
//! first way is not taken while there is one: its Accessed bit stays set, so that it looks used, until a tracker that
//! clears by itself (the module) is used.
//!
//! A process gets the first if all of it is due and it is small enough for the bound. Any other gets the second, in
//! pieces, over the regions whose turn it is (`target.rs` decides, once). The mapped counts give an estimate of
//! what a piece costs, and every measured duration corrects it.

use std::io;
use std::ops::Range;
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, PAGES_PER_REGION, PageSize, RegionObservation};

use crate::kernel::{Advice, Kernel, ProcessHandle};

/// Time to clear one base page before anything was measured: 11 ms per GiB.
const PER_BASE_PAGE: Duration = Duration::from_nanos(42);
/// Time to walk one table of base pages, however few of them are there, before anything was measured.
const PER_TABLE: Duration = Duration::from_micros(1);
/// Time to clear one huge page before anything was measured: 0.1 ms per GiB.
const PER_HUGE_PAGE: Duration = Duration::from_nanos(200);
/// Pages that may wait in each CPU's batch before they are on an LRU list (`PAGEVEC_SIZE`: 31 since Linux 6.8,
/// 15 before). `MADV_COLD` does not clear their Accessed bits.
pub const LRU_BATCH: usize = 31;
/// How far measurements may move the estimate: a process scheduled away in the middle proves nothing.
const CORRECTION: std::ops::RangeInclusive<f64> = 0.1..=10.0;
/// How much of one measurement goes into the estimate.
const LEARNING: f64 = 0.5;
/// Durations shorter than this are mostly the system call itself, and teach nothing.
const SHORTEST_LESSON: Duration = Duration::from_micros(200);
/// The kernel takes at most this many ranges in one call (`UIO_MAXIOV`).
const MOST_RANGES: usize = 1024;

/// Clears the Accessed bits of one process, and learns what that costs.
#[derive(Clone, Copy, Debug)]
pub struct Clearer {
    correction: f64,
}

impl Default for Clearer {
    fn default() -> Self {
        Clearer { correction: 1.0 }
    }
}

/// What came of clearing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Whether every Accessed bit of the regions is clear, or its memory gone, but for giant pages. A locked mapping
    /// (`mlock`) cannot be cleared in pieces.
    pub complete: bool,
    /// The longest single call, and so the longest the mmap lock can have been held.
    pub longest_hold: Duration,
}

impl Clearer {
    /// About how long `clear_refs` takes for a process with these regions and `resident` bytes in all, of which it
    /// walks what is not eligible too. `None` where it is not to be used: it would break a giant page up.
    #[must_use]
    pub fn expected_of_all(
        &self,
        regions: &[RegionObservation],
        resident: u64,
    ) -> Option<Duration> {
        let breaks_nothing_up = !regions.iter().any(is_giant);
        breaks_nothing_up.then(|| uncorrected_of_all(regions, resident).mul_f64(self.correction))
    }

    /// About how long clearing these regions takes in pieces: those that were accessed, the bits of the others are
    /// clear.
    #[must_use]
    pub fn expected(&self, regions: &[RegionObservation]) -> Duration {
        let accessed = regions.iter().filter(|region| region.accessed > 0);
        let uncorrected: Duration = accessed
            .map(|region| uncorrected(std::slice::from_ref(region)))
            .sum();
        uncorrected.mul_f64(self.correction)
    }

    /// How many base pages of full regions can be cleared within a time, at least 1.
    #[must_use]
    pub fn pages_within(&self, time: Duration) -> u64 {
        let each =
            (PER_BASE_PAGE + PER_TABLE / u32::from(PAGES_PER_REGION)).mul_f64(self.correction);
        let pages = time.as_nanos() / each.as_nanos().max(1);
        u64::try_from(pages).unwrap_or(u64::MAX).max(1)
    }

    /// Clears all Accessed bits of a process by `clear_refs`. `regions` are all that were just observed of it.
    ///
    /// # Errors
    /// `ESRCH` and `ENOENT` where the process is gone, `EPERM` and `EACCES` without the privilege.
    pub fn clear_all(
        &mut self,
        kernel: &dyn Kernel,
        process: &ProcessHandle,
        regions: &[RegionObservation],
        resident: u64,
    ) -> io::Result<Cleared> {
        if regions.iter().all(|region| region.accessed == 0) {
            return Ok(Cleared {
                complete: true,
                longest_hold: Duration::ZERO,
            });
        }
        let started = kernel.now();
        kernel.write(&crate::process::path(process.pid(), "clear_refs"), b"1")?;
        let took = kernel.now().saturating_sub(started);
        self.learn(uncorrected_of_all(regions, resident), took);
        Ok(Cleared {
            complete: true,
            longest_hold: took,
        })
    }

    /// Clears the Accessed bits in `regions`, which were just observed, in address order, and no others, by
    /// `MADV_COLD`. Holds the mmap lock of the process for about `bound` at most.
    ///
    /// # Errors
    /// As [`Clearer::clear_all`].
    pub fn clear_in_pieces(
        &mut self,
        kernel: &dyn Kernel,
        process: &ProcessHandle,
        regions: &[RegionObservation],
        bound: Duration,
    ) -> io::Result<Cleared> {
        let mut cleared = Cleared {
            complete: true,
            longest_hold: Duration::ZERO,
        };
        let accessed: Vec<RegionObservation> = regions
            .iter()
            .filter(|region| region.accessed > 0 && !is_giant(region))
            .copied()
            .collect();
        let mut rest = accessed.as_slice();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(self.piece(rest, bound));
            rest = later;
            let started = kernel.now();
            let complete = cold(kernel, process, piece)?;
            let took = kernel.now().saturating_sub(started);
            self.learn(uncorrected(piece), took);
            cleared.complete &= complete;
            cleared.longest_hold = cleared.longest_hold.max(took);
        }
        Ok(cleared)
    }

    /// How many of the first of `regions` fit the bound together, at least 1.
    fn piece(&self, regions: &[RegionObservation], bound: Duration) -> usize {
        let mut estimate = Duration::ZERO;
        let fitting = regions
            .iter()
            .take_while(|region| {
                estimate += uncorrected(std::slice::from_ref(region)).mul_f64(self.correction);
                estimate <= bound
            })
            .take(MOST_RANGES)
            .count();
        fitting.max(1)
    }

    fn learn(&mut self, uncorrected: Duration, took: Duration) {
        if took < SHORTEST_LESSON {
            return;
        }
        let seen = took.as_secs_f64() / uncorrected.as_secs_f64().max(1e-9);
        let seen = seen.clamp(*CORRECTION.start(), *CORRECTION.end());
        self.correction += LEARNING * (seen - self.correction);
    }
}

fn is_giant(region: &RegionObservation) -> bool {
    region.page_size == PageSize::Giant
}

fn uncorrected(regions: &[RegionObservation]) -> Duration {
    regions
        .iter()
        .map(|region| match region.is_huge() {
            true => PER_HUGE_PAGE,
            false => PER_TABLE + PER_BASE_PAGE * u32::from(region.mapped),
        })
        .sum()
}

/// What `clear_refs` walks.
fn uncorrected_of_all(regions: &[RegionObservation], resident: u64) -> Duration {
    uncorrected(regions) + uncorrected_elsewhere(regions, resident)
}

/// What the memory that is not in `regions` adds: files, stacks, code, all taken for base pages.
fn uncorrected_elsewhere(regions: &[RegionObservation], resident: u64) -> Duration {
    let here: u64 = regions.iter().map(RegionObservation::resident_bytes).sum();
    let pages = resident.saturating_sub(here) / BASE_PAGE_SIZE;
    PER_BASE_PAGE * u32::try_from(pages).unwrap_or(u32::MAX)
}

/// Clears `regions` in one call if nothing goes wrong; says whether none refused.
fn cold(
    kernel: &dyn Kernel,
    process: &ProcessHandle,
    regions: &[RegionObservation],
) -> io::Result<bool> {
    // Whole regions, so that no huge page is covered in part and split.
    let ranges = joined(regions);
    let mut rest = ranges.as_slice();
    let mut complete = true;
    while !rest.is_empty() {
        match kernel.advise(process, rest, Advice::Cold) {
            Ok(bytes) => {
                let done = whole_ranges(rest, bytes);
                if done == rest.len() {
                    break;
                }
                rest = &rest[done..];
                // The kernel stopped at the first of these; the next call says why.
                if done == 0 {
                    rest = &rest[1..];
                    complete = false;
                }
            }
            Err(error) => match error.raw_os_error() {
                // Unmapped meanwhile, all of it or a part; what is there has been cleared.
                Some(libc::ENOMEM) => rest = &rest[1..],
                Some(libc::EINVAL) => {
                    complete = false;
                    rest = &rest[1..];
                }
                _ => return Err(error),
            },
        }
    }
    Ok(complete)
}

/// The ranges that `regions` make, neighbours joined.
pub(crate) fn joined(regions: &[RegionObservation]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for region in regions {
        let (start, end) = (region.region.start(), region.region.end());
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// How many of the first of `ranges` lie wholly in the first `bytes` of them.
fn whole_ranges(ranges: &[Range<u64>], mut bytes: u64) -> usize {
    ranges
        .iter()
        .take_while(|range| {
            let size = range.end - range.start;
            let whole = size <= bytes;
            bytes = bytes.saturating_sub(size);
            whole
        })
        .count()
}
