//! Why there is no exchanger, and why a pair was not exchanged.

use std::io;

use crate::Unserved;

/// Why an exchanger or a server could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no `userfaultfd` for this process.
    #[error(
        "cannot open a userfaultfd: {0}; exchanges need a kernel with CONFIG_USERFAULTFD, and a sandbox that allows userfaultfd(2)"
    )]
    NoUserfaultfd(#[source] io::Error),
    /// The kernel has no `UFFDIO_MOVE`.
    #[error("this kernel has no UFFDIO_MOVE ({0}); exchanges need Linux 6.8 or newer")]
    NoMove(#[source] io::Error),
    /// A range cannot be what it is said to be.
    #[error("guest memory at {guest:#x}, {bytes:#x} bytes, mapped at {host:#x}: {reason}")]
    BadRange {
        /// Guest-physical address.
        guest: u64,
        /// Length.
        bytes: u64,
        /// Address in this process.
        host: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The guest's memory is of a kind that cannot be exchanged.
    #[error("guest memory at {host:#x} cannot be exchanged: {reason}")]
    Unsuitable {
        /// Address in this process.
        host: usize,
        /// Why not.
        reason: String,
    },
    /// What another process gave us to share is not what it should be.
    #[error("a guest's page cannot be served: {0}")]
    NotShared(&'static str),
    /// Nobody serves guests there, or not this one.
    #[error("the daemon at {path} does not serve the guest: {reason}")]
    Daemon {
        /// Its socket.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Something failed that normally does not.
    #[error("cannot {attempt}: {source}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: what was attempted.
    pub(crate) fn system<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            attempt,
            source: source.into(),
        }
    }

    /// What a guest that is not served for it is told.
    #[must_use]
    pub fn unserved(&self) -> Unserved {
        match self {
            Self::NoUserfaultfd(_) | Self::NoMove(_) | Self::Daemon { .. } => Unserved::Host,
            Self::BadRange { .. } | Self::Unsuitable { .. } => Unserved::Memory,
            Self::NotShared(_) | Self::System { .. } => Unserved::Other,
        }
    }

    /// The positive errno that the C interface returns for it.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NoUserfaultfd(source) | Self::System { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            Self::NoMove(_) => libc::ENOSYS,
            Self::BadRange { .. } | Self::NotShared(_) => libc::EINVAL,
            Self::Daemon { .. } => libc::ECONNREFUSED,
            Self::Unsuitable { .. } => libc::EOPNOTSUPP,
        }
    }
}

/// Why a pair was not exchanged. Its memory is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An address is no multiple of 2 MiB, or a block is in the request twice.
    #[error("not aligned, or in the request twice")]
    Invalid,
    /// A block is not, or not whole, in the guest's memory.
    #[error("not the guest's memory")]
    NotGuest,
    /// The memory's kind rules it out.
    #[error("memory that cannot be exchanged")]
    Unsupported,
    /// Pinned, shared with a child process, or in use.
    #[error("busy, pinned, or shared with a child process")]
    Busy,
    /// The VMM has paused exchanges, or KVM logs the memory's dirty pages: the guest is being migrated or saved.
    #[error("paused while the guest is migrated or saved")]
    Paused,
    /// The host lacks memory for page tables.
    #[error("the host lacks memory")]
    NoMemory,
    /// It failed for another reason and was undone.
    #[error("failed and was undone")]
    Failed,
}

impl Refusal {
    /// The negative errno that the protocol has for it.
    #[must_use]
    pub fn code(self) -> i32 {
        -match self {
            Self::Invalid => libc::EINVAL,
            Self::NotGuest => libc::EPERM,
            Self::Unsupported => libc::EOPNOTSUPP,
            Self::Busy => libc::EBUSY,
            Self::Paused => libc::EAGAIN,
            Self::NoMemory => libc::ENOMEM,
            Self::Failed => libc::EIO,
        }
    }

    /// What a failing move says.
    pub(crate) fn of_move(error: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match error {
            // EEXIST: somebody touched the block while it was empty.
            Errno::BUSY | Errno::AGAIN | Errno::EXIST => Self::Busy,
            Errno::NOMEM => Self::NoMemory,
            // The kernel checks protection, mlock, kind and registration of both mappings.
            Errno::INVAL => Self::Unsupported,
            _ => Self::Failed,
        }
    }
}
