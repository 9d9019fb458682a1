//! The physical pages of a made-up machine behind the kernel's files, for tests of the trackers that read
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;

use super::pagemap::PageFlags;
use crate::kernel::{
    Advice, FileHandle, Kernel, PageRange, PagemapScan, ProcessHandle, Refused, ThpDisable,
};
use crate::module::ModuleRequest;

/// Frames of memory it has.
pub(super) const FRAMES: u64 = 8192;
/// The end of the address space of its one process.
pub(super) const ADDRESS_SPACE: u64 = 64 << 20;

/// One process, and the physical pages.
#[derive(Default)]
pub(super) struct FakeMemory {
    /// The frame that each virtual page maps.
    pub(super) mapped: BTreeMap<u64, u64>,
    /// The order of the compound page that starts at a frame; other frames are single pages.
    pub(super) compound: BTreeMap<u64, u32>,
    /// First pages of the pages marked idle.
    idle: Mutex<BTreeSet<u64>>,
}

impl FakeMemory {
    /// The first frame of the page that `frame` is in.
    pub(super) fn head(&self, frame: u64) -> u64 {
        match self.compound.range(..=frame).next_back() {
            Some((head, order)) if frame < head + (1 << order) => *head,
            _ => frame,
        }
    }

    /// Uses virtual pages.
    pub(super) fn access(&self, pages: impl IntoIterator<Item = u64>) {
        let mut idle = self.idle.lock().unwrap();
        for frame in pages.into_iter().filter_map(|page| self.mapped.get(&page)) {
            idle.remove(&self.head(*frame));
        }
    }

    fn pagemap(&self, page: u64) -> Option<u64> {
        let entry = self.mapped.get(&page).map_or(0, |frame| 1 << 63 | frame);
        (page < ADDRESS_SPACE / BASE_PAGE_SIZE).then_some(entry)
    }

    fn flags(&self, frame: u64) -> Option<u64> {
        let flags = if self.head(frame) != frame {
            PageFlags::TAIL
        } else if self.compound.contains_key(&frame) {
            PageFlags::HEAD
        } else {
            0
        };
        (frame < FRAMES).then_some(flags)
    }

    fn bitmap(&self, word: u64) -> Option<u64> {
        let idle = self.idle.lock().unwrap();
        let bits = idle
            .range(word * 64..(word + 1) * 64)
            .fold(0, |bits, frame| bits | 1 << (frame % 64));
        (word < FRAMES / 64).then_some(bits)
    }
}

impl Kernel for FakeMemory {
    fn read_at(&self, file: &FileHandle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        assert!(
            offset.is_multiple_of(8) && buffer.len().is_multiple_of(8),
            "the kernel takes whole words only"
        );
        let word = |index| match file.path().to_str() {
            Some("/proc/42/pagemap") => self.pagemap(index),
            Some("/proc/kpageflags") => self.flags(index),
            Some("/sys/kernel/mm/page_idle/bitmap") => self.bitmap(index),
            other => panic!("{other:?} was read"),
        };
        let mut filled = 0;
        for (chunk, index) in buffer.chunks_mut(8).zip(offset / 8..) {
            let Some(word) = word(index) else { break };
            chunk.copy_from_slice(&word.to_ne_bytes());
            filled += 8;
        }
        Ok(filled)
    }

    fn write_at(&self, path: &Path, content: &[u8], offset: u64) -> io::Result<()> {
        assert_eq!(path, Path::new("/sys/kernel/mm/page_idle/bitmap"));
        assert!(
            offset.is_multiple_of(8) && content.len().is_multiple_of(8),
            "the kernel takes whole words only"
        );
        let mut idle = self.idle.lock().unwrap();
        for (word, index) in super::pagemap::words(content).zip(offset / 8..) {
            let frames = (0..64)
                .filter(|bit| word >> bit & 1 == 1)
                .map(|bit| index * 64 + bit);
            // As the kernel, it takes no notice of a bit that is not a first page's.
            idle.extend(frames.filter(|frame| self.head(*frame) == *frame));
        }
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        Ok(FileHandle::new(path.to_owned(), None))
    }

    fn open_process(&self, pid: u32) -> io::Result<ProcessHandle> {
        Ok(ProcessHandle::new(pid, None))
    }

    fn pagemap_scan(
        &self,
        _: &FileHandle,
        _: &PagemapScan,
        _: &mut Vec<PageRange>,
    ) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOTTY))
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<OsString>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read_link(&self, _: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(io::Error::other(Refused))
    }

    fn advise(&self, _: &ProcessHandle, _: &[Range<u64>], _: Advice) -> io::Result<u64> {
        Err(io::Error::other(Refused))
    }

    fn read_memory(&self, _: u32, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other(Refused))
    }

    fn thp_disable(&self) -> io::Result<ThpDisable> {
        Ok(ThpDisable::Enabled)
    }

    fn set_thp_disable(&self, _: ThpDisable) -> io::Result<()> {
        Err(io::Error::other(Refused))
    }

    fn shmem_device(&self) -> io::Result<(u32, u32)> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn ask_module(&self, _: &FileHandle, _: ModuleRequest<'_>) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOTTY))
    }

    fn sleep(&self, _: Duration) {}

    fn touch_blocks(&self, _: usize) -> io::Result<Duration> {
        Err(io::Error::other(Refused))
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn thread_cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn cpu_time_of(&self, _: u32) -> io::Result<Duration> {
        Ok(Duration::ZERO)
    }
}
