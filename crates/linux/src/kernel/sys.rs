//! The system calls, and the one setting of the C library, that no library wraps. The other `unsafe` of this crate is the request to mega.ko (`module/ioctl.rs`),
//! the trackers' own memory and the BPF walker.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use linux_raw_sys::general::{page_region, pm_scan_arg};

use super::{Advice, PageRange, PagemapScan, ThpDisable};

const MADV_COLD: libc::c_int = 20;
const MADV_COLLAPSE: libc::c_int = 25;

const PR_SET_THP_DISABLE: libc::c_int = 41;
const PR_GET_THP_DISABLE: libc::c_int = 42;
/// Flag of `PR_SET_THP_DISABLE` since 6.18: leave alone what `madvise` asks for.
const PR_THP_DISABLE_EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = (3 << 30)
    | ((size_of::<pm_scan_arg>() as libc::c_ulong) << 16)
    | ((b'f' as libc::c_ulong) << 8)
    | 16;

/// Ranges fetched by one call; 24 bytes each on the stack.
const SCAN_BATCH: usize = 256;

fn check(result: libc::c_long) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `process_madvise(pidfd, ranges, advice, 0)`: bytes advised.
pub(crate) fn process_madvise(
    pidfd: BorrowedFd<'_>,
    ranges: &[Range<u64>],
    advice: Advice,
) -> io::Result<u64> {
    let vectors: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address(range.start)),
            iov_len: address(range.end.saturating_sub(range.start)),
        })
        .collect();
    let advice = match advice {
        Advice::Collapse => MADV_COLLAPSE,
        Advice::Cold => MADV_COLD,
    };
    // SAFETY: the kernel reads `vectors.len()` iovecs from a live Vec. The addresses in them are the other
    // process's: they are looked up there, never dereferenced here. Neither advice changes what memory holds,
    // so it is harmless to Rust's view of memory even where the process is this one.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            advice,
            0 as libc::c_uint,
        )
    };
    check(result)
}

/// `process_vm_readv` of one piece: bytes read.
pub(crate) fn process_vm_read(pid: u32, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address(at)),
        iov_len: buffer.len(),
    };
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, which is borrowed mutably for the
    // call; any byte is a valid u8. The remote address is only looked up in the other process.
    let result =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

const NO_REGION: page_region = page_region {
    start: 0,
    end: 0,
    categories: 0,
};

/// `PAGEMAP_SCAN` over the whole of `scan.range`, in as many calls as the batch needs.
pub(crate) fn pagemap_scan(
    pagemap: BorrowedFd<'_>,
    scan: &PagemapScan,
    found: &mut Vec<PageRange>,
) -> io::Result<()> {
    let mut batch = [NO_REGION; SCAN_BATCH];
    let mut start = scan.range.start;
    while start < scan.range.end {
        let mut argument = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: 0,
            start,
            end: scan.range.end,
            walk_end: 0,
            vec: batch.as_mut_ptr().addr() as u64,
            vec_len: SCAN_BATCH as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: 0,
            category_anyof_mask: scan.any_of,
            return_mask: scan.report,
        };
        // SAFETY: `argument` is a pm_scan_arg of the size it states; `vec` points to `vec_len` page_regions
        // in `batch`, which nothing else uses during the call. No flag is set, so nothing is write-protected.
        let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        let filled = usize::try_from(check(result.into())?)
            .unwrap_or(SCAN_BATCH)
            .min(SCAN_BATCH);
        found.extend(batch[..filled].iter().map(|region| PageRange {
            range: region.start..region.end,
            categories: region.categories,
        }));
        if argument.walk_end <= start {
            break;
        }
        start = argument.walk_end;
    }
    Ok(())
}

/// `prctl(PR_GET_THP_DISABLE)`.
pub(crate) fn thp_disable() -> io::Result<ThpDisable> {
    // SAFETY: takes integers only and changes nothing.
    let result = unsafe {
        libc::prctl(
            PR_GET_THP_DISABLE,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    Ok(match check(result.into())? {
        0 => ThpDisable::Enabled,
        flags if flags & PR_THP_DISABLE_EXCEPT_ADVISED != 0 => ThpDisable::ExceptAdvised,
        _ => ThpDisable::Disabled,
    })
}

/// `prctl(PR_SET_THP_DISABLE)`. Async-signal-safe: one system call and no allocation.
pub(crate) fn set_thp_disable(setting: ThpDisable) -> io::Result<()> {
    let (disable, flags): (libc::c_ulong, libc::c_ulong) = match setting {
        ThpDisable::Enabled => (0, 0),
        ThpDisable::Disabled => (1, 0),
        ThpDisable::ExceptAdvised => (1, PR_THP_DISABLE_EXCEPT_ADVISED),
    };
    // SAFETY: takes integers only, and decides only which page sizes later faults of this process take.
    let result = unsafe {
        libc::prctl(
            PR_SET_THP_DISABLE,
            disable,
            flags,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    check(result.into()).map(drop)
}

/// The first version of `struct perf_event_attr` of `linux/perf_event.h`, which every kernel still takes.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// `perf_event_open` of this process's loads that miss the data TLB, user mode only, not counting yet.
pub(crate) fn open_tlb_miss_counter() -> io::Result<OwnedFd> {
    const HARDWARE_CACHE: u32 = 3;
    /// `PERF_COUNT_HW_CACHE_DTLB`, its loads (0) that miss (1 << 16).
    const DATA_TLB_LOAD_MISSES: u64 = 3 | 1 << 16;
    /// The bits `disabled`, `exclude_kernel` and `exclude_hv`.
    const DISABLED_AND_USER_MODE: u64 = 1 | 1 << 5 | 1 << 6;
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    #[allow(clippy::cast_possible_truncation)] // 64
    let size = size_of::<PerfEventAttr>() as u32;
    let attributes = PerfEventAttr {
        kind: HARDWARE_CACHE,
        size,
        config: DATA_TLB_LOAD_MISSES,
        flags: DISABLED_AND_USER_MODE,
        ..PerfEventAttr::default()
    };
    let (this_process, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `attributes`, of the size that it states, during the call only. The event counts nothing
    // before someone enables it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_process,
            any_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let fd = i32::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs `set_thp_disable(setting)` in the child of `command`, between fork and exec.
pub(crate) fn set_thp_disable_in_child(command: &mut std::process::Command, setting: ThpDisable) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only async-signal-safe functions may run; the closure makes one prctl
    // system call and takes no lock. An `io::Error` from an errno does not allocate.
    unsafe {
        command.pre_exec(move || set_thp_disable(setting));
    }
}

/// An address or length as the machine's word. Only 64-bit kernels have what this crate needs.
fn address(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The least size, in bytes, of an allocation that gets pages of its own: glibc's default, which it raises with each such
/// allocation that is freed.
#[cfg(target_env = "gnu")]
const OWN_PAGES_FROM: libc::c_int = 128 << 10;

/// Has allocations of 128 KiB and more given back to the kernel as soon as they are freed, for as long as this process lives.
///
/// glibc keeps what is freed of them, up to 32 MiB each, for the next one. A daemon with thousands of processes makes and frees
/// lists of that size at each step, among small ones that stay: with 7,000 processes that was 6 of its 36 MiB. Does nothing
/// with another C library.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and changes a setting of the allocator under its own lock; no memory in use is touched.
    // It can only refuse the number, and then nothing changes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES_FROM);
    }
}
