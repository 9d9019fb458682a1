//! Where clients come from: sockets of the daemon's own, as its configuration says, and those that the service manager passes
//! to it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use rustix::fs::{Mode, fchmod};
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::exit::Failure;

/// Clients that wait to be accepted.
const BACKLOG: i32 = 64;

/// A client's stream, which does not block.
pub(super) trait Stream: Read + Write + AsFd + Send {}

impl<T: Read + Write + AsFd + Send> Stream for T {}

/// A socket that clients connect to. It does not block.
pub(crate) struct Listener {
    socket: Socket,
    /// In words, for the log.
    name: String,
    /// The file to remove at the end.
    file: Option<PathBuf>,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// The sockets that the service manager passed to this process (`LISTEN_FDS`). To be called once, before the first thread
/// is started: it takes the variables out of the environment.
///
/// # Errors
/// Where one of them is no socket that listens.
pub(crate) fn inherited() -> Result<Vec<Listener>, Failure> {
    let mut passed = ListenFd::from_env();
    (0..passed.len())
        .map(|place| take(&mut passed, place))
        .collect()
}

fn take(passed: &mut ListenFd, place: usize) -> Result<Listener, Failure> {
    let refused = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "cannot serve metrics on socket {place} of those that the service manager passed: {error}; pass TCP or Unix stream sockets with Accept=no"
        ))
    };
    // One that is no TCP socket stays in its place.
    let socket = match passed.take_tcp_listener(place) {
        Ok(Some(listener)) => Socket::Tcp(listener),
        Ok(None) => return Err(refused(&"it is missing")),
        Err(_) => match passed.take_unix_listener(place) {
            Ok(Some(listener)) => Socket::Unix(listener),
            Ok(None) => return Err(refused(&"it is missing")),
            Err(error) => return Err(refused(&error)),
        },
    };
    if !socket_acceptconn(&socket).unwrap_or(false) {
        return Err(refused(&"it does not listen"));
    }
    let name = match &socket {
        Socket::Tcp(listener) => listener.local_addr().map(|address| address.to_string()),
        Socket::Unix(listener) => {
            listener
                .local_addr()
                .map(|address| match address.as_pathname() {
                    Some(path) => path.display().to_string(),
                    None => "a Unix socket without a path".to_owned(),
                })
        }
    };
    let name = name.map_err(|error| refused(&error))?;
    Listener::new(socket, name, None).map_err(|error| refused(&error))
}

impl Listener {
    /// Listens on a Unix socket that only the daemon's user may connect to. A socket that a killed daemon left is
    /// replaced.
    ///
    /// # Errors
    /// Where the socket cannot be made, where somebody listens there, and where a file of another kind is in the way.
    pub(crate) fn bind(path: &Path) -> Result<Self, Failure> {
        let refused = |error: io::Error| {
            Failure::Failed(format!(
                "cannot serve metrics on {}: {error}",
                path.display()
            ))
        };
        remove_stale(path).map_err(refused)?;
        let listener = bind_private(path).map_err(refused)?;
        let name = path.display().to_string();
        Self::new(Socket::Unix(listener), name, Some(path.to_owned())).map_err(refused)
    }

    /// Listens on a TCP port.
    ///
    /// # Errors
    /// Where this machine does not have the address, the port is taken, or the daemon may not use the network.
    pub(crate) fn bind_tcp(address: SocketAddr) -> Result<Self, Failure> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            let name = listener.local_addr()?.to_string();
            Self::new(Socket::Tcp(listener), name, None)
        });
        bound.map_err(|error| {
            Failure::Failed(format!(
                "cannot serve metrics on {address}: {error}; under systemd use mega-metrics.socket instead"
            ))
        })
    }

    fn new(socket: Socket, name: String, file: Option<PathBuf>) -> io::Result<Self> {
        match &socket {
            Socket::Unix(listener) => listener.set_nonblocking(true)?,
            Socket::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok(Listener { socket, name, file })
    }

    /// Its address.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next client; `WouldBlock` where none waits.
    pub(super) fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match &self.socket {
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // The next daemon replaces one that stays.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata?.file_type(),
    };
    if !kind.is_socket() {
        return Err(io::Error::other(
            "a file that is no socket is there; name another path",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other(
            "another process listens there; name another path",
        )),
    }
}

/// Listens at `path`, with mode 0600 from the first moment: the file gets the mode that the socket has.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn refusal(path: &Path) -> String {
        match Listener::bind(path) {
            Ok(_) => panic!("it was bound"),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn the_socket_is_private_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("metrics.sock");
        let listener = Listener::bind(&path).expect("bound");
        let mode = std::fs::metadata(&path)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(refusal(&path).contains("another process listens there"));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_daemon_left_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("metrics.sock");
        // Closing does not remove its file.
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        drop(Listener::bind(&path).expect("bound"));
        std::fs::write(&path, "data").expect("written");
        assert!(refusal(&path).contains("no socket is there"));
        assert_eq!(std::fs::read(&path).expect("it stays"), b"data");
    }
}
