//! Trackers: which base pages of a process are mapped, which were accessed, and what page size maps them.
//!
//! There are four, from best to least. [`TrackerKind::Module`] asks the kernel module. [`TrackerKind::Bpf`] reads the
//! page tables themselves and sees every Accessed bit. [`TrackerKind::PageIdle`] asks the kernel's idle page tracking
//! about each physical page. [`TrackerKind::Mapped`] knows only what is mapped.
//!
//! A tracker reads Accessed bits and does not clear them, with two exceptions ([`Tracker::clears_itself`]): a scan by the
//! module reads and clears in one pass, and one by idle page tracking marks pages idle. [`Tracker::peek`] clears nothing
//! with any of them.
//!
//! A base page counts as mapped when it has a physical page of the process's own. The kernel's shared page
//! of zeros, which a read of untouched memory maps, holds nothing of the process's and does not count. Nor
//! does a page that is on swap. A page made inaccessible (`PROT_NONE`, NUMA hinting) is still there and
//! counts.

mod bpf;
#[cfg(test)]
mod fake_memory;
mod finish;
pub(crate) mod folios;
mod known_memory;
mod mapped;
mod module;
mod open;
mod page_idle;
pub(crate) mod pagemap;
mod self_check;
mod whole;
mod zero_page;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use mega_core::{ProcessId, RegionObservation};
use serde::{Deserialize, Serialize};

use crate::kernel::ProcessHandle;

pub use bpf::{BpfTracker, ScanCost};
pub use folios::FolioSizes;
pub use mapped::MappedTracker;
pub use module::ModuleTracker;
pub use open::open_one;
pub use page_idle::PageIdleTracker;
pub use self_check::SelfCheckError;

/// Which tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackerKind {
    /// The kernel module reads and clears in one pass, and tells compaction what is hot.
    Module,
    /// A BPF program reads the page tables: exact, and at least eight times cheaper than pagemap.
    Bpf,
    /// The kernel's idle page tracking, `/sys/kernel/mm/page_idle/bitmap`.
    PageIdle,
    /// What is mapped, without accesses.
    Mapped,
}

impl TrackerKind {
    /// All of them, best first.
    pub const ALL: [TrackerKind; 4] = [
        TrackerKind::Module,
        TrackerKind::Bpf,
        TrackerKind::PageIdle,
        TrackerKind::Mapped,
    ];

    /// The name it is selected by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TrackerKind::Module => "module",
            TrackerKind::Bpf => "bpf",
            TrackerKind::PageIdle => "page_idle",
            TrackerKind::Mapped => "mapped",
        }
    }

    /// Whether it tells a giant page from the huge pages in it. `PAGEMAP_SCAN` and the physical pages' flags, which
    /// the others read, are the same for both.
    #[must_use]
    pub const fn sees_giant_pages(self) -> bool {
        matches!(self, TrackerKind::Module | TrackerKind::Bpf)
    }

    /// Whether it counts what is in swap.
    #[must_use]
    pub const fn counts_swapped(self) -> bool {
        !matches!(self, TrackerKind::Module)
    }

    /// Whether it sees accesses at all.
    #[must_use]
    pub const fn knows_accesses(self) -> bool {
        !matches!(self, TrackerKind::Mapped)
    }
}

impl fmt::Display for TrackerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TrackerKind {
    type Err = UnknownTracker;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        TrackerKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownTracker(name.to_owned()))
    }
}

/// A name that no tracker has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no tracker is called {0:?}; there are module, bpf, page_idle and mapped")]
pub struct UnknownTracker(pub String);

/// The process to look at.
#[derive(Clone, Copy, Debug)]
pub struct TrackedProcess<'a> {
    /// Which life of which process.
    pub process: ProcessId,
    /// Its handle, opened for that life.
    pub handle: &'a ProcessHandle,
}

impl TrackedProcess<'_> {
    /// Whether that process has exited, so that its pid may already be another's. A handle without a pidfd
    /// (from a boundary that is not a live kernel) cannot tell and says no.
    fn has_exited(&self) -> bool {
        let Some(fd) = self.handle.fd() else {
            return false;
        };
        let mut poll = [rustix::event::PollFd::from_borrowed_fd(
            fd,
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec::default();
        rustix::event::poll(&mut poll, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// What [`Tracker::read_bits`] read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// When it was done, on `CLOCK_MONOTONIC`. `None` where only the caller's clock can tell.
    pub at: Option<Duration>,
    /// The regions with at least one base page mapped, in address order.
    pub regions: Vec<RegionObservation>,
    /// For each of them the cache lines of eight page table entries of which one at least is accessed. Empty where they are
    /// not counted.
    pub lines: Vec<u16>,
}

/// Looks at processes.
pub trait Tracker: Send {
    /// Which one it is.
    fn kind(&self) -> TrackerKind;

    /// Fills `out`, emptied first, with one observation for each region that lies wholly inside one of
    /// `ranges` and has at least one base page mapped, in address order.
    ///
    /// `ranges` are virtual addresses, ascending and without overlap. Holds none of the target's locks
    /// longer than a bounded batch needs.
    ///
    /// # Errors
    /// [`TrackError::Gone`] when the process has exited or started another program, also in the middle;
    /// `out` is empty then. Other errors concern the tracker, and say what to do.
    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError>;

    /// As [`Tracker::scan`], without starting the next interval: no Accessed bit is cleared, and what was accessed is
    /// seen again by the next scan. A tracker that clears as it scans has this of its own.
    ///
    /// # Errors
    /// As [`Tracker::scan`].
    fn peek(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        self.scan(target, ranges, out)
    }

    /// Reads the Accessed bits of whole regions as [`Tracker::peek`] does, for the touch meter, which wants to know when
    /// that was and how many cache lines of a page table hold one. `None` where this tracker cannot read single pages' bits
    /// without changing them.
    ///
    /// # Errors
    /// As [`Tracker::scan`].
    fn read_bits(
        &mut self,
        _target: &TrackedProcess<'_>,
        _ranges: &[Range<u64>],
    ) -> Result<Option<Bits>, TrackError> {
        Ok(None)
    }

    /// Holds nothing of the process any more that [`Tracker::read_bits`] read last.
    fn end_reading(&mut self) {}

    /// Whether a scan also starts the next interval. The module clears as it reads, idle page tracking marks
    /// pages idle as it looks; with any other tracker the caller clears Accessed bits after the scan.
    fn clears_itself(&self) -> bool {
        false
    }
}

/// Why a process could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// It exited, or runs another program now.
    #[error("process {pid} has exited or started another program")]
    Gone {
        /// Its pid.
        pid: u32,
    },
    /// It has no memory of its own.
    #[error("process {pid} is a kernel thread and has no memory of its own")]
    KernelThread {
        /// Its pid.
        pid: u32,
    },
    /// The kernel refused.
    #[error("{attempted} for process {pid}: {error}")]
    Refused {
        /// What was attempted.
        attempted: &'static str,
        /// The pid of the process.
        pid: u32,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The tracker got an answer that makes no sense.
    #[error("the {tracker} tracker got an answer from the kernel that makes no sense: {what}")]
    Nonsense {
        /// Which tracker.
        tracker: TrackerKind,
        /// What was wrong with it.
        what: String,
    },
}

/// Why a tracker cannot be used here. Each says what is missing and how to get it.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The kernel has no type information.
    #[error(
        "the kernel has no BTF type information (/sys/kernel/btf/vmlinux is missing): boot a kernel built \
         with CONFIG_DEBUG_INFO_BTF=y, as Debian's are"
    )]
    NoBtf,
    /// BPF is not allowed.
    #[error(
        "loading a BPF program is not permitted: run as root, or with CAP_BPF, CAP_PERFMON and \
         CAP_SYS_PTRACE"
    )]
    NotPermitted,
    /// Lockdown forbids reading kernel memory.
    #[error(
        "kernel lockdown is in confidentiality mode, which forbids BPF programs to read kernel memory: boot \
         with lockdown=integrity, or without"
    )]
    Lockdown,
    /// Too old.
    #[error(
        "the kernel cannot limit a BPF task iterator to one task, which Linux 6.1 and newer can"
    )]
    NoTaskIterator,
    /// The verifier or libbpf refused the program.
    #[error("the kernel refused the BPF program: {reason}")]
    Rejected {
        /// The last lines of libbpf's own log.
        reason: String,
    },
    /// It does not see what is known to be there.
    #[error("the BPF page table walker fails its self-check and is not used: {0}")]
    SelfCheck(#[from] SelfCheckError),
    /// The kernel module cannot be used.
    #[error("{0}")]
    Module(Box<crate::Error>),
    /// It works by writing.
    #[error(
        "it marks pages as it looks, which a dry run does not do: use the bpf or the mapped tracker"
    )]
    WouldWrite,
    /// A file that it reads is missing, or is not readable.
    #[error("{path} cannot be used: {error}{remedy}")]
    File {
        /// The file.
        path: &'static str,
        /// Why.
        error: std::io::Error,
        /// What to do about it, starting with a separator; empty when there is nothing to say.
        remedy: &'static str,
    },
}
