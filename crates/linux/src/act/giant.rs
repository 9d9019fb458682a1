//! Giant pages, through `/dev/mega`: maps a span by a giant page, maps it by huge pages again, and gives back its
//! zero-filled huge pages.
//!
//! It takes a kernel with the patches of `kernel/linux-6.12` and the kernel module. The kernel maps the span's own
//! huge pages, side by side in one chunk of physical memory, by a single entry; each stays a huge page of its own,
//! and the kernel goes back to mapping them one by one whenever something is done to a part of the span.

use std::io;
use std::sync::Arc;

use mega_core::{
    BASE_PAGE_SIZE, Cause, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, PageSize, REGIONS_PER_SPAN, Region,
    RegionObservation, Span,
};

use crate::Error;
use crate::kernel::{Kernel, ProcessHandle};
use crate::module::Device;
use crate::module::interface::{self, Demote, FreeZero, Promote, ScanTask};

/// A `page_shift` of the module's: 4 KiB.
const BASE_SHIFT: u8 = 12;
/// A `page_shift` of the module's: 1 GiB.
const GIANT_SHIFT: u8 = 30;

/// How to get a kernel that has giant pages.
pub(crate) const REMEDY: &str = "boot a kernel with the patches of kernel/linux-6.12 and CONFIG_ANON_PUD=y, on a CPU with 1 GiB pages \
     (`pdpe1gb`), and load mega.ko built for it";

/// What the kernel said to a promotion or a demotion. The caller checks whether it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done; these bytes were moved for it.
    Done {
        /// Bytes of huge pages that were copied.
        copied: u64,
        /// Bytes of huge pages that the hypervisor exchanged, so that nothing was copied.
        exchanged: u64,
    },
    /// It was so already.
    AlreadySo,
    /// It is not done.
    Refused(Cause),
}

/// What a search for zero-filled huge pages found, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Huge pages looked at.
    pub looked_at: u64,
    /// Those of them that were zero-filled and are given back.
    pub freed: u64,
    /// Those that were zero-filled and that something else had in use.
    pub busy: u64,
}

/// Makes giant pages, breaks them up, and sees them.
pub struct GiantPages {
    device: Device,
}

impl GiantPages {
    /// Opens the kernel module.
    ///
    /// # Errors
    /// [`Error::Missing`] where it is not loaded, may not be used, or the kernel has no giant pages.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<Self, Error> {
        let device = Device::open(kernel)?;
        if device.info().features & interface::FEATURE_GIANT == 0 {
            return Err(Error::Missing {
                feature: "the kernel's support for transparent 1 GiB pages".to_owned(),
                remedy: REMEDY.to_owned(),
            });
        }
        Ok(GiantPages { device })
    }

    /// Whether a span can be promoted of which base pages map some. Each is copied once, straight to its place.
    #[must_use]
    pub fn can_collapse(&self) -> bool {
        self.device.info().features & interface::FEATURE_COLLAPSE != 0
    }

    /// Maps a span by a giant page. The kernel moves what does not lie in its place, and chooses where. `collapse` says that base
    /// pages may map some of it, where the kernel can do that; as with `MADV_COLLAPSE`, what is swapped out is read then.
    pub fn promote(&mut self, process: &ProcessHandle, span: Span, collapse: bool) -> Answer {
        let mut request = Promote {
            start: span.start(),
            flags: match collapse && self.can_collapse() {
                true => interface::PROMOTE_COLLAPSE,
                false => 0,
            },
            ..Promote::default()
        };
        if let Err(error) = self.device.promote(process, &mut request) {
            return Answer::Refused(cause(&error));
        }
        match request.stop {
            interface::PROMOTE_DONE => Answer::Done {
                copied: bytes(request.moved.saturating_sub(request.exchanged)),
                exchanged: bytes(request.exchanged),
            },
            interface::PROMOTE_ALREADY => Answer::AlreadySo,
            interface::PROMOTE_NOT_ELIGIBLE => Answer::Refused(Cause::NotEligible),
            interface::PROMOTE_NOT_HUGE => Answer::Refused(Cause::NotHuge),
            interface::PROMOTE_NO_CHUNK => Answer::Refused(Cause::NoMemory),
            // Pinned or changing pages; a signal that ends this process. Nothing asked for it to be in place.
            _ => Answer::Refused(Cause::Busy),
        }
    }

    /// Maps a span by huge pages again.
    pub fn demote(&mut self, process: &ProcessHandle, span: Span) -> Answer {
        let mut request = Demote {
            start: span.start(),
            ..Demote::default()
        };
        match self.device.demote(process, &mut request) {
            Err(error) => Answer::Refused(cause(&error)),
            Ok(()) if request.stop == interface::DEMOTE_NOT_GIANT => Answer::AlreadySo,
            Ok(()) => Answer::Done {
                copied: 0,
                exchanged: 0,
            },
        }
    }

    /// Whether the zero-filled huge pages of a span can be given back.
    #[must_use]
    pub fn can_free_zero(&self) -> bool {
        self.device.info().features & interface::FEATURE_FREE_ZERO != 0
    }

    /// Says what is missing where they cannot.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn needs_free_zero(&self) -> Result<(), Error> {
        if self.can_free_zero() {
            return Ok(());
        }
        Err(Error::Missing {
            feature: "giving back the zero-filled huge pages of a span".to_owned(),
            remedy: REMEDY.to_owned(),
        })
    }

    /// Gives back the zero-filled huge pages of a span. Whether it is so is for the caller to see.
    ///
    /// # Errors
    /// The cause why nothing was tried.
    pub fn free_zero(&mut self, process: &ProcessHandle, span: Span) -> Result<Freed, Cause> {
        let mut request = FreeZero {
            start: span.start(),
            ..FreeZero::default()
        };
        self.device
            .free_zero(process, &mut request)
            .map_err(|error| cause(&error))?;
        Ok(Freed {
            looked_at: bytes(request.looked),
            freed: bytes(request.freed),
            busy: bytes(request.busy),
        })
    }

    /// Bytes of the span that are in memory. Clears no Accessed bit.
    ///
    /// # Errors
    /// The cause that any action on the process would fail with.
    pub fn resident(&mut self, process: &ProcessHandle, span: Span) -> Result<u64, Cause> {
        let regions = self.regions(process, span)?;
        let mapped = regions.iter().map(|region| u64::from(region.mapped));
        Ok(mapped.sum::<u64>() * BASE_PAGE_SIZE)
    }

    /// The regions of the span that base pages map. Clears no Accessed bit, and says of none what was accessed.
    ///
    /// # Errors
    /// The cause that any action on the process would fail with.
    pub(crate) fn of_base_pages(
        &mut self,
        process: &ProcessHandle,
        span: Span,
    ) -> Result<Vec<RegionObservation>, Cause> {
        let regions = self.regions(process, span)?;
        let of_base_pages = regions
            .iter()
            .filter(|region| region.page_shift == BASE_SHIFT);
        Ok(of_base_pages
            .map(|region| RegionObservation {
                region: Region::containing(region.address),
                mapped: region.mapped,
                accessed: 0,
                page_size: PageSize::Base,
                zero_filled: None,
                swapped: 0,
            })
            .collect())
    }

    /// Those regions of the span that have something mapped.
    fn regions(
        &mut self,
        process: &ProcessHandle,
        span: Span,
    ) -> Result<Vec<interface::Region>, Cause> {
        let mut regions = vec![interface::Region::default(); REGIONS_PER_SPAN];
        let mut request = ScanTask {
            start: span.start(),
            length: GIANT_PAGE_SIZE,
            ..ScanTask::default()
        };
        self.device
            .scan_task(process, &mut request, &mut regions)
            .map_err(|error| cause(&error))?;
        regions.truncate(usize::try_from(request.count).unwrap_or(usize::MAX));
        Ok(regions)
    }

    /// Whether a giant page maps the span now. Clears no Accessed bit.
    ///
    /// # Errors
    /// The cause that any action on the process would fail with.
    pub fn is_giant(&mut self, process: &ProcessHandle, span: Span) -> Result<bool, Cause> {
        let mut request = ScanTask {
            start: span.start(),
            // Of a giant page one region tells.
            length: HUGE_PAGE_SIZE,
            ..ScanTask::default()
        };
        let mut regions = [interface::Region::default()];
        self.device
            .scan_task(process, &mut request, &mut regions)
            .map_err(|error| cause(&error))?;
        Ok(request.count == 1 && regions[0].page_shift == GIANT_SHIFT)
    }

    /// Corrects what a tracker saw that cannot tell giant pages from huge ones: where huge pages map all of a
    /// span, the module is asked.
    pub(crate) fn mark(&mut self, process: &ProcessHandle, seen: &mut [RegionObservation]) {
        let span_of = |region: &RegionObservation| Span::of(region.region);
        for regions in seen.chunk_by_mut(|left, right| span_of(left) == span_of(right)) {
            let all_huge = regions
                .iter()
                .all(|region| region.page_size == PageSize::Huge);
            let Some(span) = regions.first().map(span_of) else {
                continue;
            };
            if regions.len() == REGIONS_PER_SPAN
                && all_huge
                && self.is_giant(process, span) == Ok(true)
            {
                for region in regions {
                    region.page_size = PageSize::Giant;
                }
            }
        }
    }
}

/// Of this many huge pages.
fn bytes(huge_pages: u32) -> u64 {
    u64::from(huge_pages).saturating_mul(HUGE_PAGE_SIZE)
}

fn cause(error: &io::Error) -> Cause {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Cause::Gone,
        Some(libc::EPERM | libc::EACCES) => Cause::NotPermitted,
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY) => Cause::NotEligible,
        _ => Cause::Busy,
    }
}
