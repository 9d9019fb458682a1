//! Serves guests of this host: has the kernel exchange what is behind their memory (`EXCHANGE` of mega.ko), where their VMMs ask for
//! it on a socket. `docs/exchange.md` describes it.

mod connection;
mod device;
mod peer;

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use mega_exchange::daemon::{self, Answer};
use mega_linux::Error;
use mega_linux::kernel::Kernel;
use mega_linux::module::{Device, interface};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Uid;
use tracing::warn;

use crate::config::Exchange;
use crate::exit::Failure;

/// Guests that are served at once, each by a thread.
const MOST: usize = 64;
/// Of these, guests whose VMMs are of one user. libvirt runs all as one; what is left is for others.
const MOST_OF_A_USER: usize = 48;
/// VMMs that wait to be accepted.
const BACKLOG: i32 = 16;
/// Between two tries to accept, where it fails: perhaps too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves guests for as long as it lives. When it ends their pages say that they are not served any more.
pub(crate) struct Guests {
    path: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Guests {
    /// Listens for VMMs.
    ///
    /// # Errors
    /// Where the kernel or the module cannot exchange pages, or the socket cannot be made.
    pub(crate) fn start(kernel: Arc<dyn Kernel>, settings: &Exchange) -> Result<Self, Failure> {
        let path = settings.socket.clone();
        let device = Device::open(Arc::clone(&kernel))?;
        if device.info().features & interface::FEATURE_EXCHANGE_PAIRS == 0 {
            return Err(Error::Missing {
                feature: format!(
                    "the kernel's exchange of huge pages, which [exchange] is for ({})",
                    path.display()
                ),
                remedy: "boot a kernel with the patches of kernel/linux-6.12 and load mega.ko built for it, or take [exchange] out of the configuration".to_owned(),
            }
            .into());
        }
        let refused = |error: &dyn Display| {
            Failure::Failed(format!(
                "cannot serve guests on {}: {error}",
                path.display()
            ))
        };
        let listener = listen(&path, settings.group).map_err(|error| refused(&error))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| refused(&error))?;
        let stop = Arc::new(stop);
        let accepting = Accepting {
            kernel,
            device: Arc::new(device),
            listener,
            stop: Arc::clone(&stop),
            guests: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("guests".to_owned())
            .spawn(move || accepting.run())
            .map_err(|error| refused(&error))?;
        Ok(Guests {
            path,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        // The next daemon replaces one that stays.
        let _ = std::fs::remove_file(&self.path);
        // Each guest's thread ends, and tells its guest.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for VMMs, and starts a thread for each.
struct Accepting {
    kernel: Arc<dyn Kernel>,
    device: Arc<Device>,
    listener: OwnedFd,
    stop: Arc<OwnedFd>,
    guests: Vec<Guest>,
}

/// Who has connected. It holds its place until its thread has ended.
struct Guest {
    user: Uid,
    thread: JoinHandle<()>,
}

impl Accepting {
    fn run(mut self) {
        loop {
            let mut wait = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&*self.stop, PollFlags::IN),
            ];
            // One that was interrupted is tried again.
            let _ = poll(&mut wait, None);
            if !wait[1].revents().is_empty() {
                break;
            }
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => self.admit(socket),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        for guest in self.guests {
            let _ = guest.thread.join();
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        self.guests.retain(|guest| !guest.thread.is_finished());
        let user = match self.user_with_place(&socket) {
            Ok(user) => user,
            Err(reason) => {
                let _ = daemon::answer(&socket, &Answer::Refused(reason));
                return;
            }
        };
        let (kernel, device) = (Arc::clone(&self.kernel), Arc::clone(&self.device));
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new()
            .name("guest".to_owned())
            .spawn(move || connection::serve(kernel.as_ref(), &device, &socket, &stop));
        match thread {
            Ok(thread) => self.guests.push(Guest { user, thread }),
            Err(error) => warn!("a guest is not served: {error}"),
        }
    }

    /// Whose process has connected, if there is a place for it; else why not.
    fn user_with_place(&self, socket: &OwnedFd) -> Result<Uid, String> {
        let user = peer::user(socket)?;
        if self.guests.len() >= MOST {
            return Err(format!("{MOST} guests are served already"));
        }
        let its = self.guests.iter().filter(|guest| guest.user == user);
        if its.count() >= MOST_OF_A_USER {
            return Err(format!(
                "{MOST_OF_A_USER} guests of user {} are served already, as many as one user may have",
                user.as_raw()
            ));
        }
        Ok(user)
    }
}

/// Listens at `path`, which only the daemon's user may connect to, and the members of `group`. A socket that a killed daemon left
/// is replaced.
fn listen(path: &Path, group: Option<u32>) -> std::io::Result<OwnedFd> {
    remove_stale(path)?;
    let socket = socket()?;
    let mode = match group {
        None => Mode::RUSR | Mode::WUSR,
        Some(_) => Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP,
    };
    // The file gets the mode that the socket has, from the first moment.
    fchmod(&socket, mode)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    if let Some(group) = group {
        chown(path, None, Some(group))?;
        // The umask may have taken it away.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o660);
        std::fs::set_permissions(path, open)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn socket() -> std::io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        metadata => {
            if !metadata?.file_type().is_socket() {
                return Err(std::io::Error::other(
                    "a file that is no socket is there; name another path",
                ));
            }
        }
    }
    match rustix::net::connect(&socket()?, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        Err(error) => Err(error.into()),
        Ok(()) => Err(std::io::Error::other(
            "another process listens there; name another path",
        )),
    }
}

#[cfg(test)]
mod tests;
