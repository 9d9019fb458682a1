//! What an ivshmem server says to QEMU (docs/specs/ivshmem-spec.txt there): numbers of 8 bytes, some with a descriptor.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use mega_exchange::HOST_PEER;
use rustix::event::{EventfdFlags, eventfd};

use crate::qmp::send_with;

/// The protocol's version.
const VERSION: i64 = 0;
/// Comes with the shared memory.
const MEMORY: i64 = -1;
/// What the guest is among the peers.
const GUEST_PEER: i64 = 1;

/// Tells QEMU all that it asks for when it makes the device. It is less than a socket holds, so it can be said beforehand.
pub(crate) fn introduce(
    mut stream: &UnixStream,
    memory: BorrowedFd<'_>,
    doorbell: BorrowedFd<'_>,
) -> io::Result<()> {
    // The guest's own interrupt, which nobody uses: a guest polls.
    let interrupt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    stream.write_all(&VERSION.to_le_bytes())?;
    stream.write_all(&GUEST_PEER.to_le_bytes())?;
    send_with(stream, &MEMORY.to_le_bytes(), memory)?;
    send_with(stream, &i64::from(HOST_PEER).to_le_bytes(), doorbell)?;
    send_with(stream, &GUEST_PEER.to_le_bytes(), interrupt.as_fd())
}
