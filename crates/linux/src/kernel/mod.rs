//! The boundary: every read and every write of kernel state passes [`Kernel`].
//!
//! [`LiveKernel`] is the kernel this runs on, [`ReadOnly`] refuses every write (dry run). With the feature `fake` there
//! is a scripted kernel for tests, `fake::FakeKernel`. The trait is flat and takes plain data, so that a
//! recorder can wrap it. Two things do not pass it: the BPF walker, because a loaded program is a live object of its own
//! ([`crate::observe::tracker`]), and what a tracker or the calibration does to memory of its own.

pub mod cgroup_namespace;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod live;
pub(crate) mod module;
pub(crate) mod own_memory;
mod read_only;
pub(crate) mod sys;

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel::module::ModuleRequest;

pub use live::LiveKernel;
pub use read_only::{ReadOnly, Refused};
pub use sys::give_back_freed_memory;

/// A process held by pidfd, so that a pid used again is never mistaken for it.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: u32,
    fd: Option<OwnedFd>,
}

impl ProcessHandle {
    /// A handle on `pid`; `fd` is its pidfd on a live kernel, nothing on any other.
    #[must_use]
    pub fn new(pid: u32, fd: Option<OwnedFd>) -> Self {
        ProcessHandle { pid, fd }
    }

    /// The pid it was opened for.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its pidfd, if it comes from a live kernel.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

/// A kernel file kept open for reading at offsets (`/proc/PID/pagemap`, `/proc/kpageflags`).
#[derive(Debug)]
pub struct FileHandle {
    path: PathBuf,
    fd: Option<OwnedFd>,
}

impl FileHandle {
    /// A handle on `path`; `fd` is the open file on a live kernel, nothing on any other.
    #[must_use]
    pub fn new(path: PathBuf, fd: Option<OwnedFd>) -> Self {
        FileHandle { path, fd }
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its file descriptor, if it comes from a live kernel.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

/// Advice that changes how another process's memory is mapped, never what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// `MADV_COLLAPSE` (6.1): replace base pages by huge pages, now.
    Collapse,
    /// `MADV_COLD`: clear Accessed bits and deactivate; on a part of a huge page, split it first.
    Cold,
}

/// Which categories a page has, and `PAGEMAP_SCAN`'s masks over them (`PAGE_IS_*` in `linux/fs.h`).
pub mod category {
    /// The page has userfaultfd write protection enabled.
    pub const WRITE_PROTECT_ALLOWED: u64 = 1 << 0;
    /// The page was written since it was write-protected.
    pub const WRITTEN: u64 = 1 << 1;
    /// The page is file-backed or shared.
    pub const FILE: u64 = 1 << 2;
    /// The page is in memory.
    pub const PRESENT: u64 = 1 << 3;
    /// The page is in swap.
    pub const SWAPPED: u64 = 1 << 4;
    /// The page is the shared page of zeros.
    pub const ZERO_PAGE: u64 = 1 << 5;
    /// A huge page maps it.
    pub const HUGE: u64 = 1 << 6;
    /// The page is marked soft-dirty.
    pub const SOFT_DIRTY: u64 = 1 << 7;
}

/// One `PAGEMAP_SCAN` (6.7): which addresses, which pages to report, and which categories to report of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagemapScan {
    /// Addresses to scan, page-aligned.
    pub range: Range<u64>,
    /// Report pages with any of these categories; 0 for all pages.
    pub any_of: u64,
    /// The categories to tell apart; neighbours with the same ones come as one range.
    pub report: u64,
}

/// Neighbouring pages with the same categories ([`category`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// Their addresses.
    pub range: Range<u64>,
    /// Their categories, of those asked for.
    pub categories: u64,
}

/// Transparent huge pages of a process, as `prctl(PR_SET_THP_DISABLE)` sets them. Children inherit it, over
/// `execve` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpDisable {
    /// The global mode decides.
    Enabled,
    /// No huge pages at all; remote collapse fails too.
    Disabled,
    /// None but where `madvise` asks (6.18): faults take base pages, collapse works.
    ExceptAdvised,
}

/// Reads and writes of kernel state. Errors are the kernel's own error numbers. A boundary that does not write answers
/// writes with [`Refused`].
pub trait Kernel: Send + Sync {
    /// The whole content of a file.
    ///
    /// # Errors
    /// As `open` and `read`.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// As `opendir` and `readdir`.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// What a symbolic link points to.
    ///
    /// # Errors
    /// As `readlink`.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;

    /// Opens a file for [`Kernel::read_at`], [`Kernel::pagemap_scan`] and [`Kernel::ask_module`].
    ///
    /// # Errors
    /// As `open`.
    fn open(&self, path: &Path) -> io::Result<FileHandle>;

    /// Reads from an offset; returns the number of bytes read, 0 at the end.
    ///
    /// # Errors
    /// As `pread`.
    fn read_at(&self, file: &FileHandle, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Scans a range of `/proc/PID/pagemap` for page categories, appending to `found`.
    ///
    /// # Errors
    /// As the ioctl; `ENOTTY` before 6.7.
    fn pagemap_scan(
        &self,
        pagemap: &FileHandle,
        scan: &PagemapScan,
        found: &mut Vec<PageRange>,
    ) -> io::Result<()>;

    /// Writes a kernel file (sysfs, procfs) in one `write`.
    ///
    /// # Errors
    /// As `open` and `write`, or [`Refused`].
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Writes a kernel file at an offset, in one `write` (`/sys/kernel/mm/page_idle/bitmap`).
    ///
    /// # Errors
    /// As `open` and `pwrite`, or [`Refused`].
    fn write_at(&self, path: &Path, content: &[u8], offset: u64) -> io::Result<()>;

    /// Takes hold of a process.
    ///
    /// # Errors
    /// As `pidfd_open`: `ESRCH` when it is gone.
    fn open_process(&self, pid: u32) -> io::Result<ProcessHandle>;

    /// `process_madvise` over `ranges`, which are page-aligned. Returns the bytes advised, which may be fewer
    /// than asked.
    ///
    /// # Errors
    /// As `process_madvise` where nothing was advised, or [`Refused`].
    fn advise(
        &self,
        process: &ProcessHandle,
        ranges: &[Range<u64>],
        advice: Advice,
    ) -> io::Result<u64>;

    /// Reads memory of a process; returns the number of bytes read, fewer than asked where the memory ends.
    ///
    /// # Errors
    /// As `process_vm_readv`.
    fn read_memory(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The calling process's own setting of transparent huge pages.
    ///
    /// # Errors
    /// As `prctl`.
    fn thp_disable(&self) -> io::Result<ThpDisable>;

    /// Changes the calling process's own setting of transparent huge pages.
    ///
    /// # Errors
    /// As `prctl`: `EINVAL` where the kernel does not know it; or [`Refused`].
    fn set_thp_disable(&self, setting: ThpDisable) -> io::Result<()>;

    /// Major and minor number of the kernel's own tmpfs. Shared anonymous memory, memfd and System V shared memory lie
    /// there.
    ///
    /// # Errors
    /// As `memfd_create`.
    fn shmem_device(&self) -> io::Result<(u32, u32)>;

    /// Time since boot, never going backwards (`CLOCK_MONOTONIC`).
    fn now(&self) -> Duration;

    /// CPU time this process has used (`CLOCK_PROCESS_CPUTIME_ID`).
    fn cpu_time(&self) -> Duration;

    /// CPU time this thread has used (`CLOCK_THREAD_CPUTIME_ID`): what a piece of work took, whatever other threads do
    /// meanwhile.
    fn thread_cpu_time(&self) -> Duration;

    /// CPU time that a process has used, all its threads together. What a thread used since its last scheduler tick may be
    /// missing, 10 ms at most.
    ///
    /// # Errors
    /// As `clock_gettime`: `EINVAL` when it is gone.
    fn cpu_time_of(&self, pid: u32) -> io::Result<Duration>;

    /// Waits, and a few microseconds at most longer where the CPU is free.
    fn sleep(&self, time: Duration);

    /// Maps `count` huge pages into this process, touches each, and gives them back; returns how long touching them took.
    /// Where no block is free some are base pages. Nothing but their backing by a hypervisor is another afterwards.
    ///
    /// # Errors
    /// As `mmap` and `madvise`, or [`Refused`].
    fn touch_blocks(&self, count: usize) -> io::Result<Duration>;

    /// Opens, and closes again, the processor's counter of loads that miss the TLB (`perf_event_open`).
    ///
    /// # Errors
    /// As `perf_event_open`: `ENOENT` where the processor, or its hypervisor, has no such counter, as by default.
    fn try_tlb_miss_counter(&self) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// Asks mega.ko, whose `device` is `/dev/mega` opened by [`Kernel::open`].
    ///
    /// # Errors
    /// As the ioctl; [`Refused`] for a request that writes ([`ModuleRequest::writes`]).
    fn ask_module(&self, device: &FileHandle, request: ModuleRequest<'_>) -> io::Result<()>;

    /// Whether this boundary refuses writes.
    fn is_read_only(&self) -> bool {
        false
    }
}
