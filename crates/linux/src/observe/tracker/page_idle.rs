//! The `page_idle` tracker: asks the kernel's idle page tracking whether each physical page was used
//! (Documentation/admin-guide/mm/idle_page_tracking.rst). This is what the MEGA paper used.
//!
//! The kernel keeps one idle flag for each physical page on an LRU list; it is set here and cleared by any
//! use. To read the flag of a page the kernel looks at all its mappings, so this costs far more than reading page
//! tables. It also clears their Accessed bits, and remembers them in flags of its own for itself and for reclaim. A page
//! that processes share counts as accessed for all of them. A page that was touched a moment ago and is not on an LRU
//! list yet cannot be marked idle: it counts as accessed. All pages of a compound page share the flag of its first page;
//! where they lie in two regions, only the lower one counts them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use mega_core::{PAGES_PER_REGION, PageSize, Region, RegionObservation};

use super::finish::finish;
use super::pagemap::{self, ENTRIES, Entry, KernelPageFlags};
use super::whole::{USER_END, whole_regions};
use super::zero_page::ZeroPages;
use super::{TrackError, TrackedProcess, Tracker, TrackerKind, Unavailable};
use crate::kernel::own_memory::OwnMemory;
use crate::kernel::{FileHandle, Kernel};

const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";

/// The largest compound page looked for behind a tail page, as a power of two of base pages: 2 MiB.
const LARGEST_ORDER: u32 = 9;

/// Looks at idle flags, and sets them again.
pub struct PageIdleTracker {
    kernel: Arc<dyn Kernel>,
    bitmap: FileHandle,
    flags: KernelPageFlags,
    zero: ZeroPages,
    /// Whether what is looked at is marked idle again.
    marks: bool,
}

impl PageIdleTracker {
    /// Opens the files it needs.
    ///
    /// # Errors
    /// Which file is missing or not readable, and what to do.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<PageIdleTracker, Unavailable> {
        let bitmap = kernel
            .open(Path::new(BITMAP))
            .map_err(|error| Unavailable::File {
                path: BITMAP,
                error,
                remedy: ": boot a kernel with CONFIG_IDLE_PAGE_TRACKING=y, and run as root",
            })?;
        if kernel.is_read_only() {
            return Err(Unavailable::WouldWrite);
        }
        let as_root = ": run as root";
        let flags = KernelPageFlags::open(&*kernel).map_err(|error| Unavailable::File {
            path: "/proc/kpageflags",
            error,
            remedy: as_root,
        })?;
        let pagemap = |error| Unavailable::File {
            path: "/proc/self/pagemap",
            error,
            remedy: as_root,
        };
        if !frames_are_shown(&*kernel).map_err(pagemap)? {
            return Err(pagemap(io::Error::other(
                "it hides the numbers of physical pages",
            )));
        }
        let zero = ZeroPages::find(&*kernel).map_err(pagemap)?;
        Ok(PageIdleTracker {
            kernel,
            bitmap,
            flags,
            zero,
            marks: true,
        })
    }

    fn look(
        &self,
        region: Region,
        entries: &[Entry; ENTRIES],
    ) -> io::Result<Option<RegionObservation>> {
        let frames: Vec<u64> = entries
            .iter()
            .filter_map(|entry| entry.frame())
            .filter(|frame| !self.zero.contains(*frame))
            .collect();
        if frames.is_empty() {
            return Ok(None);
        }
        let huge = match pagemap::aligned_run(entries) {
            Some(first) => self.flags.is_huge(&*self.kernel, first)?,
            None => false,
        };
        let marked = if huge {
            frames.iter().take(1).copied().collect()
        } else {
            frames.clone()
        };
        let accessed = self.accessed(marked)?;
        Ok(Some(RegionObservation {
            region,
            mapped: count(frames.len()),
            accessed: if huge {
                accessed * PAGES_PER_REGION
            } else {
                accessed
            },
            page_size: if huge { PageSize::Huge } else { PageSize::Base },
            zero_filled: None,
            swapped: count(entries.iter().filter(|entry| entry.is_swapped()).count()),
        }))
    }

    /// How many of the pages were used since they were last marked idle. Marks them idle again, unless it is to peek.
    fn accessed(&self, mut frames: Vec<u64>) -> io::Result<u16> {
        let mut idle = self.read(&Words::of(&frames))?;
        // The bit of a tail page is always 0, whatever its first page's is.
        let mut moved = false;
        for frame in frames.iter_mut().filter(|frame| !idle.contains(**frame)) {
            let head = self.head(*frame)?;
            moved |= head != *frame;
            *frame = head;
        }
        let wanted = Words::of(&frames);
        if moved {
            idle = self.read(&wanted)?;
        }
        let accessed = frames
            .iter()
            .filter(|frame| !idle.contains(**frame))
            .count();
        if self.marks {
            for (offset, bytes) in wanted.runs() {
                self.kernel.write_at(Path::new(BITMAP), &bytes, offset)?;
            }
        }
        Ok(count(accessed))
    }

    fn read(&self, words: &Words) -> io::Result<Words> {
        let mut read = Words::default();
        for (offset, mut bytes) in words.runs() {
            pagemap::read_exactly(&*self.kernel, &self.bitmap, offset, &mut bytes)?;
            read.0.extend((offset / 8..).zip(pagemap::words(&bytes)));
        }
        Ok(read)
    }

    /// The first page of the compound page that `frame` is in, or `frame` itself. Compound pages are aligned
    /// to their size, so the first page is `frame` with some low bits cleared.
    fn head(&self, frame: u64) -> io::Result<u64> {
        for order in 0..=LARGEST_ORDER {
            let candidate = frame >> order << order;
            if !self.flags.of(&*self.kernel, candidate)?.is_tail() {
                return Ok(candidate);
            }
        }
        Ok(frame)
    }
}

impl Tracker for PageIdleTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::PageIdle
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
        let result = pagemap::for_each_region(&*self.kernel, &file, &whole, |region, entries| {
            out.extend(self.look(region, entries)?);
            Ok(())
        })
        .map_err(|error| pagemap::failed(pid, "read idle page flags", error));
        finish(target, result, out)
    }

    fn peek(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        self.marks = false;
        let result = self.scan(target, ranges, out);
        self.marks = true;
        result
    }

    fn clears_itself(&self) -> bool {
        true
    }
}

/// Words of the bitmap, by index: bit `frame % 64` of word `frame / 64` is that frame's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Words(BTreeMap<u64, u64>);

impl Words {
    /// The words with exactly the bits of `frames` set.
    fn of(frames: &[u64]) -> Words {
        let mut words = Words::default();
        for frame in frames {
            *words.0.entry(frame / 64).or_default() |= 1 << (frame % 64);
        }
        words
    }

    fn contains(&self, frame: u64) -> bool {
        self.0
            .get(&(frame / 64))
            .is_some_and(|word| word >> (frame % 64) & 1 == 1)
    }

    /// Neighbouring words together, as the offset in the file and the bytes there. The kernel takes whole
    /// words only.
    fn runs(&self) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (index, word) in &self.0 {
            match runs.last_mut() {
                Some((offset, bytes)) if *offset + bytes.len() as u64 == index * 8 => {
                    bytes.extend(word.to_ne_bytes());
                }
                _ => runs.push((index * 8, word.to_ne_bytes().to_vec())),
            }
        }
        runs
    }
}

fn count(pages: usize) -> u16 {
    u16::try_from(pages)
        .unwrap_or(PAGES_PER_REGION)
        .min(PAGES_PER_REGION)
}

/// Whether pagemap shows frame numbers to this process.
fn frames_are_shown(kernel: &dyn Kernel) -> io::Result<bool> {
    let memory = OwnMemory::new(1)?;
    memory.write(memory.range().start);
    let file = pagemap::open(kernel, "self")?;
    let mut entry = [Entry::default()];
    pagemap::read(kernel, &file, memory.range().start, &mut entry)?;
    Ok(entry.iter().all(|entry| entry.frame().is_some()))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // one range is a list of ranges
mod tests {
    use std::collections::BTreeSet;

    use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, ProcessId};
    use proptest::prelude::*;

    use super::super::fake_memory::{ADDRESS_SPACE, FRAMES, FakeMemory};
    use super::*;

    const PAGES: u64 = PAGES_PER_REGION as u64;
    const HUGE_REGION: u64 = 3;
    const HUGE_FRAME: u64 = 2048;

    /// A machine whose process maps region 3 by a huge page, and `pages` of its first two regions by base
    /// pages on scattered frames, of which those from `compound` on belong to compound pages of 16.
    fn machine(pages: &BTreeSet<u64>, compound: u64) -> FakeMemory {
        let mut memory = FakeMemory::default();
        // Scattered without collision over the 1,024 frames from 4,096 on, by 16 so that compound pages are in
        // one region.
        let frame = |page: u64| 4096 + (page / 16 * 7 % 64) * 16 + page * 5 % 16;
        memory
            .mapped
            .extend(pages.iter().map(|page| (*page, frame(*page))));
        memory
            .mapped
            .extend((0..PAGES).map(|page| (HUGE_REGION * PAGES + page, HUGE_FRAME + page)));
        memory.compound.insert(HUGE_FRAME, 9);
        memory
            .compound
            .extend((compound..5120).step_by(16).map(|head| (head, 4)));
        memory
    }

    fn tracker(memory: &Arc<FakeMemory>) -> PageIdleTracker {
        let kernel: Arc<dyn Kernel> = Arc::<FakeMemory>::clone(memory);
        PageIdleTracker {
            bitmap: kernel.open(Path::new(BITMAP)).unwrap(),
            flags: KernelPageFlags::open(&*kernel).unwrap(),
            zero: ZeroPages::default(),
            kernel,
            marks: true,
        }
    }

    fn scan(tracker: &mut PageIdleTracker) -> Vec<(u64, u16, u16, PageSize)> {
        seen(tracker, PageIdleTracker::scan)
    }

    fn peek(tracker: &mut PageIdleTracker) -> Vec<(u64, u16, u16, PageSize)> {
        seen(tracker, PageIdleTracker::peek)
    }

    type Look = fn(
        &mut PageIdleTracker,
        &TrackedProcess<'_>,
        &[Range<u64>],
        &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError>;

    fn seen(tracker: &mut PageIdleTracker, look: Look) -> Vec<(u64, u16, u16, PageSize)> {
        let handle = tracker.kernel.open_process(42).unwrap();
        let target = TrackedProcess {
            process: ProcessId {
                pid: 42,
                start_time: 0,
            },
            handle: &handle,
        };
        let mut out = Vec::new();
        look(tracker, &target, &[0..ADDRESS_SPACE], &mut out).unwrap();
        out.iter()
            .map(|seen| {
                (
                    seen.region.start() / HUGE_PAGE_SIZE,
                    seen.mapped,
                    seen.accessed,
                    seen.page_size,
                )
            })
            .collect()
    }

    proptest! {
        #[test]
        fn pages_used_since_the_last_scan_are_accessed(
            pages in prop::collection::btree_set(0_u64..2 * PAGES, 0..300),
            used in prop::collection::btree_set(0_u64..2 * PAGES, 0..300),
            compound in (256_u64..=320).prop_map(|head| head * 16),
            use_huge: bool,
        ) {
            let memory = Arc::new(machine(&pages, compound));
            let mut tracker = tracker(&memory);
            // The first look marks everything idle; before it, all counts as accessed.
            prop_assert!(scan(&mut tracker).iter().all(|(_, mapped, accessed, _)| accessed == mapped));
            prop_assert!(scan(&mut tracker).iter().all(|(_, _, accessed, _)| *accessed == 0));
            memory.access(used.iter().copied());
            memory.access(use_huge.then_some(HUGE_REGION * PAGES + 77));
            let used_heads: BTreeSet<u64> = pages.intersection(&used).map(|page| memory.head(memory.mapped[page])).collect();
            let in_region = |region: u64| pages.range(region * PAGES..(region + 1) * PAGES);
            let mut expected = Vec::new();
            for region in 0..2 {
                let accessed = in_region(region).filter(|page| used_heads.contains(&memory.head(memory.mapped[page]))).count();
                if in_region(region).next().is_some() {
                    expected.push((region, count(in_region(region).count()), count(accessed), PageSize::Base));
                }
            }
            expected.push((HUGE_REGION, 512, if use_huge { 512 } else { 0 }, PageSize::Huge));
            prop_assert_eq!(peek(&mut tracker), expected.clone());
            prop_assert_eq!(peek(&mut tracker), expected.clone(), "to peek marks nothing");
            prop_assert_eq!(scan(&mut tracker), expected);
        }
    }

    #[test]
    fn an_address_space_that_ends_early_is_a_process_gone() {
        let memory = Arc::new(machine(&BTreeSet::new(), FRAMES));
        let mut tracker = tracker(&memory);
        let handle = memory.open_process(42).unwrap();
        let target = TrackedProcess {
            process: ProcessId {
                pid: 42,
                start_time: 0,
            },
            handle: &handle,
        };
        let mut out = Vec::new();
        let result = tracker.scan(
            &target,
            &[0..ADDRESS_SPACE + 1024 * BASE_PAGE_SIZE],
            &mut out,
        );
        assert!(
            matches!(result, Err(TrackError::Gone { pid: 42 })),
            "{result:?}"
        );
        assert_eq!(out, []);
    }

    proptest! {
        #[test]
        fn words_hold_exactly_the_frames(frames in prop::collection::vec(0_u64..5000, 0..200), other in 0_u64..5000) {
            let words = Words::of(&frames);
            prop_assert!(frames.iter().all(|frame| words.contains(*frame)));
            prop_assert_eq!(words.contains(other), frames.contains(&other));
        }

        #[test]
        fn runs_are_whole_words_apart_and_lose_nothing(frames in prop::collection::vec(0_u64..5000, 0..200)) {
            let words = Words::of(&frames);
            let mut again = Words::default();
            let mut end = None;
            for (offset, bytes) in words.runs() {
                prop_assert!(offset % 8 == 0 && bytes.len() % 8 == 0 && !bytes.is_empty());
                prop_assert!(end.is_none_or(|end| offset > end), "neighbours must be one run");
                end = Some(offset + bytes.len() as u64);
                again.0.extend((offset / 8..).zip(pagemap::words(&bytes)));
            }
            prop_assert_eq!(again, words);
        }
    }
}
