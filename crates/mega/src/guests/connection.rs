//! One guest, from its VMM's request until either side ends it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mega_exchange::daemon::{self, Answer, Received};
use mega_exchange::{Memory, Server};
use mega_linux::kernel::Kernel;
use mega_linux::module::Device;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use tracing::info;

use super::device::OfProcess;
use super::peer;

/// How long a VMM may take to ask, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a request of a guest its next one waits at least so long,
const LEAST_PAUSE: Duration = Duration::from_micros(100);
/// and so many times as long as the last one took: a guest gets a quarter of a core at most.
const PAUSES: u32 = 3;

/// Serves what asks on `socket`, until it ends the connection or `stop` is readable.
pub(super) fn serve(kernel: &dyn Kernel, device: &Device, socket: &OwnedFd, stop: &OwnedFd) {
    match begin(kernel, device, socket) {
        Ok((guest, server)) => {
            let pid = guest.vmm.pid();
            info!("the guest of process {pid} is served");
            // A VMM that is gone by now is seen as soon as we wait.
            let _ = daemon::answer(socket, &Answer::Serving);
            let did = until_the_end(&guest, &server, socket, stop);
            // Before the VMM sees that we have ended.
            drop(server);
            match did {
                Ok(did) => info!(
                    "the guest of process {pid} is served no more: in {} requests {} pairs were exchanged and {} refused",
                    did.requests, did.exchanged, did.refused
                ),
                Err(error) => info!("the guest of process {pid} is served no more: {error}"),
            }
        }
        Err(reason) => {
            info!("a guest is not served: {reason}");
            let _ = daemon::answer(socket, &Answer::Refused(reason));
        }
    }
}

/// Receives and checks the request.
fn begin<'a>(
    kernel: &dyn Kernel,
    device: &'a Device,
    socket: &OwnedFd,
) -> Result<(OfProcess<'a>, Server), String> {
    for timeout in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(socket, timeout, Some(PATIENCE)).map_err(|error| error.to_string())?;
    }
    let vmm = peer::identify(kernel, socket)?;
    let received =
        daemon::receive(socket).map_err(|error| format!("nothing was asked: {error}"))?;
    let Received {
        request,
        page,
        doorbell,
    } = received.map_err(|malformed| malformed.to_string())?;
    let ranges = request.ranges.into_iter().map(|(guest, bytes, address)| {
        // An address that this program cannot name is none of a process either.
        (guest, bytes, usize::try_from(address).unwrap_or(usize::MAX))
    });
    let memory = Memory::elsewhere(ranges).map_err(|error| error.to_string())?;
    let server = Server::adopt(page, doorbell).map_err(|error| error.to_string())?;
    Ok((
        OfProcess {
            device,
            vmm,
            memory,
        },
        server,
    ))
}

/// No time at all.
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// What came of all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    requests: u64,
    exchanged: u64,
    refused: u64,
}

fn until_the_end(
    guest: &OfProcess<'_>,
    server: &Server,
    socket: &OwnedFd,
    stop: &OwnedFd,
) -> Result<Totals, Errno> {
    // Each ring is an event of its own. So it need not be read: the VMM has it too, and could have us wait in the read for good.
    let doorbell = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &doorbell,
        server.doorbell(),
        EventData::new_u64(0),
        EventFlags::IN | EventFlags::ET,
    )?;
    let mut ends = vec![socket.as_fd(), stop.as_fd()];
    // Another process may have the connection too, and keep it open.
    let vmm = guest.vmm.fd();
    ends.extend(vmm.as_ref().map(AsFd::as_fd));
    let mut totals = Totals::default();
    let mut rings = Vec::with_capacity(1);
    loop {
        let began = Instant::now();
        // The first time too: a guest may have asked before its VMM came to us.
        if let Some(served) = server.serve(guest) {
            totals.requests += 1;
            totals.exchanged += served.exchanged as u64;
            totals.refused += served.refused as u64;
        }
        let pause = LEAST_PAUSE.max(began.elapsed() * PAUSES);
        if is_end(&ends, None, Some(pause))? || is_end(&ends, Some(doorbell.as_fd()), None)? {
            return Ok(totals);
        }
        rings.clear();
        epoll::wait(&doorbell, spare_capacity(&mut rings), Some(&NOW))?;
    }
}

/// Waits, for some time at most, until the doorbell rings or one of `ends` says that the guest is to be served no more. Whether one does.
fn is_end(
    ends: &[BorrowedFd<'_>],
    doorbell: Option<BorrowedFd<'_>>,
    at_most: Option<Duration>,
) -> Result<bool, Errno> {
    let at_most = at_most.map(Timespec::try_from).transpose();
    let at_most = at_most.map_err(|_| Errno::INVAL)?;
    let mut wait: Vec<PollFd<'_>> = ends
        .iter()
        .map(|&end| PollFd::from_borrowed_fd(end, PollFlags::IN | PollFlags::RDHUP))
        .collect();
    wait.extend(doorbell.map(|doorbell| PollFd::from_borrowed_fd(doorbell, PollFlags::IN)));
    match poll(&mut wait, at_most.as_ref()) {
        // Who is interrupted looks once more than he has to.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    let mut ended = wait.iter().take(ends.len());
    Ok(ended.any(|end| !end.revents().is_empty()))
}
