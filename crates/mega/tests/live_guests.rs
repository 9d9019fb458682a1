//! A daemon that serves a guest, on the patched kernel. This process stands for the VMM and for its guest: it has the memory, hands
//! it over, and asks through the page.
//!
//! Ignored where cargo runs all tests: `kernel/vm/suites/run giant-live` runs them in a guest of such a kernel with the module.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use live::daemon::Daemon;
use live::{HUGE_PAGE, mega, run, until};
use mega_exchange::daemon::{Connection, Request};
use mega_exchange::state::{DONE, PENDING};
use mega_exchange::{Pair, Server};
use mega_lab::mapping::{Area, HUGE_PAGE as HUGE_PAGE_BYTES, WORDS_PER_PAGE};
use mega_lab::resident;
use rustix::io::Errno;
use serde_json::Value;

/// Where the guest sees its memory.
const GUEST: u64 = 4 << 30;
const BLOCKS: u64 = 64;
const ROUNDS: u64 = 20;
const WORDS: usize = HUGE_PAGE_BYTES / 8;
const GIANT_PAGE: u64 = 1 << 30;
/// Wherever it begins, memory of so many blocks has a whole span.
const ONE_SPAN: u64 = 1023;
/// How long the manager is waited for: an emulated machine that is not alone may take minutes to copy a span.
const LONG: Duration = Duration::from_secs(900);

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn a_daemon_exchanges_what_is_behind_a_guest() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("exchange.sock");
    let daemon = start_daemon(folder.path(), &socket, &nobody(folder.path()));
    // The last block is left without a page.
    let mut memory = marked_memory(BLOCKS, BLOCKS - 1);
    let server = Server::new().expect("a page");
    let connection = connect(&socket, &server, &memory);

    // Whoever is at the first place changes places with whoever is half of the memory further, again and again.
    let half = (BLOCKS - 1) / 2;
    let pairs: Vec<(u64, u64)> = (0..half).map(|block| (block, block + half)).collect();
    for round in 1..=ROUNDS {
        let results = exchange(&server, &pairs);
        assert!(results.iter().all(|&result| result == 0), "{results:?}");
        let moved = if round % 2 == 1 { half } else { 0 };
        check(&memory, BLOCKS - 1, |block| match block {
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
    check(&memory, BLOCKS - 1, |block| block);

    connection.end();
    assert_eq!(
        server.page().header.features.load(SeqCst) & 1,
        0,
        "not served"
    );
    // What a guest asks for all the same is not carried out while its VMM logs dirty pages or saves the machine, nor afterwards: the
    // VMM ends the request before it connects again.
    ask(&server, &[(0, 1)]);
    assert_eq!(server.page().header.state.load(SeqCst), PENDING);
    server.end_request();
    let connection = connect(&socket, &server, &memory);
    assert_eq!(exchange(&server, &[(2, 3)]), [0], "served again");
    assert_eq!(exchange(&server, &[(2, 3)]), [0]);
    connection.end();
    check(&memory, BLOCKS - 1, |block| block);
    // Written to after all that, each page is still the program's own.
    for page in memory.words_mut().chunks_exact_mut(WORDS_PER_PAGE) {
        page[0] = 7;
    }
    let mut marks = memory.words().iter().step_by(WORDS_PER_PAGE);
    assert!(marks.all(|&mark| mark == 7));
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
#[ignore = "needs the patched kernel and the module: kernel/vm/suites/run giant-live"]
fn the_host_mends_a_span_that_exchanges_broke_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("exchange.sock");
    let memory = marked_memory(ONE_SPAN, ONE_SPAN);
    let daemon = start_daemon(folder.path(), &socket, &this());
    let server = Server::new().expect("a page");
    let connection = connect(&socket, &server, &memory);
    let first = (memory.start().next_multiple_of(GIANT_PAGE) - memory.start()) / HUGE_PAGE;
    let pairs: Vec<(u64, u64)> = (first..first + 8)
        .map(|block| (block, block + 300))
        .collect();

    in_use(memory.words(), || {
        until_promoted(folder.path(), 1);
        assert_eq!(giant_bytes(), GIANT_PAGE);
        exchange_all(&server, &pairs);
        until_promoted(folder.path(), 2);
        // Where a pair was exchanged late, that was in vain.
        until("mended", || giant_bytes() == GIANT_PAGE);
    });
    check(&memory, ONE_SPAN, |block| {
        let other = |&(source, target): &(u64, u64)| match block {
            _ if block == source => Some(target),
            _ if block == target => Some(source),
            _ => None,
        };
        pairs.iter().find_map(other).unwrap_or(block)
    });
    connection.end();
    assert_eq!(daemon.stop(), Some(0));
}

/// A daemon that serves guests and manages what `select` says.
fn start_daemon(folder: &Path, socket: &Path, select: &str) -> Daemon {
    let config = folder.join("mega.toml");
    let text = format!("[exchange]\nsocket = \"{}\"\n{select}", socket.display());
    std::fs::write(&config, text).expect("written");
    Daemon::spawn(mega().env("MEGA_RUN_DIR", folder.join("run")), &config)
}

fn nobody(folder: &Path) -> String {
    format!(
        "[[select]]\nname = \"nobody\"\nexecutable = \"{}\"\n",
        folder.join("nobody").display()
    )
}

/// This program, as if its memory did not fit the TLB by huge pages.
fn this() -> String {
    format!(
        "[defaults]\ninterval = \"1s\"\ncpu_budget = \"100%\"\ncopy_budget = \"2GiB\"\n\
         [[select]]\nname = \"this\"\nexecutable = \"{}\"\npolicy = \"adaptive\"\nparameters = {{ tlb_entries = 16 }}\n",
        std::env::current_exe().expect("a program").display()
    )
}

/// Waits until the daemon's one group has made so many giant pages.
fn until_promoted(folder: &Path, count: u64) {
    let started = Instant::now();
    loop {
        // Just started, it has no status yet.
        let output = run(mega()
            .args(["status", "--json"])
            .env("MEGA_RUN_DIR", folder.join("run")));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let actions = &status["managers"][0]["groups"][0]["actions"];
        if actions["promoted_giant"].as_u64() >= Some(count) {
            return;
        }
        assert!(started.elapsed() < LONG, "never {count}: {actions}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn giant_bytes() -> u64 {
    resident::of_self().expect("smaps").giant_bytes
}

/// Does it while another thread uses each huge page of the memory.
fn in_use<T>(words: &[u64], task: impl FnOnce() -> T) -> T {
    /// Ends the other thread also where the task panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            while !over.load(SeqCst) {
                for word in words.iter().step_by(WORDS) {
                    std::hint::black_box(*word);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        task()
    })
}

/// Huge memory of so many blocks. In as many from the first on as are filled, each base page begins with a word of its own: a page
/// that goes astray shows by it.
fn marked_memory(blocks: u64, filled: u64) -> Area {
    let bytes = usize::try_from(blocks * HUGE_PAGE).expect("small");
    let mut memory = Area::map(bytes).expect("memory");
    memory.advise_huge().expect("THP");
    let words = usize::try_from(filled).expect("small") * WORDS;
    let pages = memory.words_mut()[..words].chunks_exact_mut(WORDS_PER_PAGE);
    for (mark, page) in (1..).zip(pages) {
        page[0] = mark;
    }
    let huge = resident::of_self().expect("smaps").huge_bytes;
    assert!(huge >= filled * HUGE_PAGE, "only {huge} bytes are huge");
    memory
}

/// Each page of the first blocks has the word of the block which is to be there.
fn check(memory: &Area, blocks: u64, at: impl Fn(u64) -> u64) {
    let pages = (WORDS / WORDS_PER_PAGE) as u64;
    for (block, words) in (0..blocks).zip(memory.words().chunks_exact(WORDS)) {
        let marks = words.iter().step_by(WORDS_PER_PAGE);
        let wrong = (1 + at(block) * pages..)
            .zip(marks)
            .find(|(right, mark)| right != *mark);
        assert_eq!(wrong, None, "block {block}");
    }
}

/// Has each pair exchanged, again where a page was busy for a moment.
fn exchange_all(server: &Server, pairs: &[(u64, u64)]) {
    let mut left = pairs.to_vec();
    until("exchanged", || {
        let mut results = exchange(server, &left).into_iter();
        left.retain(|_| results.next() != Some(0));
        left.is_empty()
    });
}

fn connect(socket: &Path, server: &Server, memory: &Area) -> Connection {
    let request = Request {
        ranges: vec![(GUEST, memory.bytes() as u64, memory.start())],
    };
    Connection::ask(socket, server, &request).expect("served")
}

/// Asks as a guest does, for pairs of blocks.
fn ask(server: &Server, pairs: &[(u64, u64)]) {
    let pair = |&(source, target)| Pair {
        source: GUEST + source * HUGE_PAGE,
        target: GUEST + target * HUGE_PAGE,
    };
    let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
    server.page().request(&pairs);
    rustix::io::write(server.doorbell(), &1_u64.to_ne_bytes()).expect("it rings");
}

/// Asks, and waits for the results.
fn exchange(server: &Server, pairs: &[(u64, u64)]) -> Vec<i32> {
    ask(server, pairs);
    let page = server.page();
    until("answered", || page.header.state.load(SeqCst) == DONE);
    let results = page.pairs.iter().take(pairs.len());
    results.map(|pair| pair.result.load(SeqCst)).collect()
}
