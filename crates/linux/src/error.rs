//! What can go wrong. Each error says in one line what was attempted, on what, why it failed and what to do.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::kernel::module::interface;
use crate::observe::tracker::TrackError;

/// Why something could not be done at all. What came of a single promotion or demotion is a
/// [`mega_core::Outcome`] instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process does not exist (any more).
    #[error("process {pid}: there is no such process")]
    Gone {
        /// Its pid.
        pid: u32,
    },
    /// The process is a kernel thread.
    #[error("process {pid}: it is a kernel thread, which has no memory to manage")]
    KernelThread {
        /// Its pid.
        pid: u32,
    },
    /// The process may not be looked at.
    #[error(
        "process {pid}: not permitted to look at its memory; run as root, or with CAP_SYS_PTRACE and CAP_SYS_NICE"
    )]
    NotPermitted {
        /// Its pid.
        pid: u32,
    },
    /// No page of the range is mapped.
    #[error("process {pid}: nothing is mapped in {:#x}-{:#x}; see /proc/{pid}/maps", range.start, range.end)]
    NotMapped {
        /// Its pid.
        pid: u32,
        /// The range asked for.
        range: Range<u64>,
    },
    /// The range holds no whole eligible region.
    #[error(
        "process {pid}: no whole 2 MiB region in {:#x}-{:#x} can be mapped by a huge page (stacks, files, hugetlb and MADV_NOHUGEPAGE memory cannot)",
        range.start, range.end
    )]
    NotEligible {
        /// Its pid.
        pid: u32,
        /// The range asked for.
        range: Range<u64>,
    },
    /// The range holds no whole span of eligible memory.
    #[error(
        "process {pid}: no whole 1 GiB span in {:#x}-{:#x} can be mapped by a giant page (it must begin at a multiple of 1 GiB, and be private anonymous memory throughout)",
        range.start, range.end
    )]
    NoSpan {
        /// Its pid.
        pid: u32,
        /// The range asked for.
        range: Range<u64>,
    },
    /// A kernel feature or a privilege is missing.
    #[error("{feature} is missing: {remedy}")]
    Missing {
        /// What is missing.
        feature: String,
        /// How to get it.
        remedy: String,
    },
    /// The kernel module is loaded and speaks another version of its interface.
    #[error(
        "{}: build the module that belongs to this program (`make -C kernel/module`), unload the other (`rmmod mega`) and load it (`insmod kernel/module/mega.ko`)",
        other_module(*theirs)
    )]
    OtherModule {
        /// The version that it speaks, where it can be told.
        theirs: Option<u32>,
    },
    /// The kernel, or the file system, refused.
    #[error("cannot {attempt}: {source}")]
    Io {
        /// What was attempted, on what: "read /proc/1/maps".
        attempt: String,
        /// The refusal.
        source: io::Error,
    },
    /// The tracker failed.
    #[error(transparent)]
    Track(TrackError),
    /// A file does not hold what it should.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// How a program that stops on an [`Error`] should exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// It failed.
    Failed,
    /// A kernel feature or a privilege is missing.
    Missing,
}

impl ExitKind {
    /// The exit status: 1 or 3.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            ExitKind::Failed => 1,
            ExitKind::Missing => 3,
        }
    }
}

impl Error {
    /// How a program that stops on this error should exit.
    #[must_use]
    pub fn exit_kind(&self) -> ExitKind {
        match self {
            Error::Missing { .. } | Error::NotPermitted { .. } | Error::OtherModule { .. } => {
                ExitKind::Missing
            }
            _ => ExitKind::Failed,
        }
    }

    /// A function that wraps the refusal to do `verb` on `path`.
    pub(crate) fn io(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let attempt = format!("{verb} {}", path.display());
        move |source| Error::Io { attempt, source }
    }

    /// The refusal to look at process `pid`, told apart by its cause.
    pub(crate) fn of_process(pid: u32, path: &Path, source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Error::Gone { pid },
            Some(libc::EACCES | libc::EPERM) => Error::NotPermitted { pid },
            _ => Error::io("read", path)(source),
        }
    }
}

/// Says that the module speaks another version, and not what to do.
pub(crate) fn other_module(theirs: Option<u32>) -> String {
    let theirs = theirs.map_or_else(
        || "another version".to_owned(),
        |version| format!("version {version}"),
    );
    let ours = interface::VERSION;
    format!(
        "mega.ko is loaded, but it speaks {theirs} of its interface, and this program speaks version {ours}"
    )
}

impl From<TrackError> for Error {
    fn from(error: TrackError) -> Self {
        match error {
            TrackError::Gone { pid } => Error::Gone { pid },
            TrackError::KernelThread { pid } => Error::KernelThread { pid },
            other => Error::Track(other),
        }
    }
}
