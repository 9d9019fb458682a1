//! A daemon that serves a guest, on the patched kernel. This process stands for the VMM and for its guest: it has the memory, hands
//! it over, and asks through the page.
//!
//! Ignored where cargo runs all tests: `kernel/vm/suites/run giant-live` runs them in a guest of such a kernel with the module.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use live::daemon::Daemon;
use live::{HUGE_PAGE, mega, until};
use mega_exchange::daemon::{Connection, Request};
use mega_exchange::{Pair, Server};
use mega_lab::mapping::{Area, HUGE_PAGE as HUGE_PAGE_BYTES};
use mega_lab::resident;
use rustix::io::Errno;

/// Where the guest sees its memory.
const GUEST: u64 = 4 << 30;
const BLOCKS: u64 = 64;
const ROUNDS: u64 = 20;
const WORDS: usize = HUGE_PAGE_BYTES / 8;
/// The state of a request that was answered (`mega_exchange.h`).
const DONE: u32 = 3;

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn a_daemon_exchanges_what_is_behind_a_guest() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("exchange.sock");
    let daemon = start_daemon(folder.path(), &socket);
    // The last block is left without a page.
    let mut memory = huge_memory(BLOCKS);
    let server = Server::new().expect("a page");
    let connection = connect(&socket, &server, &memory);

    // Whoever is at the first place changes places with whoever is half of the memory further, again and again.
    let half = (BLOCKS - 1) / 2;
    let pairs: Vec<(u64, u64)> = (0..half).map(|block| (block, block + half)).collect();
    for round in 1..=ROUNDS {
        let results = exchange(&server, &pairs);
        assert!(results.iter().all(|&result| result == 0), "{results:?}");
        let moved = if round % 2 == 1 { half } else { 0 };
        check(&memory, |block| match block {
            _ if block >= 2 * half => block,
            _ => (block + moved) % (2 * half),
        });
    }
    let huge = resident::of(std::process::id()).expect("smaps").huge_bytes;
    assert!(huge >= (BLOCKS - 1) * HUGE_PAGE, "{huge} bytes are huge");

    let refused = exchange(&server, &[(0, BLOCKS - 1), (1, BLOCKS), (2, 2), (3, 4)]);
    let errno = |error: Errno| -error.raw_os_error();
    assert_eq!(refused[1], errno(Errno::PERM), "beyond the guest's memory");
    assert_eq!(refused[2], errno(Errno::INVAL), "with itself");
    assert_eq!(refused[3], 0, "the others do not matter");
    assert!(refused[0] < 0, "nothing is there: {refused:?}");
    assert_eq!(exchange(&server, &[(3, 4)]), [0]);
    check(&memory, |block| block);

    connection.end();
    assert_eq!(
        server.page().header.features.load(SeqCst) & 1,
        0,
        "not served"
    );
    // Written to after all that, each page is still the program's own.
    memory.words_mut().iter_mut().for_each(|word| *word = 7);
    assert!(memory.words().iter().all(|&word| word == 7));
    assert_eq!(daemon.stop(), Some(0));
}

fn start_daemon(folder: &Path, socket: &Path) -> Daemon {
    let config = folder.join("mega.toml");
    let text = format!(
        "[exchange]\nsocket = \"{}\"\n[[select]]\nname = \"nobody\"\nexecutable = \"{}\"\n",
        socket.display(),
        folder.join("nobody").display()
    );
    std::fs::write(&config, text).expect("written");
    Daemon::spawn(mega().env("MEGA_RUN_DIR", folder.join("run")), &config)
}

/// Memory of so many blocks, huge and filled but for the last one.
fn huge_memory(blocks: u64) -> Area {
    let bytes = usize::try_from(blocks * HUGE_PAGE).expect("small");
    let mut memory = Area::map(bytes).expect("memory");
    memory.advise_huge().expect("THP");
    let filled = usize::try_from(blocks - 1).expect("small") * WORDS;
    for (place, word) in (0..).zip(&mut memory.words_mut()[..filled]) {
        *word = place;
    }
    let huge = resident::of(std::process::id()).expect("smaps").huge_bytes;
    assert!(
        huge >= (blocks - 1) * HUGE_PAGE,
        "only {huge} bytes are huge"
    );
    memory
}

/// Each word of each block is that of the block which is to be there.
fn check(memory: &Area, at: impl Fn(u64) -> u64) {
    for (block, words) in (0..BLOCKS - 1).zip(memory.words().chunks_exact(WORDS)) {
        let first = at(block) * WORDS as u64;
        let wrong = (first..).zip(words).find(|(right, word)| right != *word);
        assert_eq!(wrong, None, "block {block}");
    }
}

fn connect(socket: &Path, server: &Server, memory: &Area) -> Connection {
    let request = Request {
        ranges: vec![(GUEST, BLOCKS * HUGE_PAGE, memory.start())],
    };
    Connection::ask(socket, server, &request).expect("served")
}

/// Asks as a guest does, for pairs of blocks, and waits for their results.
fn exchange(server: &Server, pairs: &[(u64, u64)]) -> Vec<i32> {
    let page = server.page();
    let pair = |&(source, target)| Pair {
        source: GUEST + source * HUGE_PAGE,
        target: GUEST + target * HUGE_PAGE,
    };
    let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
    page.request(&pairs);
    rustix::io::write(server.doorbell(), &1_u64.to_ne_bytes()).expect("it rings");
    until("answered", || page.header.state.load(SeqCst) == DONE);
    let results = page.pairs.iter().take(pairs.len());
    results.map(|pair| pair.result.load(SeqCst)).collect()
}
