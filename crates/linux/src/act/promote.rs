//! Promotion by `MADV_COLLAPSE`.
//!
//! One call over a long range costs less than many over its parts: the kernel drains the per-CPU lists of all CPUs
//! once per call. It takes the mmap lock anew for each region (mm/khugepaged.c, `madvise_collapse`), so the length of
//! a call does not lengthen the hold; a hold is the collapse of one region, mostly its copy, and cannot be
//! shortened from outside.

use std::io;

use mega_core::{Cause, Region};

use crate::kernel::{Advice, Kernel, ProcessHandle};

/// Regions in one call at most: 128 MiB. Calls of this length took no longer per region than one call over all of
/// memory (`cargo bench --bench actions`), and the manager notices within a fraction of a second that it should stop.
pub const LONGEST_CALL: usize = 64;

/// What the kernel said to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Every region is huge now.
    All,
    /// Some are not, the last of them because of this; the rest of the call was tried.
    SomeNot(Cause),
    /// The kernel gave up at one region because of this; regions after it were not tried.
    Stopped(Cause),
}

/// Promotes `count` neighbouring regions from `first` on, at most [`LONGEST_CALL`], in one call.
pub fn promote(
    kernel: &dyn Kernel,
    process: &ProcessHandle,
    first: Region,
    count: usize,
) -> Answer {
    let length = (count as u64).saturating_mul(mega_core::HUGE_PAGE_SIZE);
    let range = first.start()..first.start().saturating_add(length);
    match kernel.advise(process, &[range], Advice::Collapse) {
        Ok(_) => Answer::All,
        Err(error) => answer(&error),
    }
}

/// The kernel's answer by its error number (`madvise_collapse_errno` in mm/khugepaged.c, 6.1 to 6.18).
fn answer(error: &io::Error) -> Answer {
    match error.raw_os_error() {
        // No huge page to be had; or a hole in the range, which looking again tells.
        Some(libc::ENOMEM) => Answer::Stopped(Cause::NoMemory),
        // The memory cgroup refused the charge. Busy pages are EAGAIN.
        Some(libc::EBUSY) => Answer::Stopped(Cause::NoMemory),
        Some(libc::EAGAIN | libc::EINTR) => Answer::SomeNot(Cause::Busy),
        Some(libc::ESRCH) => Answer::Stopped(Cause::Gone),
        Some(libc::EPERM | libc::EACCES) => Answer::Stopped(Cause::NotPermitted),
        // EINVAL: the mapping is not eligible, or holds no page, or is gone. Looking again tells.
        _ => Answer::Stopped(Cause::NotEligible),
    }
}
