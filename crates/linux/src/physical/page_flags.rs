//! `/proc/kpageflags`: what is in each frame, as far as user space can see it. Root only.

use std::ops::Range;
use std::path::Path;

use mega_core::PageSize;
use mega_core::compaction::{Block, BlockObservation, PAGES_PER_BLOCK};

use crate::Error;
use crate::kernel::{FileHandle, Kernel};

/// The bits of `/proc/kpageflags` that are used (`Documentation/admin-guide/mm/pagemap.rst`).
mod flag {
    /// On a list of the kernel's reclaim.
    pub(super) const LRU: u64 = 1 << 5;
    /// Kernel objects.
    pub(super) const SLAB: u64 = 1 << 7;
    /// In the buddy allocator.
    pub(super) const BUDDY: u64 = 1 << 10;
    /// Anonymous memory.
    pub(super) const ANON: u64 = 1 << 12;
    /// A part of a larger page, not its first.
    pub(super) const COMPOUND_TAIL: u64 = 1 << 16;
    /// hugetlb.
    pub(super) const HUGE: u64 = 1 << 17;
    /// Broken.
    pub(super) const HWPOISON: u64 = 1 << 19;
    /// No memory there.
    pub(super) const NOPAGE: u64 = 1 << 20;
    /// A transparent huge page.
    pub(super) const THP: u64 = 1 << 22;
    /// Logically offline (ballooned).
    pub(super) const OFFLINE: u64 = 1 << 23;
    /// The page of zeros.
    pub(super) const ZERO_PAGE: u64 = 1 << 24;
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Absent,
    Free,
    Movable,
    Unmovable,
}

impl Use {
    /// By the flags of a page's first frame, or of a base page.
    ///
    /// Anything that is neither free, nor anonymous, nor on a reclaim list counts as unmovable. So does
    /// hugetlb: the kernel can move it, but somebody reserved it.
    fn of(flags: u64) -> Self {
        const NEVER_MOVED: u64 =
            flag::SLAB | flag::HUGE | flag::HWPOISON | flag::OFFLINE | flag::ZERO_PAGE;
        if flags & flag::NOPAGE != 0 {
            Use::Absent
        } else if flags & flag::BUDDY != 0 {
            Use::Free
        } else if flags & NEVER_MOVED == 0 && flags & (flag::LRU | flag::ANON) != 0 {
            Use::Movable
        } else {
            Use::Unmovable
        }
    }
}

/// The file, opened.
#[derive(Debug)]
pub struct PageFlags {
    file: FileHandle,
}

const PATH: &str = "/proc/kpageflags";
/// Blocks read at a time: 256 KiB.
const BATCH: usize = 64;
/// Bytes of flags of one block.
const BLOCK_BYTES: usize = PAGES_PER_BLOCK as usize * 8;

impl PageFlags {
    /// Opens it.
    ///
    /// # Errors
    /// [`Error::Missing`] where the kernel does not have it or the privilege is missing.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, Error> {
        let path = Path::new(PATH);
        let file = kernel
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => Error::Missing {
                    feature: format!("the privilege to read {PATH}"),
                    remedy: "run as root (it needs CAP_SYS_ADMIN)".to_owned(),
                },
                Some(libc::ENOENT) => Error::Missing {
                    feature: PATH.to_owned(),
                    remedy: "boot a kernel built with CONFIG_PROC_PAGE_MONITOR=y, as Debian's are"
                        .to_owned(),
                },
                _ => Error::io("open", path)(error),
            })?;
        Ok(PageFlags { file })
    }

    /// The blocks of `frames`, which begin and end at a block's edge, in order. Blocks without memory are
    /// left out. `progress` is told after each batch how many frames were read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn blocks(
        &self,
        kernel: &dyn Kernel,
        frames: Range<u64>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<BlockObservation>, Error> {
        let mut observations = Vec::new();
        let mut counter = Counter::default();
        let mut buffer = vec![0; BATCH * BLOCK_BYTES];
        let mut pfn = frames.start;
        while pfn < frames.end {
            let left = usize::try_from(frames.end - pfn).unwrap_or(usize::MAX);
            let wanted = left.saturating_mul(8).min(buffer.len());
            let Some(batch) = buffer.get_mut(..wanted) else {
                break;
            };
            let read = read_fully(kernel, &self.file, batch, pfn.saturating_mul(8))
                .map_err(Error::io("read", Path::new(PATH)))?;
            let Some(batch) = batch.get(..read) else {
                break;
            };
            for flags in batch.chunks(BLOCK_BYTES) {
                let block = counter.count(Block::containing(pfn), flags);
                if block.absent() < PAGES_PER_BLOCK {
                    observations.push(block);
                }
                pfn = pfn.saturating_add(PAGES_PER_BLOCK.into());
            }
            progress(pfn.saturating_sub(frames.start));
            if read < wanted {
                break; // the end of memory
            }
        }
        Ok(observations)
    }
}

/// Fills `buffer` as far as the file goes.
fn read_fully(
    kernel: &dyn Kernel,
    file: &FileHandle,
    buffer: &mut [u8],
    offset: u64,
) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match kernel.read_at(file, rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Counts frames by their use, block after block. A part of a larger page counts as that page does.
#[derive(Debug, Default)]
struct Counter {
    /// The flags of the last frame that was not a part of a larger page.
    head: u64,
    /// Frames since then, itself included.
    length: u64,
}

impl Counter {
    /// Counts the flags of one block, 8 bytes each. Frames missing at the end are absent.
    fn count(&mut self, block: Block, flags: &[u8]) -> BlockObservation {
        let mut observation = BlockObservation {
            free: 0,
            ..BlockObservation::free(block)
        };
        for word in flags.chunks_exact(8) {
            let flags = word.try_into().map_or(0, u64::from_ne_bytes);
            match self.page_use(flags) {
                Use::Absent => {}
                Use::Free => observation.free += 1,
                Use::Movable => observation.movable += 1,
                Use::Unmovable => observation.unmovable += 1,
            }
            observation.page_size = observation.page_size.max(self.page_size());
        }
        observation
    }

    fn page_use(&mut self, flags: u64) -> Use {
        if flags & flag::COMPOUND_TAIL == 0 {
            (self.head, self.length) = (flags, 1);
        } else {
            self.length += 1;
        }
        Use::of(self.head)
    }

    /// The size of the page that the last frame belongs to. It is known for sure only at the page's end.
    fn page_size(&self) -> PageSize {
        let pages = self.length * mega_core::BASE_PAGE_SIZE;
        if self.head & (flag::THP | flag::HUGE) == 0 || pages < PageSize::Huge.bytes() {
            PageSize::Base
        } else if pages > PageSize::Huge.bytes() {
            PageSize::Giant
        } else {
            PageSize::Huge
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: u64 = 1 << 15;

    fn count(frames: &[u64]) -> BlockObservation {
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|flags| flags.to_ne_bytes())
            .collect();
        Counter::default().count(Block::containing(0), &bytes)
    }

    #[test]
    fn each_frame_is_counted_by_its_use() {
        let mut frames = vec![flag::BUDDY; 100];
        frames.extend([flag::LRU; 50]);
        frames.extend([flag::ANON; 7]);
        frames.extend([flag::NOPAGE; 5]);
        frames.extend([0; 300]); // the kernel's own pages have no flags
        frames.extend([flag::SLAB | flag::LRU; 50]);
        let block = count(&frames);
        assert_eq!(
            (block.free, block.movable, block.unmovable, block.absent()),
            (100, 57, 350, 5)
        );
        assert_eq!(block.page_size, PageSize::Base);
    }

    #[test]
    fn a_tail_is_what_its_head_is() {
        // Before 6.9 the tails of a page do not repeat its flags.
        let mut frames = vec![flag::LRU | flag::THP | HEAD];
        frames.extend([flag::COMPOUND_TAIL; 511]);
        let block = count(&frames);
        assert_eq!(
            (block.movable, block.unmovable, block.page_size),
            (512, 0, PageSize::Huge)
        );

        frames[0] = HEAD;
        assert_eq!(count(&frames).unmovable, 512);
    }

    #[test]
    fn a_giant_page_is_known_as_one_from_its_second_block() {
        let mut counter = Counter::default();
        let bytes = |head: bool| -> Vec<u8> {
            let first = if head {
                HEAD | flag::HUGE
            } else {
                flag::COMPOUND_TAIL | flag::HUGE
            };
            let rest = std::iter::repeat_n(flag::COMPOUND_TAIL | flag::HUGE, 511);
            std::iter::once(first)
                .chain(rest)
                .flat_map(u64::to_ne_bytes)
                .collect()
        };
        assert_eq!(
            counter.count(Block::containing(0), &bytes(true)).page_size,
            PageSize::Huge
        );
        let second = counter.count(Block::containing(512), &bytes(false));
        assert_eq!((second.page_size, second.unmovable), (PageSize::Giant, 512));
    }

    proptest! {
        #[test]
        fn every_frame_is_counted_once(frames in prop::collection::vec(any::<u64>(), 0..=512)) {
            let block = count(&frames);
            let nowhere = frames.len() < 512;
            let sum = block.free + block.movable + block.unmovable + block.absent();
            prop_assert_eq!(sum, 512);
            prop_assert!(!nowhere || usize::from(block.absent()) >= 512 - frames.len());
        }
    }
}
