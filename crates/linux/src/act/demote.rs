//! Demotion: `MADV_COLD` on one base page of a huge page splits it (mm/madvise.c), without debugfs.
//!
//! The kernel splits only a huge page that this process alone maps; for one shared after `fork` it returns success
//! and does nothing, so every demotion is verified. Zero-filled base pages of a split huge page become the shared
//! page of zeros and are given back (6.12 and newer).

use std::io;
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, Cause, Region};

use crate::kernel::{Advice, Kernel, ProcessHandle};

/// Time one split takes before any was measured (85 us seen on 6.18; up to 512 base pages compared with zero).
const FIRST_ESTIMATE: Duration = Duration::from_micros(150);
/// The kernel takes at most this many ranges in one call.
const MOST_IN_A_CALL: usize = 64;

/// What the kernel said to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How many of the first regions were tried.
    pub tried: usize,
    /// Why the last one tried was refused, if it was.
    pub refused: Option<Cause>,
}

/// Demotes as many of the first of `regions` as fit one hold of the mmap lock of `bound`, at least 1. The
/// kernel holds the lock for reading over a whole call since 6.16, so the call is what is bounded. `per_split` is how
/// long one split took in this process so far, and is brought up to date.
pub fn demote(
    kernel: &dyn Kernel,
    process: &ProcessHandle,
    regions: &[Region],
    bound: Duration,
    per_split: &mut Option<Duration>,
) -> Answer {
    let expected = per_split.unwrap_or(FIRST_ESTIMATE);
    let fitting = bound.as_nanos() / expected.as_nanos().max(1);
    let count = usize::try_from(fitting)
        .unwrap_or(MOST_IN_A_CALL)
        .clamp(1, MOST_IN_A_CALL)
        .min(regions.len());
    let ranges: Vec<_> = regions[..count]
        .iter()
        .map(|region| region.start()..region.start().saturating_add(BASE_PAGE_SIZE))
        .collect();
    let started = kernel.now();
    let result = kernel.advise(process, &ranges, Advice::Cold);
    let took = kernel.now().saturating_sub(started);
    let answer = match result {
        Ok(bytes) => {
            let done = usize::try_from(bytes / BASE_PAGE_SIZE).unwrap_or(count);
            // A call that ends early says why only when the rest is asked for again.
            Answer {
                tried: done.clamp(1, count),
                refused: None,
            }
        }
        Err(error) => Answer {
            tried: 1,
            refused: Some(cause(&error)),
        },
    };
    if answer.refused.is_none() {
        let each = took / u32::try_from(answer.tried).unwrap_or(1).max(1);
        *per_split = Some((expected + each) / 2);
    }
    answer
}

fn cause(error: &io::Error) -> Cause {
    match error.raw_os_error() {
        // The page is not mapped any more.
        Some(libc::ENOMEM | libc::ESRCH) => Cause::Gone,
        Some(libc::EPERM | libc::EACCES) => Cause::NotPermitted,
        Some(libc::EAGAIN | libc::EBUSY | libc::EINTR) => Cause::Busy,
        // Locked memory (`mlock`), PFN maps, hugetlb.
        _ => Cause::NotEligible,
    }
}
