//! Serves the requests of one guest in the page that it shares with us.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::page::{MAGIC, MAX_PAIRS, Mapped, PAGE_SHIFT, SERVING, SharedPage, VERSION, state};
use crate::{Error, Exchanger, Pair, Refusal};

/// The host's peer number on ivshmem: what a guest's doorbell names.
pub const HOST_PEER: u16 = 0;

/// What was done of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Pairs in the request.
    pub pairs: usize,
    /// Pairs that were exchanged.
    pub exchanged: usize,
    /// Pairs that were refused.
    pub refused: usize,
}

/// The page that a guest and its host share, and the doorbell that the guest rings.
#[derive(Debug)]
pub struct Server {
    page: Mapped,
    doorbell: OwnedFd,
}

impl Server {
    /// Makes page and doorbell. The page says at once that it is served, so serve it from now on.
    ///
    /// # Errors
    ///
    /// No memory or no descriptor is left.
    pub fn new() -> Result<Self, Error> {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::system("make a doorbell"))?;
        let server = Self {
            page: Mapped::new()?,
            doorbell,
        };
        let header = &server.page().header;
        header.version.store(VERSION, Relaxed);
        header.host_peer.store(HOST_PEER.into(), Relaxed);
        header
            .max_pairs
            .store(u32::try_from(MAX_PAIRS).unwrap_or(0), Relaxed);
        header.page_shift.store(PAGE_SHIFT, Relaxed);
        header.state.store(state::IDLE, Relaxed);
        header.session.store(random()?, Relaxed);
        header.magic.store(MAGIC, Relaxed);
        header.features.store(SERVING, Release);
        Ok(server)
    }

    /// The memory to show the guest as BAR 2: a memfd of [`PAGE_BYTES`](crate::PAGE_BYTES), sealed against a change of size.
    #[must_use]
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.page.memfd()
    }

    /// The eventfd that the guest's doorbell writes.
    #[must_use]
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// The page. Anything in it may change at any time.
    #[must_use]
    pub fn page(&self) -> &SharedPage {
        self.page.page()
    }

    /// Serves requests until `stop` is readable.
    ///
    /// # Errors
    ///
    /// Waiting fails, which the kernel does for lack of memory only.
    pub fn run(&self, exchanger: &Exchanger, stop: BorrowedFd<'_>) -> Result<(), Error> {
        loop {
            let mut wait = [
                PollFd::new(&self.doorbell, PollFlags::IN),
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
            ];
            match poll(&mut wait, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Error::system("wait for the guest")(error)),
            }
            if !wait[1].revents().is_empty() {
                return Ok(());
            }
            self.answer();
            self.serve(exchanger);
        }
    }

    /// Takes note that the doorbell rang, so that it is not readable until it rings again.
    pub fn answer(&self) {
        // It is not readable if it has not rung, which is as well.
        let _ = rustix::io::read(&self.doorbell, &mut [0; 8]);
    }

    /// Says in the page that it is not served any more: a guest that still maps it copies from now on.
    pub fn withdraw(&self) {
        self.page().header.features.fetch_and(!SERVING, Release);
    }

    /// Carries out the request that is pending, if there is one. A pair is taken just before it is exchanged, so what the
    /// guest cancels until then never happens.
    pub fn serve(&self, exchanger: &Exchanger) -> Option<Served> {
        let page = self.page();
        if !change(&page.header.state, state::PENDING, state::RUNNING) {
            return None;
        }
        let sequence = page.header.sequence.load(Relaxed);
        let pairs = snapshot(page);
        let mut served = Served {
            pairs: pairs.len(),
            exchanged: 0,
            refused: 0,
        };
        for (shared, plan) in page.pairs.iter().zip(exchanger.plan(&pairs)) {
            if !change(&shared.state, state::PENDING, state::RUNNING) {
                continue;
            }
            let result = plan.and_then(|(source, target)| exchanger.carry_out(source, target));
            match result {
                Ok(()) => served.exchanged += 1,
                Err(_) => served.refused += 1,
            }
            shared
                .result
                .store(result.err().map_or(0, Refusal::code), Relaxed);
            shared.state.store(state::DONE, Release);
        }
        page.header.done_sequence.store(sequence, Relaxed);
        change(&page.header.state, state::RUNNING, state::DONE);
        Some(served)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.withdraw();
    }
}

fn change(state: &std::sync::atomic::AtomicU32, from: u32, to: u32) -> bool {
    state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
}

/// The request's pairs, in private memory: the guest cannot change them after they were checked. None if their number is
/// out of range.
fn snapshot(page: &SharedPage) -> Vec<Pair> {
    let count = usize::try_from(page.header.pairs.load(Relaxed)).unwrap_or(usize::MAX);
    if count > MAX_PAIRS {
        return Vec::new();
    }
    page.pairs
        .iter()
        .take(count)
        .map(|pair| Pair {
            source: pair.source.load(Relaxed),
            target: pair.target.load(Relaxed),
        })
        .collect()
}

fn random() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::system("read /dev/urandom"))?;
    Ok(u64::from_ne_bytes(bytes))
}
