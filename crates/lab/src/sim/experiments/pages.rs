//! Memory of a process that the experiment itself moves, page by page.

use std::ops::Range;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Pid;

use crate::error::Error;
use crate::sim::testbed::Testbed;

/// One mapping.
pub(super) struct Pages {
    pub(super) pid: Pid,
    start: u64,
    /// Base pages.
    pub(super) count: u64,
}

impl Pages {
    /// Maps so much memory and touches nothing.
    pub(super) fn map(bed: &mut Testbed, bytes: u64) -> Self {
        let pid = bed.spawn();
        Pages {
            pid,
            start: bed.machine.kernel_mut().map(pid, bytes, Advice::None),
            count: bytes / BASE_PAGE_SIZE,
        }
    }

    pub(super) fn touch(&self, bed: &mut Testbed, page: u64) -> Result<(), Error> {
        let address = self.start + page * BASE_PAGE_SIZE;
        let touched = bed.machine.kernel_mut().touch(self.pid, address);
        touched.map(|_| ()).map_err(|fault| {
            Error::Failed(format!(
                "simulating the program: {fault}; choose another --scale"
            ))
        })
    }

    /// Gives pages back; those beyond the end are none.
    pub(super) fn free(&self, bed: &mut Testbed, pages: Range<u64>) {
        let end = pages.end.min(self.count);
        let bytes = end.saturating_sub(pages.start) * BASE_PAGE_SIZE;
        let address = self.start + pages.start * BASE_PAGE_SIZE;
        bed.machine.kernel_mut().discard(self.pid, address, bytes);
    }
}
