//! The messages on a socket of type SOCK_SEQPACKET, each in one packet.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::message::{Answer, LONGEST, Malformed, Request};

/// The page and the doorbell.
const DESCRIPTORS: usize = 2;

/// A request with what came with it.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub request: Request,
    /// The page that the guest shares.
    pub page: OwnedFd,
    /// What the guest rings.
    pub doorbell: OwnedFd,
}

/// Receives a request. Descriptors that are too many are closed.
///
/// # Errors
///
/// As `recvmsg`. What came is not a request: in the answer.
pub fn receive(socket: impl AsFd) -> Result<Result<Received, Malformed>, Errno> {
    let mut bytes = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Err(Malformed::Length));
    }
    let request = match Request::parse(bytes.get(..received.bytes).unwrap_or_default()) {
        Ok(request) => request,
        Err(malformed) => return Ok(Err(malformed)),
    };
    let too_many = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(match <[OwnedFd; DESCRIPTORS]>::try_from(descriptors) {
        Ok([page, doorbell]) if !too_many => Ok(Received {
            request,
            page,
            doorbell,
        }),
        _ => Err(Malformed::Descriptors),
    })
}

/// Answers a request.
///
/// # Errors
///
/// As `sendmsg`: the VMM is gone.
pub fn answer(socket: impl AsFd, answer: &Answer) -> Result<(), Errno> {
    send_packet(
        socket,
        &answer.to_bytes(),
        &mut SendAncillaryBuffer::default(),
    )
}

/// Sends a request.
pub(super) fn send(
    socket: impl AsFd,
    request: &Request,
    page: BorrowedFd<'_>,
    doorbell: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [page, doorbell];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOMEM);
    }
    send_packet(socket, &request.to_bytes(), &mut ancillary)
}

fn send_packet(
    socket: impl AsFd,
    bytes: &[u8],
    ancillary: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> Result<(), Errno> {
    let parts = [IoSlice::new(bytes)];
    sendmsg(socket, &parts, ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Waits for an answer. An end without one is malformed.
pub(super) fn answered(socket: impl AsFd) -> Result<Result<Answer, Malformed>, Errno> {
    let mut bytes = [0; LONGEST];
    let received = match receive_packet(&socket, &mut bytes) {
        // It hung up before it had read what we sent. The kernel says that first, and then what it had answered.
        Err(Errno::CONNRESET) => receive_packet(&socket, &mut bytes)?,
        received => received?,
    };
    Ok(Answer::parse(bytes.get(..received).unwrap_or_default()))
}

/// Returns the length of the packet.
fn receive_packet(socket: impl AsFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let mut ancillary = RecvAncillaryBuffer::default();
    let mut parts = [IoSliceMut::new(bytes)];
    recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::empty()).map(|packet| packet.bytes)
}
