//! What an exchange costs beside the copy that it saves, as a request through the page, in one run.
//!
//! `cargo bench -p mega-exchange [-- PAIRS]`; 512 pairs by default, which take 2 GiB of memory. Prints one JSON object. Times are
//! medians of interleaved repetitions, in microseconds for each pair. The copy is one memcpy of 2 MiB for each pair into
//! memory that is there, which is the least that a guest does. `parts_us` is what an exchange is made of (`parts.rs`), alone and beside
//! another thread of the process: `nothing`, a call that ends at once; `give_back`, `MADV_DONTNEED` of a huge page; `move_hole`, a
//! move of a base page that is not there; `move`, one of a huge page into a hole; `token`, a write that finds a hole, as the next
//! token of a guest would after a single move. Exits 3 where the kernel has no `UFFDIO_MOVE`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    unreachable_pub
)]

#[path = "../../tests/guest/mod.rs"]
mod guest;
mod parts;

use std::process::ExitCode;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

use guest::{BLOCK, Guest, Kind, PAGE, pair};
use mega_exchange::{Exchanger, MAX_PAIRS, Server};

const REPETITIONS: usize = 7;

fn main() -> ExitCode {
    let pairs = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(MAX_PAIRS)
        .min(MAX_PAIRS);
    let huge = Guest::new(2 * pairs, Kind::Huge);
    touch(&huge);
    let Some(exchanger) = guest::exchanger(vec![huge.range()], "the benchmark") else {
        return ExitCode::from(3);
    };
    let server = Server::new().unwrap();
    let (mut request, mut each, mut copy) = (Vec::new(), Vec::new(), Vec::new());
    let before = huge.huge_bytes();
    for _ in 0..REPETITIONS {
        request.push(served(&server, &exchanger, pairs));
        each.push(one_by_one(&exchanger, pairs));
        copy.push(copied(&huge, pairs));
    }
    assert_eq!(huge.huge_bytes(), before, "huge pages were split");
    drop(exchanger);
    drop(huge);

    let base_pairs = pairs.min(64);
    let base = Guest::new(2 * base_pairs, Kind::Base);
    touch(&base);
    let exchanger = Exchanger::new(vec![base.range()]).unwrap();
    let small: Vec<Duration> = (0..REPETITIONS)
        .map(|_| served(&server, &exchanger, base_pairs))
        .collect();

    let (request, each, copy, small) = (
        of_each(request, pairs),
        of_each(each, pairs),
        of_each(copy, pairs),
        of_each(small, base_pairs),
    );
    println!(
        "{{\"pairs\": {pairs}, \"request_us\": {request:.2}, \"call_us\": {each:.2}, \"copy_us\": {copy:.1}, \
         \"base_pages_us\": {small:.1}, \"copy_by_request\": {:.1}, \"copy_by_base_pages\": {:.2}, \
         \"parts_us\": {}, \"parts_beside_a_thread_us\": {}}}",
        copy / request,
        copy / small,
        parts_of(pairs, false),
        parts_of(pairs, true),
    );
    ExitCode::SUCCESS
}

/// The median, in microseconds for each pair.
fn of_each(mut times: Vec<Duration>, pairs: usize) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6 / pairs as f64
}

/// What the parts of an exchange take, as a JSON object.
fn parts_of(pairs: usize, beside: bool) -> String {
    let runs: Vec<parts::Times> = (0..REPETITIONS)
        .map(|_| parts::measure(pairs, beside))
        .collect();
    let medians = runs[0].iter().enumerate().map(|(place, (name, _))| {
        let times = runs.iter().map(|run| run[place].1).collect();
        format!("\"{name}\": {:.2}", of_each(times, pairs))
    });
    format!("{{{}}}", medians.collect::<Vec<_>>().join(", "))
}

fn touch(guest: &Guest) {
    for page in 0..guest.blocks * BLOCK / PAGE {
        guest
            .word(guest.start + page * PAGE)
            .store(page as u64 + 1, Relaxed);
    }
}

/// One request of all pairs through the page and the doorbell, to a thread that serves.
fn served(server: &Server, exchanger: &Exchanger, pairs: usize) -> Duration {
    let page = server.page();
    for (index, shared) in page.pairs[..pairs].iter().enumerate() {
        let pair = pair(index, pairs + index);
        shared.source.store(pair.source, Relaxed);
        shared.target.store(pair.target, Relaxed);
        shared.state.store(1, Relaxed);
    }
    page.header.pairs.store(pairs as u32, Relaxed);
    let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            server
                .run(exchanger, std::os::fd::AsFd::as_fd(&stop))
                .unwrap()
        });
        thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        page.header.state.store(1, Release);
        rustix::io::write(server.doorbell(), &1_u64.to_ne_bytes()).unwrap();
        while page.header.state.load(Acquire) != 3 {
            thread::sleep(Duration::from_micros(20));
        }
        let took = start.elapsed();
        assert!(
            page.pairs[..pairs]
                .iter()
                .all(|pair| pair.result.load(Relaxed) == 0)
        );
        rustix::io::write(&stop, &1_u64.to_ne_bytes()).unwrap();
        took
    })
}

/// A call for each pair.
fn one_by_one(exchanger: &Exchanger, pairs: usize) -> Duration {
    let start = Instant::now();
    for index in 0..pairs {
        assert_eq!(exchanger.exchange(&[pair(index, pairs + index)]), [Ok(())]);
    }
    start.elapsed()
}

fn copied(guest: &Guest, pairs: usize) -> Duration {
    let start = Instant::now();
    for index in 0..pairs {
        let from: *const u8 = std::ptr::with_exposed_provenance(guest.address(index));
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(guest.address(pairs + index));
        // SAFETY: two different blocks of our own mapping, which nobody else accesses now.
        unsafe { std::ptr::copy_nonoverlapping(from, to, BLOCK) };
    }
    start.elapsed()
}
