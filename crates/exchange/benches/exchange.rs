//! What an exchange costs beside the copy that it saves, as a request through the page, in one run.
//!
//! `cargo bench -p mega-exchange [-- PAIRS]`; 512 pairs by default, which take 2 GiB of memory. Prints one JSON object. Times are
//! medians of interleaved repetitions, in microseconds for each pair. The copy is one memcpy of 2 MiB for each pair into
//! memory that is there, which is the least that a guest does. Exits 3 where the kernel has no `UFFDIO_MOVE`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    unreachable_pub
)]

#[path = "../tests/guest/mod.rs"]
mod guest;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
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
    let discard: Vec<Duration> = (0..REPETITIONS).map(|_| moved(&huge, pairs)).collect();
    drop(huge);

    let base_pairs = pairs.min(64);
    let base = Guest::new(2 * base_pairs, Kind::Base);
    touch(&base);
    let exchanger = Exchanger::new(vec![base.range()]).unwrap();
    let small: Vec<Duration> = (0..REPETITIONS)
        .map(|_| served(&server, &exchanger, base_pairs))
        .collect();

    let of = |mut times: Vec<Duration>, pairs: usize| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6 / pairs as f64
    };
    let (request, each, copy, small, discard) = (
        of(request, pairs),
        of(each, pairs),
        of(copy, pairs),
        of(small, base_pairs),
        of(discard, pairs),
    );
    println!(
        "{{\"pairs\": {pairs}, \"request_us\": {request:.2}, \"call_us\": {each:.2}, \"discard_us\": {discard:.2}, \"copy_us\": {copy:.1}, \
         \"base_pages_us\": {small:.1}, \"copy_by_request\": {:.1}, \"copy_by_base_pages\": {:.2}}}",
        copy / request,
        copy / small,
    );
    ExitCode::SUCCESS
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

/// For comparison, what no request does: the target is discarded, and the source moved there. Nothing comes back.
fn moved(guest: &Guest, pairs: usize) -> Duration {
    touch(guest);
    let flags = libc::O_CLOEXEC | 1;
    // SAFETY: the call takes flags only.
    let fd = i32::try_from(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) }).unwrap();
    // SAFETY: it is new, and nobody else's.
    let fd: OwnedFd = unsafe { OwnedFd::from_raw_fd(fd) };
    let call = |request: libc::c_ulong, arguments: &mut [u64]| {
        // SAFETY: the arrays below are as long as the structures that the requests read and write.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, arguments.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    };
    // UFFDIO_API with UFFD_FEATURE_MOVE, UFFDIO_REGISTER for write protection, UFFDIO_MOVE.
    call(0xc018_aa3f, &mut [0xaa, 1 << 16, 0]);
    call(
        0xc020_aa00,
        &mut [guest.start as u64, (guest.blocks * BLOCK) as u64, 2, 0],
    );
    let start = Instant::now();
    for index in 0..pairs {
        let (from, to) = (guest.address(index), guest.address(pairs + index));
        guest.advise(to, BLOCK, libc::MADV_DONTNEED);
        call(
            0xc028_aa05,
            &mut [to as u64, from as u64, BLOCK as u64, 1, 0],
        );
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
