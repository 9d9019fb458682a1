//! Has the host's `mega daemon` serve a guest, where its kernel exchanges pages of any process (`EXCHANGE` of `/dev/mega`).
//!
//! The VMM connects to the daemon's socket and sends one [`Request`]: the page and the doorbell of its [`Server`], and where its
//! guest's memory is in its own process. The daemon learns from the socket which process that is. It answers once. From then on it
//! serves the page until either side closes the connection: the guest needs the VMM no more.

mod message;
mod wire;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown,
    socket_with,
};

pub use message::{Answer, MAX_RANGES, Malformed, Request, TOLD_BYTES};
pub use wire::{Received, answer, receive};

use crate::{Error, Range, Server};

/// A guest that the daemon serves. It is not served any more when this is dropped, a moment later; [`end`](Self::end) waits for that.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Connection {
    /// Asks the daemon that listens at `path` to serve a guest whose memory lies in this process, and waits for its answer. Nobody
    /// else may serve the server's page meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Daemon`]: nobody listens there, or the daemon refuses, and why.
    pub fn open(path: &Path, server: &Server, ranges: &[Range]) -> Result<Self, Error> {
        let request = Request {
            ranges: ranges
                .iter()
                .map(|range| (range.guest(), range.bytes(), range.host() as u64))
                .collect(),
        };
        Self::ask(path, server, &request)
    }

    /// The same of any request.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn ask(path: &Path, server: &Server, request: &Request) -> Result<Self, Error> {
        let failed = |reason: String| Error::Daemon {
            path: path.display().to_string(),
            reason,
        };
        let told = |error: Errno| failed(error.to_string());
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(told)?;
        let address = SocketAddrUnix::new(path).map_err(told)?;
        connect(&socket, &address).map_err(|error| {
            failed(format!(
                "{error}; `mega daemon` listens there if its configuration has [exchange] and its kernel exchanges pages, else its log says why not"
            ))
        })?;
        match wire::send(&socket, request, server.memory(), server.doorbell()) {
            // A daemon that has no place for the guest says so before it is asked, and hangs up.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(error) => return Err(told(error)),
        }
        match wire::answered(&socket).map_err(told)? {
            Ok(Answer::Serving) => Ok(Connection(socket)),
            Ok(Answer::Refused(reason)) => Err(failed(reason)),
            Err(malformed) => Err(failed(malformed.to_string())),
        }
    }

    /// Has the daemon serve no more, and waits until no pair is being exchanged: before dirty pages are logged, a migration, or a
    /// snapshot. The page then says that it is not served.
    pub fn end(self) {
        // What fails here fails as the daemon is gone already.
        if shutdown(&self.0, Shutdown::Write).is_ok() {
            let _ = wire::answered(&self.0);
        }
    }
}

/// Readable when the daemon does not serve the guest any more.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
