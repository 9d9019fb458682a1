//! Memory of this process's own: for the trackers, the calibration and the doctor to try things on, and to have blocks touched. All
//! their `unsafe` outside the BPF loader is here.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::AtomicU64;

use mega_core::HUGE_PAGE_SIZE;

/// What `madvise` is asked for. None of it changes what the memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// `MADV_HUGEPAGE`
    Huge,
    /// `MADV_NOHUGEPAGE`
    NoHuge,
    /// `MADV_COLLAPSE` (6.1)
    Collapse,
    /// `MADV_COLD`: clears Accessed bits and flushes translations.
    Cold,
}

/// An anonymous private mapping of whole regions.
pub(crate) struct OwnMemory {
    base: *mut libc::c_void,
    length: usize,
    range: Range<u64>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only its one owner uses it.
unsafe impl Send for OwnMemory {}

impl OwnMemory {
    /// Maps `regions` regions, none of whose pages is there yet.
    ///
    /// # Errors
    /// As `mmap`.
    pub(crate) fn new(regions: usize) -> io::Result<OwnMemory> {
        let bytes = regions as u64 * HUGE_PAGE_SIZE;
        // One region more than needed, so that aligned ones fit.
        let length = usize::try_from(bytes + HUGE_PAGE_SIZE).map_err(io::Error::other)?;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = (base.addr() as u64).next_multiple_of(HUGE_PAGE_SIZE);
        Ok(OwnMemory {
            base,
            length,
            range: start..start + bytes,
        })
    }

    /// Its addresses, a multiple of 2 MiB at both ends.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Reads one byte, and so makes its page accessed. `address` must be in range.
    pub(crate) fn read(&self, address: u64) {
        let pointer = self.pointer(address, 1);
        // SAFETY: `pointer` is inside the mapping, which is readable and lives as long as self; no reference
        // into it exists.
        unsafe { pointer.read_volatile() };
    }

    /// Writes one byte, and so gives it a page of its own. `address` must be in range.
    pub(crate) fn write(&self, address: u64) {
        let pointer = self.pointer(address, 1);
        // SAFETY: as in `read`, and the mapping is writable.
        unsafe { pointer.write_volatile(1) };
    }

    /// Its first `bytes` as words, to read them fast. `bytes` must be in range.
    #[allow(clippy::cast_possible_truncation)] // x86-64: usize is u64
    pub(crate) fn words(&self, bytes: u64) -> &[AtomicU64] {
        let pointer = self.pointer(self.range.start, bytes);
        // SAFETY: `bytes` of the mapping lie at `pointer`, aligned to 2 MiB, readable, writable and mapped for as long as
        // self lives, and any content is a valid word. Other accesses by this program are through raw pointers on the one
        // thread that owns self.
        unsafe { std::slice::from_raw_parts(pointer.cast(), bytes as usize / size_of::<u64>()) }
    }

    /// Advises the kernel about `range`, which must be in range.
    ///
    /// # Errors
    /// As `madvise`.
    pub(crate) fn advise(&self, range: Range<u64>, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Huge => libc::MADV_HUGEPAGE,
            Advice::NoHuge => libc::MADV_NOHUGEPAGE,
            Advice::Collapse => libc::MADV_COLLAPSE,
            Advice::Cold => libc::MADV_COLD,
        };
        self.madvise(range, advice)
    }

    /// Gives the pages of `range`, which must be in range, back to the kernel (`MADV_DONTNEED`): it reads as zeros from now on.
    ///
    /// # Errors
    /// As `madvise`.
    pub(crate) fn discard(&self, range: Range<u64>) -> io::Result<()> {
        self.madvise(range, libc::MADV_DONTNEED)
    }

    fn madvise(&self, range: Range<u64>, advice: libc::c_int) -> io::Result<()> {
        let bytes = range.end.saturating_sub(range.start);
        let length = usize::try_from(bytes).map_err(io::Error::other)?;
        let pointer = self.pointer(range.start, bytes);
        // SAFETY: the range is inside the mapping, which stays, and no advice given here but `MADV_DONTNEED` changes its content; who reads
        // that through `words` reads atomic words, of which any content is valid.
        let result = unsafe { libc::madvise(pointer.cast(), length, advice) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// A pointer to `length` bytes of the mapping, which must be in range: a bug here would be one in this file.
    #[allow(clippy::cast_possible_truncation)] // x86-64: usize is u64
    fn pointer(&self, address: u64, length: u64) -> *mut u8 {
        let inside = address >= self.range.start
            && length <= self.range.end - self.range.start
            && address <= self.range.end - length;
        assert!(inside, "{address:#x} is outside of {:#x?}", self.range);
        self.base
            .cast::<u8>()
            .wrapping_add((address - self.base.addr() as u64) as usize)
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this struct's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.base, self.length) };
    }
}

/// The first 2 MiB of a file, mapped as the text of a program is, at an address that a huge page fits.
pub(crate) struct OwnText {
    /// Where it lies. Nothing reads or executes it.
    place: OwnMemory,
}

impl OwnText {
    /// Maps the beginning of `file`, which has to have 2 MiB.
    ///
    /// # Errors
    /// As `mmap`; `EACCES` for a file on a file system without programs (`noexec`).
    pub(crate) fn of(file: &File) -> io::Result<OwnText> {
        let place = OwnMemory::new(1)?;
        let bytes = usize::try_from(HUGE_PAGE_SIZE).map_err(io::Error::other)?;
        let pointer = place.pointer(place.range.start, HUGE_PAGE_SIZE);
        // SAFETY: the range is inside the mapping of `place`, which is this struct's own and to which nothing refers; dropping it
        // unmaps what is put there instead, too.
        let mapped = unsafe {
            libc::mmap(
                pointer.cast(),
                bytes,
                libc::PROT_READ | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            )
        };
        match mapped == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(OwnText { place }),
        }
    }

    /// Its addresses, a multiple of 2 MiB at both ends.
    pub(crate) fn range(&self) -> Range<u64> {
        self.place.range()
    }
}
