//! `/proc/PID/pagemap`: one 64-bit entry for each base page of an address space, and `/proc/kpageflags`, one
//! 64-bit word for each physical page.

use std::io;
use std::ops::Range;
use std::path::Path;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, Region};

use super::TrackError;
use crate::kernel::{FileHandle, Kernel};

/// Entries of one region.
pub(crate) const ENTRIES: usize = PAGES_PER_REGION as usize;
/// Regions read by one call: 128 KiB of entries.
const REGIONS_PER_READ: u64 = 32;

/// One entry (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// Whether a physical page is mapped; the shared page of zeros counts here.
    pub(crate) fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    /// Whether the page is in swap. What is under migration looks nearly the same: the type, which is there where frame
    /// numbers are shown, is then none of a swap area's (as in walk.bpf.c).
    pub(crate) fn is_swapped(self) -> bool {
        const FIRST_TYPE_OF_NO_SWAP: u64 = 23;
        self.0 >> 62 & 3 == 1 && self.0 & 31 < FIRST_TYPE_OF_NO_SWAP
    }

    /// Whether another process maps a private page too, since a fork. The shared page of zeros counts here.
    pub(crate) fn is_private_and_shared(self) -> bool {
        let is_file_or_shared_memory = self.0 >> 61 & 1 == 1;
        let is_mapped_once = self.0 >> 56 & 1 == 1;
        self.is_present() && !is_file_or_shared_memory && !is_mapped_once
    }

    /// The physical page's frame number; `None` when absent, or hidden for lack of `CAP_SYS_ADMIN`.
    pub(crate) fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.is_present() && frame != 0).then_some(frame)
    }
}

/// Opens the pagemap of a process, by pid or `self`.
///
/// # Errors
/// As `open`.
pub(crate) fn open(kernel: &dyn Kernel, process: &str) -> io::Result<FileHandle> {
    kernel.open(Path::new(&format!("/proc/{process}/pagemap")))
}

/// Opens the pagemap of the process to be tracked.
///
/// # Errors
/// [`TrackError::Gone`], or refused.
pub(super) fn open_target(kernel: &dyn Kernel, pid: u32) -> Result<FileHandle, TrackError> {
    open(kernel, &pid.to_string()).map_err(|error| failed(pid, "open pagemap", error))
}

/// What a failed access to the pagemap of a process means. Once its memory map is gone the file reads as
/// empty.
pub(super) fn failed(pid: u32, attempted: &'static str, error: io::Error) -> TrackError {
    let gone = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH));
    if gone || error.kind() == io::ErrorKind::UnexpectedEof {
        TrackError::Gone { pid }
    } else {
        TrackError::Refused {
            attempted,
            pid,
            error,
        }
    }
}

/// Reads the entries of the base pages from `address` on into `entries`.
///
/// # Errors
/// As `pread`; `UnexpectedEof` when the address space ends before.
pub(crate) fn read(
    kernel: &dyn Kernel,
    pagemap: &FileHandle,
    address: u64,
    entries: &mut [Entry],
) -> io::Result<()> {
    let mut bytes = vec![0; entries.len() * 8];
    read_exactly(kernel, pagemap, address / BASE_PAGE_SIZE * 8, &mut bytes)?;
    for (entry, word) in entries.iter_mut().zip(words(&bytes)) {
        *entry = Entry(word);
    }
    Ok(())
}

/// Calls `each` with the entries of every region in `ranges`, which are whole regions.
///
/// # Errors
/// As [`read`].
pub(super) fn for_each_region(
    kernel: &dyn Kernel,
    pagemap: &FileHandle,
    ranges: &[Range<u64>],
    mut each: impl FnMut(Region, &[Entry; ENTRIES]) -> io::Result<()>,
) -> io::Result<()> {
    let mut entries = Vec::new();
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + REGIONS_PER_READ * HUGE_PAGE_SIZE);
            let count =
                usize::try_from((end - start) / BASE_PAGE_SIZE).map_err(io::Error::other)?;
            entries.resize(count, Entry::default());
            read(kernel, pagemap, start, &mut entries)?;
            let whole = entries
                .chunks_exact(ENTRIES)
                .filter_map(|chunk| chunk.try_into().ok());
            for (region, entries) in Region::wholly_inside(start, end).zip(whole) {
                each(region, entries)?;
            }
            start = end;
        }
    }
    Ok(())
}

/// The first of 512 neighbouring frames that could be one huge page: aligned, in order, none missing.
pub(super) fn aligned_run(entries: &[Entry; ENTRIES]) -> Option<u64> {
    let first = entries[0].frame()?;
    let in_order = entries
        .iter()
        .zip(first..)
        .all(|(entry, frame)| entry.frame() == Some(frame));
    (in_order && first % u64::from(PAGES_PER_REGION) == 0).then_some(first)
}

/// Flags of one physical page (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageFlags(pub(super) u64);

impl PageFlags {
    /// The bit of the first page of a compound page.
    pub(super) const HEAD: u64 = 1 << 15;
    /// The bit of a page after the first of a compound page.
    pub(super) const TAIL: u64 = 1 << 16;

    pub(super) fn is_tail(self) -> bool {
        self.0 & Self::TAIL != 0
    }

    /// Whether it is one of several pages that are one.
    pub(super) fn is_compound(self) -> bool {
        self.0 & (Self::HEAD | Self::TAIL) != 0
    }
}

/// `/proc/kpageflags`.
pub(super) struct KernelPageFlags {
    file: FileHandle,
}

impl KernelPageFlags {
    /// Opens it; root only.
    ///
    /// # Errors
    /// As `open`.
    pub(super) fn open(kernel: &dyn Kernel) -> io::Result<KernelPageFlags> {
        Ok(KernelPageFlags {
            file: kernel.open(Path::new("/proc/kpageflags"))?,
        })
    }

    /// The flags of `count` physical pages from `first` on.
    ///
    /// # Errors
    /// As `pread`.
    pub(super) fn of_run(
        &self,
        kernel: &dyn Kernel,
        first: u64,
        count: usize,
    ) -> io::Result<Vec<PageFlags>> {
        let mut bytes = vec![0; count * 8];
        read_exactly(kernel, &self.file, first.saturating_mul(8), &mut bytes)?;
        Ok(words(&bytes).map(PageFlags).collect())
    }

    /// The flags of one physical page.
    ///
    /// # Errors
    /// As `pread`.
    pub(super) fn of(&self, kernel: &dyn Kernel, frame: u64) -> io::Result<PageFlags> {
        let mut bytes = [0; 8];
        read_exactly(kernel, &self.file, frame.saturating_mul(8), &mut bytes)?;
        Ok(PageFlags(u64::from_ne_bytes(bytes)))
    }

    /// Whether the 512 frames from `first` on, which is aligned, are one compound page. A smaller compound
    /// page is aligned to its size, so in the middle there would be the first of another.
    ///
    /// # Errors
    /// As `pread`.
    pub(super) fn is_huge(&self, kernel: &dyn Kernel, first: u64) -> io::Result<bool> {
        Ok(self
            .of(kernel, first + u64::from(PAGES_PER_REGION) / 2)?
            .is_tail())
    }
}

/// Fills `buffer` from `offset` on.
///
/// # Errors
/// As `pread`; `UnexpectedEof` when the file ends before.
pub(super) fn read_exactly(
    kernel: &dyn Kernel,
    file: &FileHandle,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match kernel.read_at(file, rest, offset + filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}

/// The 64-bit words in `bytes`, as the kernel's files hold them.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(8)
        .filter_map(|chunk| Some(u64::from_ne_bytes(chunk.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENT: u64 = 1 << 63;

    #[test]
    fn a_frame_is_known_only_of_a_present_page() {
        assert_eq!(Entry(PRESENT | 42).frame(), Some(42));
        assert_eq!(Entry(PRESENT).frame(), None, "hidden");
        assert_eq!(Entry(1 << 62 | 42).frame(), None, "on swap");
        assert!(Entry(PRESENT).is_present());
        assert!(Entry(1 << 62 | 42 << 5).is_swapped());
        assert!(
            !Entry(1 << 62 | 42 << 5 | 28).is_swapped(),
            "under migration"
        );
        assert!(!Entry(PRESENT | 42 << 5).is_swapped() && !Entry(0).is_swapped());
    }

    #[test]
    fn an_aligned_run_has_every_frame_in_order() {
        let mut entries = std::array::from_fn(|index| Entry(PRESENT | (1024 + index as u64)));
        assert_eq!(aligned_run(&entries), Some(1024));
        entries[300] = Entry(PRESENT | 7);
        assert_eq!(aligned_run(&entries), None);
        let unaligned = std::array::from_fn(|index| Entry(PRESENT | (1025 + index as u64)));
        assert_eq!(aligned_run(&unaligned), None);
    }
}
