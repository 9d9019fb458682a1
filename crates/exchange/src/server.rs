//! Serves the requests of one guest in the page that it shares with us.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::memory::Blocks;
use crate::page::{
    MAGIC, MAX_PAIRS, Mapped, PAGE_SHIFT, SERVING, SharedPage, SharedPair, VERSION, state,
};
use crate::{Backend, Error, Pair, Refusal, Unserved};

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

impl Served {
    /// Tells the guest what came of a pair.
    fn end(&mut self, shared: &SharedPair, result: Result<(), Refusal>) {
        match result {
            Ok(()) => self.exchanged += 1,
            Err(_) => self.refused += 1,
        }
        shared
            .result
            .store(result.err().map_or(0, Refusal::code), Relaxed);
        shared.state.store(state::DONE, Release);
    }
}

/// Pairs that run: the guest can cancel them no more.
#[derive(Default)]
struct Taken<'a> {
    shared: Vec<&'a SharedPair>,
    blocks: Vec<Blocks>,
}

impl<'a> Taken<'a> {
    fn add(&mut self, shared: &'a SharedPair, blocks: Blocks) {
        self.shared.push(shared);
        self.blocks.push(blocks);
    }

    /// Has them exchanged, and takes none any more.
    fn carry_out(&mut self, backend: &impl Backend, served: &mut Served) {
        if self.blocks.is_empty() {
            return;
        }
        let mut results = backend.carry_out(&self.blocks).into_iter();
        for shared in self.shared.drain(..) {
            // A backend answers for each; of one that did not nobody knows more.
            served.end(shared, results.next().unwrap_or(Err(Refusal::Failed)));
        }
        self.blocks.clear();
    }
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

    /// Serves a page and a doorbell that another process made by [`new`](Self::new): says in the page that it is served.
    ///
    /// # Errors
    ///
    /// The memory could be taken away under us, or is too small; the doorbell is no eventfd.
    pub fn adopt(memory: OwnedFd, doorbell: OwnedFd) -> Result<Self, Error> {
        let name = std::fs::read_link(format!("/proc/self/fd/{}", doorbell.as_raw_fd()))
            .map_err(Error::system("look at the doorbell"))?;
        if name.as_os_str() != "anon_inode:[eventfd]" {
            return Err(Error::NotShared("the doorbell is no eventfd"));
        }
        let server = Self {
            page: Mapped::adopt(memory)?,
            doorbell,
        };
        server.offer();
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
    pub fn run(&self, backend: &impl Backend, stop: BorrowedFd<'_>) -> Result<(), Error> {
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
            self.serve(backend);
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

    /// Says in the page that it is not served, and why.
    pub fn refuse(&self, reason: Unserved) {
        let header = &self.page().header;
        header.refusal.store(reason as u32, Relaxed);
        self.withdraw();
    }

    /// Says in the page again that it is served, after [`withdraw`](Self::withdraw) or [`refuse`](Self::refuse).
    pub fn offer(&self) {
        self.page().header.refusal.store(0, Relaxed);
        self.page().header.features.fetch_or(SERVING, Release);
    }

    /// Ends a request whose guest was reset, or whose server is gone: it is never carried out later, and the guest may ask again.
    /// Nobody serves the page at the time.
    pub fn end_request(&self) {
        let page = self.page();
        change(&page.header.state, state::PENDING, state::CANCELLED);
        if page.header.state.load(Acquire) != state::RUNNING {
            return;
        }
        for pair in &page.pairs {
            change(&pair.state, state::PENDING, state::CANCELLED);
            // Whether it was exchanged its token says.
            change(&pair.state, state::RUNNING, state::DONE);
        }
        change(&page.header.state, state::RUNNING, state::DONE);
    }

    /// Carries out the request that is pending, if there is one. A pair is taken just before it is exchanged, with as many others
    /// as the backend takes at once, so what the guest cancels until then never happens.
    pub fn serve(&self, backend: &impl Backend) -> Option<Served> {
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
        let mut taken = Taken::default();
        for (shared, plan) in page.pairs.iter().zip(backend.memory().plan(&pairs)) {
            if !change(&shared.state, state::PENDING, state::RUNNING) {
                continue;
            }
            match plan {
                Ok(blocks) => taken.add(shared, blocks),
                Err(refusal) => served.end(shared, Err(refusal)),
            }
            if taken.blocks.len() >= backend.at_once() {
                taken.carry_out(backend, &mut served);
            }
        }
        taken.carry_out(backend, &mut served);
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
