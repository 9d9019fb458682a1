//! Signals as events: blocked, and read from a file descriptor between other events.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::exit::Failure;

/// Signals that are blocked for as long as the process lives, to be read here.
pub(crate) struct Signals {
    fd: SignalFd,
    original: SigSet,
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// Whether a process sent it, and which; a terminal's signals come from the kernel.
    pub(crate) sender: Option<u32>,
}

impl Signals {
    /// Blocks `signals` in this thread and those it starts, and opens them for reading. To be called
    /// before the first thread is started.
    ///
    /// # Errors
    /// Where the kernel refuses a signal file descriptor.
    pub(crate) fn block(signals: &[Signal]) -> Result<Self, Failure> {
        let refused = |error| Failure::Failed(format!("cannot receive signals: {error}"));
        let set: SigSet = signals.iter().copied().collect();
        let mut original = SigSet::empty();
        nix::sys::signal::sigprocmask(
            nix::sys::signal::SigmaskHow::SIG_BLOCK,
            Some(&set),
            Some(&mut original),
        )
        .map_err(refused)?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(refused)?;
        Ok(Signals { fd, original })
    }

    /// The signals that were blocked before.
    pub(crate) fn original(&self) -> SigSet {
        self.original
    }

    /// The next signal that is pending, if any is.
    pub(crate) fn next(&self) -> Option<Received> {
        let info = self.fd.read_signal().ok().flatten()?;
        let signal = Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()?;
        // Codes of signals that a process sends are 0 or below (sigaction(2)).
        let sender = (info.ssi_code <= 0).then_some(info.ssi_pid);
        Some(Received { signal, sender })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
