//! Physical memory: what is in each block, and emptying chosen blocks.
//!
//! Without the kernel module, [`PhysicalMemory`] reads `/proc/kpageflags` and the zones: free, movable and unmovable pages
//! per block, but neither accesses nor ages. With the module it asks `/dev/mega`. That knows accesses and ages too, counts
//! pinned and per-CPU pages right, and can empty blocks and chunks.

pub mod buddyinfo;
pub mod iomem;
pub mod memory_blocks;
mod module_blocks;
pub mod page_flags;
pub mod pagetypeinfo;
pub mod vmstat;
pub mod zoneinfo;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::{
    Block, BlockObservation, Compactor, Emptied, MemoryBlock, MigrationCounts, PAGES_PER_BLOCK,
    PhysicalObservation, Stopped, ToEmpty, Unit, ZoneObservation,
};
use serde::Serialize;

use crate::Error;
use crate::kernel::Kernel;
use crate::module::{self, Device, interface};
use page_flags::PageFlags;
use zoneinfo::ZoneSpan;

/// Where the counts per block come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `/dev/mega`: exact, with accesses and ages.
    Module,
    /// `/proc/kpageflags`: a page on a per-CPU free list looks unmovable, a pinned one movable; no accesses
    /// and no ages.
    PageFlags,
}

/// The physical memory of the machine.
pub struct PhysicalMemory {
    kernel: Arc<dyn Kernel>,
    reader: Reader,
}

enum Reader {
    Module(Device),
    /// With the reason why the module is not asked.
    PageFlags(PageFlags, Error),
}

impl PhysicalMemory {
    /// By the module where it is loaded and speaks this version, else by `/proc`; [`PhysicalMemory::other_module`] tells
    /// whether one was loaded then.
    ///
    /// # Errors
    /// [`Error::Missing`] where the privilege for either is missing.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<Self, Error> {
        match Self::with_module(Arc::clone(&kernel)) {
            Err(why @ (Error::Missing { .. } | Error::OtherModule { .. })) => {
                let reader = Reader::PageFlags(PageFlags::open(kernel.as_ref())?, why);
                Ok(PhysicalMemory { kernel, reader })
            }
            opened => opened,
        }
    }

    /// By the module only: what is needed to empty blocks.
    ///
    /// # Errors
    /// [`Error::Missing`] where it is not loaded or the privilege is missing, [`Error::OtherModule`] where it speaks
    /// another version.
    pub fn with_module(kernel: Arc<dyn Kernel>) -> Result<Self, Error> {
        let reader = Reader::Module(Device::open(Arc::clone(&kernel))?);
        Ok(PhysicalMemory { kernel, reader })
    }

    /// [`Error::OtherModule`], where a module is loaded that speaks another version and is not asked for that.
    #[must_use]
    pub fn other_module(&self) -> Option<&Error> {
        match &self.reader {
            Reader::PageFlags(_, why @ Error::OtherModule { .. }) => Some(why),
            _ => None,
        }
    }

    /// What can empty blocks.
    fn module(&self) -> Result<&Device, Error> {
        match &self.reader {
            Reader::Module(device) => Ok(device),
            Reader::PageFlags(_, Error::OtherModule { theirs }) => {
                Err(Error::OtherModule { theirs: *theirs })
            }
            Reader::PageFlags(..) => Err(module::missing()),
        }
    }

    /// Where its counts come from.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.reader {
            Reader::Module(_) => Source::Module,
            Reader::PageFlags(..) => Source::PageFlags,
        }
    }

    /// Looks at physical memory and changes nothing. After each batch it tells `progress` how many frames were looked at,
    /// and how many there are. Reading `/proc/kpageflags` takes 8 bytes per frame.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn observe(
        &mut self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PhysicalObservation, Error> {
        self.look(false, progress)
    }

    /// Empties a memory block, huge pages too, in pieces of at most a chunk. It stops at the first piece that cannot be
    /// emptied.
    ///
    /// # Errors
    /// [`Error::Missing`] without the module, [`Error::OtherModule`]; [`Error::Io`].
    pub fn empty_memory_block(
        &mut self,
        block: &MemoryBlock,
    ) -> Result<(Stopped, MigrationCounts), Error> {
        let dry_run = self.kernel.is_read_only();
        let device = self.module()?;
        let order = block.pages.ilog2().min(Unit::Chunk.order().into());
        let mut stopped = Stopped::AlreadyFree;
        let mut counts = MigrationCounts::default();
        for piece in 0..block.pages >> order {
            let frame = block.first_pfn + (piece << order);
            let (how, moved, _) = compact(device, frame, order, true, dry_run, &[])?;
            counts.add(&moved);
            if how != Stopped::AlreadyFree {
                stopped = how;
            }
            if !how.is_free() && how != Stopped::Would {
                break;
            }
        }
        Ok((stopped, counts))
    }

    fn look(
        &mut self,
        forget_accesses: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PhysicalObservation, Error> {
        let free_lists = buddyinfo::read(self.kernel.as_ref())?;
        let spans = zoneinfo::read(self.kernel.as_ref())?;
        let total: u64 = spans.iter().map(|span| span.spanned).sum();
        let mut before = 0;
        let mut zones = Vec::with_capacity(spans.len());
        for span in &spans {
            let mut report = |frames: u64| progress(before + frames.min(span.spanned), total);
            let mut blocks = match &self.reader {
                Reader::Module(device) => {
                    let frames = block_frames(span);
                    module_blocks::read(device, frames, forget_accesses, &mut report)?
                }
                Reader::PageFlags(flags, _) => {
                    flags.blocks(self.kernel.as_ref(), block_frames(span), &mut report)?
                }
            };
            blocks.retain(|block| {
                block.absent() < PAGES_PER_BLOCK && owner(&spans, block.block) == Some(span)
            });
            before += span.spanned;
            zones.push(zone(span, &free_lists, blocks));
        }
        Ok(PhysicalObservation { zones })
    }
}

/// Has the kernel compact all memory (`/proc/sys/vm/compact_memory`), and waits for it.
///
/// # Errors
/// [`Error::Missing`] where the kernel cannot or the privilege is missing; [`Error::Io`].
pub fn compact_memory(kernel: &dyn Kernel) -> Result<(), Error> {
    let path = Path::new("/proc/sys/vm/compact_memory");
    kernel
        .write(path, b"1")
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Error::Missing {
                feature: format!("the privilege to write {}", path.display()),
                remedy: "run as root".to_owned(),
            },
            Some(libc::ENOENT) => Error::Missing {
                feature: path.display().to_string(),
                remedy: "boot a kernel built with CONFIG_COMPACTION=y, as Debian's are".to_owned(),
            },
            _ => Error::io("write", path)(error),
        })
}

/// The frames of the blocks that `span` has a part of.
fn block_frames(span: &ZoneSpan) -> Range<u64> {
    let pages = u64::from(PAGES_PER_BLOCK);
    let end = span.start_pfn.saturating_add(span.spanned);
    span.start_pfn / pages * pages..end.div_ceil(pages).saturating_mul(pages)
}

/// The zone that `block` counts for. Where the spans of two nodes lie inside each other, the inner one has it.
fn owner(spans: &[ZoneSpan], block: Block) -> Option<&ZoneSpan> {
    spans
        .iter()
        .filter(|span| block_frames(span).contains(&block.first_pfn()))
        .max_by_key(|span| span.start_pfn)
}

fn zone(
    span: &ZoneSpan,
    free_lists: &[buddyinfo::FreeList],
    blocks: Vec<BlockObservation>,
) -> ZoneObservation {
    let free = free_lists
        .iter()
        .find(|list| list.node == span.node && list.kind == span.kind);
    ZoneObservation {
        node: span.node,
        kind: span.kind,
        start_pfn: span.start_pfn,
        spanned: span.spanned,
        free_areas: free.map(|list| list.areas.clone()).unwrap_or_default(),
        reserve: span.high,
        blocks,
    }
}

impl Compactor for PhysicalMemory {
    type Error = Error;

    fn observe_physical(&mut self) -> Result<PhysicalObservation, Error> {
        // Each period counts its own accesses.
        self.look(!self.kernel.is_read_only(), &mut |_, _| ())
    }

    fn empty(&mut self, targets: &[ToEmpty]) -> Result<Vec<Emptied>, Error> {
        let dry_run = self.kernel.is_read_only();
        let device = self.module()?;
        let mut reports = Vec::with_capacity(targets.len());
        for (index, target) in targets.iter().enumerate() {
            let report = empty_one(device, target, &targets[index + 1..], dry_run)?;
            reports.push(report);
            if report.stopped == Stopped::Interrupted {
                break;
            }
        }
        Ok(reports)
    }
}

/// Empties `target`, into none of those that are `next` where there is other room.
fn empty_one(
    device: &Device,
    target: &ToEmpty,
    next: &[ToEmpty],
    dry_run: bool,
) -> Result<Emptied, Error> {
    // A chunk is worth the huge pages that are moved for it.
    let move_huge = target.unit == Unit::Chunk;
    let order = target.unit.order().into();
    let avoid = to_avoid(device, target, next);
    let empty = |avoid: &[u64]| compact(device, target.first_pfn, order, move_huge, dry_run, avoid);
    let (mut stopped, mut counts, mut took) = empty(&avoid)?;
    if stopped == Stopped::NoMemory && !avoid.is_empty() {
        let (again, more, longer) = empty(&[])?;
        stopped = again;
        counts.add(&more);
        took += longer;
    }
    Ok(Emptied {
        target: *target,
        stopped,
        counts,
        took,
    })
}

/// The first frames of what comes `next` and is of the size of `target`, as the module wants them; none where it cannot heed
/// them. Of more than it takes those that come first are told.
fn to_avoid(device: &Device, target: &ToEmpty, next: &[ToEmpty]) -> Vec<u64> {
    if device.info().features & interface::FEATURE_AVOID == 0 {
        return Vec::new();
    }
    let mut frames: Vec<u64> = next
        .iter()
        .filter(|other| other.unit == target.unit)
        .map(|other| other.first_pfn)
        .take(interface::MAX_AVOID)
        .collect();
    frames.sort_unstable();
    frames.dedup();
    frames
}

/// Empties 2^`order` frames from `frame` on, into none of the ranges of that size that `avoid` names.
fn compact(
    device: &Device,
    frame: u64,
    order: u32,
    move_huge: bool,
    dry_run: bool,
    avoid: &[u64],
) -> Result<(Stopped, MigrationCounts, Duration), Error> {
    let mut flags = 0;
    if dry_run {
        flags |= interface::COMPACT_DRY_RUN;
    }
    if move_huge {
        flags |= interface::COMPACT_MOVE_HUGE;
    }
    let mut request = interface::Compact {
        flags,
        frame,
        order,
        ..interface::Compact::default()
    };
    let stopped = match device.compact(&mut request, avoid) {
        Ok(()) => stopped(request.stop)?,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENXIO) => Stopped::NotInOneZone,
            Some(libc::EBUSY) => Stopped::Busy,
            Some(libc::EINTR) => Stopped::Interrupted,
            _ => return Err(module::refused("empty a block", error)),
        },
    };
    let counts = MigrationCounts {
        scanned: request.scanned,
        isolated: request.isolated,
        migrated: request.migrated,
        failed: request.failed,
    };
    Ok((stopped, counts, Duration::from_nanos(request.nanoseconds)))
}

fn stopped(stop: u32) -> Result<Stopped, Error> {
    Ok(match stop {
        interface::STOP_DONE => Stopped::Emptied,
        interface::STOP_ALREADY_FREE => Stopped::AlreadyFree,
        interface::STOP_UNMOVABLE => Stopped::Unmovable,
        interface::STOP_PINNED => Stopped::Pinned,
        interface::STOP_BUSY => Stopped::Busy,
        interface::STOP_NO_MEMORY => Stopped::NoMemory,
        interface::STOP_HUGE => Stopped::Huge,
        interface::STOP_SIGNAL => Stopped::Interrupted,
        interface::STOP_WOULD => Stopped::Would,
        unknown => {
            return Err(Error::Malformed {
                path: Path::new(interface::DEVICE).to_owned(),
                reason: format!(
                    "the module gave a reason to stop that this program does not know ({unknown})"
                ),
            });
        }
    })
}

#[cfg(test)]
mod tests;
