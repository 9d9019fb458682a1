//! What an ivshmem server says to QEMU (docs/specs/ivshmem-spec.txt there): numbers of 8 bytes, some with a descriptor.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::{HOST_PEER, Server};

/// The protocol's version.
const VERSION: i64 = 0;
/// Comes with the shared memory.
const MEMORY: i64 = -1;
/// What the guest is among the peers.
const GUEST_PEER: i64 = 1;

/// Tells QEMU all that it asks for when it makes the device `ivshmem-doorbell`, whose memory and doorbell are the server's. It is
/// less than a socket holds, so it can be said beforehand.
///
/// # Errors
///
/// QEMU is gone, or no descriptor is left.
pub fn introduce(mut stream: &UnixStream, server: &Server) -> io::Result<()> {
    // The guest's own interrupt, which nobody uses: a guest polls.
    let interrupt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    stream.write_all(&VERSION.to_le_bytes())?;
    stream.write_all(&GUEST_PEER.to_le_bytes())?;
    send_with(stream, &MEMORY.to_le_bytes(), server.memory())?;
    send_with(
        stream,
        &i64::from(HOST_PEER).to_le_bytes(),
        server.doorbell(),
    )?;
    send_with(stream, &GUEST_PEER.to_le_bytes(), interrupt.as_fd())
}

/// Sends all bytes, and a descriptor with the first.
///
/// # Errors
///
/// As `sendmsg`: whoever is to have them is gone, or may have no more descriptors.
pub fn send_with(mut stream: &UnixStream, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let sent = sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    stream.write_all(bytes.get(sent..).unwrap_or_default())
}
