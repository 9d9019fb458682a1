//! A host that exchanges a guest's memory badly, for `kernel/vm/suites/bad-host`: the server of the guest's ivshmem device, in a
//! process of its own. The guest's memory is a file, and it exchanges blocks by copying what is in them.
//!
//! usage: `bad_host SOCKET MEMORY BELOW REQUESTS`: where QEMU connects, the file, how many of its bytes the guest sees below
//! 4 GiB, and after how many requests it dies.

// It fails as a test does.
#![allow(clippy::expect_used)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;

use mega_exchange::state::{DONE, PENDING, RUNNING};
use mega_exchange::{BLOCK_BYTES, Pair, Server, SharedPage, ivshmem};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// How many pairs it exchanges before it dies.
const LAST_PAIRS: usize = 3;
/// Where the guest sees the memory that is not below.
const HIGH: u64 = 4 << 30;

/// What it does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Honest,
    /// It comes when the guest has taken the request back.
    Late,
    /// It says of a pair that it is done when the guest has taken back those after it.
    LateInTheMiddle,
    /// It exchanges, and says that it refuses.
    Silent,
    /// It says that it has exchanged.
    Boastful,
    /// It exchanges, and writes anything over the request.
    Scribbling,
    /// It ends in the middle of a pair.
    Dying,
}

const IN_TURN: [Manner; 6] = [
    Manner::Honest,
    Manner::Late,
    Manner::LateInTheMiddle,
    Manner::Silent,
    Manner::Boastful,
    Manner::Scribbling,
];

/// The guest's memory.
struct Memory {
    file: File,
    below: u64,
}

impl Memory {
    fn offset(&self, address: u64) -> u64 {
        match address.checked_sub(HIGH) {
            Some(above) => self.below + above,
            None => address,
        }
    }

    fn read(&self, address: u64) -> Vec<u8> {
        let mut block = vec![0; usize::try_from(BLOCK_BYTES).expect("2 MiB")];
        self.file
            .read_exact_at(&mut block, self.offset(address))
            .expect("the guest names its own memory");
        block
    }

    fn write(&self, block: &[u8], address: u64) {
        self.file
            .write_all_at(block, self.offset(address))
            .expect("the guest names its own memory");
    }

    fn exchange(&self, pair: Pair) {
        let (source, target) = (self.read(pair.source), self.read(pair.target));
        self.write(&source, pair.target);
        self.write(&target, pair.source);
    }

    /// As far as the first half of the source's pages: the target's were put aside, and are lost.
    fn exchange_half(&self, pair: Pair) {
        let mut source = self.read(pair.source);
        let mut target = vec![0; source.len()];
        let half = source.len() / 2;
        target[..half].swap_with_slice(&mut source[..half]);
        self.write(&target, pair.target);
        self.write(&source, pair.source);
    }
}

fn change(state: &AtomicU32, from: u32, to: u32) -> bool {
    state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
}

/// Waits until the guest gives up: it takes back what is pending.
fn until_taken_back(state: &AtomicU32) {
    while state.load(Acquire) == PENDING {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Serves the request that is pending. False if the host is dead.
fn serve(page: &SharedPage, memory: &Memory, manner: Manner) -> bool {
    if manner == Manner::Late {
        until_taken_back(&page.header.state);
    }
    if !change(&page.header.state, PENDING, RUNNING) {
        return true;
    }
    let pairs = pairs(page);
    if manner == Manner::Scribbling {
        scribble(page);
    }
    for (number, &pair) in pairs.iter().enumerate() {
        let shared = &page.pairs[number];
        if !change(&shared.state, PENDING, RUNNING) {
            continue;
        }
        if manner == Manner::Dying && number == LAST_PAIRS {
            memory.exchange_half(pair);
            return false;
        }
        if manner != Manner::Boastful {
            memory.exchange(pair);
        }
        if manner == Manner::LateInTheMiddle && number == pairs.len() / 2 {
            until_taken_back(&page.pairs[pairs.len() - 1].state);
        }
        match manner {
            Manner::Silent => shared.result.store(-Errno::BUSY.raw_os_error(), Relaxed),
            Manner::Scribbling => {}
            _ => shared.result.store(0, Relaxed),
        }
        shared.state.store(DONE, Release);
    }
    change(&page.header.state, RUNNING, DONE);
    true
}

fn pairs(page: &SharedPage) -> Vec<Pair> {
    let count = usize::try_from(page.header.pairs.load(Relaxed)).expect("a number");
    let pairs = page.pairs.iter().take(count);
    pairs
        .map(|pair| Pair {
            source: pair.source.load(Relaxed),
            target: pair.target.load(Relaxed),
        })
        .collect()
}

/// Writes over all that says nothing of how far it is.
fn scribble(page: &SharedPage) {
    let header = &page.header;
    header.pairs.store(u32::MAX, Relaxed);
    header.max_pairs.store(0, Relaxed);
    header.sequence.store(u64::MAX, Relaxed);
    header.done_sequence.store(u64::MAX, Relaxed);
    header.session.store(0, Relaxed);
    for pair in &page.pairs {
        pair.source.store(u64::MAX, Relaxed);
        pair.target.store(0, Relaxed);
        pair.result.store(i32::MIN, Relaxed);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, socket, memory, below, requests] = &arguments[..] else {
        eprintln!("usage: bad_host SOCKET MEMORY BELOW REQUESTS");
        std::process::exit(2);
    };
    let requests: usize = requests.parse().expect("a number of requests");
    let server = Server::new().expect("a page");
    let listener = UnixListener::bind(socket).expect("a socket");
    let (qemu, _) = listener.accept().expect("QEMU");
    ivshmem::introduce(&qemu, &server).expect("QEMU hears");
    let memory = Memory {
        file: File::options()
            .read(true)
            .write(true)
            .open(memory)
            .expect("the guest's memory"),
        below: below.parse().expect("a number of bytes"),
    };
    let alive = IN_TURN.into_iter().cycle().take(requests);
    for manner in alive.chain([Manner::Dying]) {
        poll(&mut [PollFd::new(&server.doorbell(), PollFlags::IN)], None).expect("the doorbell");
        server.answer();
        if !serve(server.page(), &memory, manner) {
            // At once: it takes nothing back, and says nothing in the page.
            std::process::exit(0);
        }
    }
}
