//! What exchanges do to memory whose every page says which it is.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub
)]

mod guest;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use guest::{BLOCK, GUEST, Guest, Kind, PAGE, PAGES, Random, exchanger, pair};
use mega_exchange::{Exchanger, Refusal};

/// Exchanges random batches, and keeps a record of what is where. A page that the kernel migrates just then may be refused as busy, but
/// not many.
fn many_rounds(guest: &Guest, exchanger: &Exchanger, rounds: usize, blocks: usize) {
    let mut random = Random(0x6d65_6761);
    let mut busy = 0;
    let mut holds: Vec<usize> = (0..blocks).collect();
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..blocks).collect();
        for index in (1..blocks).rev() {
            order.swap(index, random.below(index + 1));
        }
        let pairs: Vec<(usize, usize)> = order[..8]
            .chunks(2)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        let asked: Vec<_> = pairs.iter().map(|(a, b)| pair(*a, *b)).collect();
        for ((a, b), result) in pairs.into_iter().zip(exchanger.exchange(&asked)) {
            match result {
                Ok(()) => holds.swap(a, b),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Busy);
                    busy += 1;
                }
            }
            guest.assert_tags(a, holds[a]);
            guest.assert_tags(b, holds[b]);
        }
    }
    for (block, was) in holds.iter().enumerate() {
        guest.assert_holds(block, *was);
    }
    assert!(
        busy <= rounds,
        "{busy} of {} pairs were refused",
        rounds * 4
    );
}

#[test]
fn huge_pages_are_exchanged_and_stay_huge_while_others_are_used() {
    let guest = Guest::new(20, Kind::Huge);
    (0..16).for_each(|block| guest.fill(block));
    (16..18).for_each(|block| guest.fill(block));
    let Some(exchanger) = exchanger(vec![guest.range()], "huge pages") else {
        return;
    };
    let huge = guest.huge_bytes();
    assert_eq!(huge, 18 * BLOCK as u64, "the kernel gave no huge pages");
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&end);
        // A CPU of the guest on pages that nobody exchanges, and a balloon on others.
        let cpu = scope.spawn(|| {
            let words =
                || (0..2 * PAGES).map(|page| guest.word(guest.address(16) + page * PAGE + 64));
            words().for_each(|word| word.store(0, Relaxed));
            let mut count = 0;
            while !end.load(Relaxed) {
                words().for_each(|word| assert_eq!(word.fetch_add(1, Relaxed), count));
                count += 1;
            }
        });
        let balloon = scope.spawn(|| {
            while !end.load(Relaxed) {
                guest.fill(18);
                guest.advise(guest.address(18), BLOCK, libc::MADV_DONTNEED);
                assert_eq!(guest.owner(18), None);
            }
        });
        many_rounds(&guest, &exchanger, 1500, 16);
        drop(ends);
        cpu.join().unwrap();
        balloon.join().unwrap();
    });
    guest.advise(guest.address(18), 2 * BLOCK, libc::MADV_DONTNEED);
    assert_eq!(guest.huge_bytes(), huge);
}

#[test]
fn base_pages_are_exchanged() {
    let guest = Guest::filled(8, Kind::Base);
    let Some(exchanger) = exchanger(vec![guest.range()], "base pages") else {
        return;
    };
    many_rounds(&guest, &exchanger, 150, 8);
    assert_eq!(guest.huge_bytes(), 0);
}

/// Linux 6.18 loses count of what it moves while pages are migrated: without a look at what is where, a page of some thousand pairs
/// was lost.
#[test]
fn what_is_migrated_meanwhile_is_not_lost() {
    let Ok(mut compact) = OpenOptions::new()
        .write(true)
        .open("/proc/sys/vm/compact_memory")
    else {
        assert!(
            std::env::var_os("CI").is_none(),
            "compaction can be asked for by root only"
        );
        eprintln!("what_is_migrated_meanwhile_is_not_lost: skipped, not root");
        return;
    };
    let guest = Guest::filled(8, Kind::Base);
    let Some(exchanger) = exchanger(vec![guest.range()], "migrated") else {
        return;
    };
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&end);
        scope.spawn(|| {
            while !end.load(Relaxed) {
                compact.write_all(b"1").unwrap();
            }
        });
        many_rounds(&guest, &exchanger, 600, 8);
        drop(ends);
    });
}

#[test]
fn holes_are_exchanged_as_holes() {
    let guest = Guest::new(4, Kind::Base);
    guest.fill(0);
    guest.fill(1);
    // Block 1 has every second page, block 2 has none.
    for page in (0..PAGES).step_by(2) {
        guest.advise(guest.address(1) + page * PAGE, PAGE, libc::MADV_DONTNEED);
    }
    let Some(exchanger) = exchanger(vec![guest.range()], "holes") else {
        return;
    };
    assert_eq!(exchanger.exchange(&[pair(0, 1)]), [Ok(())]);
    guest.assert_holds(1, 0);
    assert_eq!(
        exchanger.exchange(&[pair(0, 2), pair(1, 3)]),
        [Ok(()), Ok(())]
    );
    guest.assert_holds(3, 0);
    for page in 0..PAGES {
        let expected = if page % 2 == 0 {
            0
        } else {
            (2 << 32) | (page as u64 * 512)
        };
        assert_eq!(
            guest.word(guest.address(2) + page * PAGE).load(Relaxed),
            expected
        );
        assert_eq!(guest.word(guest.address(0) + page * PAGE).load(Relaxed), 0);
    }
}

/// On a kernel that frees empty page tables (6.14) a huge page stays one when it takes the place of base pages.
#[test]
fn a_huge_page_and_base_pages_are_exchanged() {
    let (huge, base) = (Guest::filled(2, Kind::Huge), Guest::filled(2, Kind::Base));
    // Or khugepaged makes base pages huge that are there between two rounds.
    huge.advise(huge.address(0), 2 * BLOCK, libc::MADV_NOHUGEPAGE);
    let ranges = vec![huge.range(), base.range_at(GUEST + 2 * BLOCK as u64)];
    let Some(exchanger) = exchanger(ranges, "a huge page and base pages") else {
        return;
    };
    for round in 0..20 {
        assert_eq!(
            exchanger.exchange(&[pair(0, 2), pair(3, 1)]),
            [Ok(()), Ok(())],
            "round {round}"
        );
        for block in 0..2 {
            huge.assert_holds(block, block);
            base.assert_holds(block, block);
        }
    }
    eprintln!(
        "{} of 4 MiB are huge",
        (huge.huge_bytes() + base.huge_bytes()) >> 20
    );
    if kernel_is_at_least(6, 14) {
        assert_eq!(huge.huge_bytes() + base.huge_bytes(), 2 * BLOCK as u64);
    }
    // What held base pages in between spoils no huge page later.
    let pure = Guest::filled(2, Kind::Huge);
    drop(exchanger);
    let exchanger =
        Exchanger::new(vec![base.range(), pure.range_at(GUEST + 2 * BLOCK as u64)]).unwrap();
    assert_eq!(exchanger.exchange(&[pair(0, 1)]), [Ok(())]);
    let before = pure.huge_bytes();
    assert_eq!(exchanger.exchange(&[pair(2, 3)]), [Ok(())]);
    assert_eq!(pure.huge_bytes(), before);
}

/// Ends the threads beside a test also where the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (major, minor)
}

/// Somebody breaks the promise and writes to a block while it is exchanged: only what he writes may be lost.
#[test]
fn a_page_touched_in_between_loses_no_other_data() {
    for kind in [Kind::Huge, Kind::Base] {
        let guest = Guest::filled(2, kind);
        let Some(exchanger) = exchanger(vec![guest.range()], "a touched page") else {
            return;
        };
        let end = AtomicBool::new(false);
        let mut refused = 0;
        thread::scope(|scope| {
            let ends = Ends(&end);
            let touching = scope.spawn(|| {
                let mut random = Random(7);
                while !end.load(Relaxed) {
                    let page = random.below(2 * PAGES);
                    guest
                        .word(guest.address(0) + page * PAGE + 8)
                        .store(1, Relaxed);
                }
            });
            let mut holds = [0, 1];
            for _ in 0..100 {
                match exchanger.exchange(&[pair(0, 1)])[0] {
                    Ok(()) => holds.swap(0, 1),
                    Err(Refusal::Busy) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
                guest.assert_tags(0, holds[0]);
                guest.assert_tags(1, holds[1]);
            }
            drop(ends);
            touching.join().unwrap();
        });
        eprintln!("{kind:?}: {refused} of 100 were refused");
        assert_eq!(exchanger.broken(), None);
    }
}

/// An io_uring with one registered buffer, which pins its pages.
struct Pin(i32);

impl Pin {
    fn new(address: usize, bytes: usize) -> Option<Self> {
        let mut parameters = [0_u8; 120];
        // SAFETY: struct io_uring_params has 120 bytes.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
        if ring < 0 {
            let error = std::io::Error::last_os_error();
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "pins: no io_uring: {error}"
            );
            eprintln!("pins is skipped: no io_uring: {error}");
            return None;
        }
        let buffer = libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(address),
            iov_len: bytes,
        };
        // SAFETY: IORING_REGISTER_BUFFERS (0) reads one iovec and pins what it names.
        let result =
            unsafe { libc::syscall(libc::SYS_io_uring_register, ring, 0, &raw const buffer, 1) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Some(Self(ring as i32))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: IORING_UNREGISTER_BUFFERS (1) takes nothing. It unpins at once; closing the ring does so later.
        unsafe { libc::syscall(libc::SYS_io_uring_register, self.0, 1, 0, 0) };
        // SAFETY: it is ours.
        unsafe { libc::close(self.0) };
    }
}

#[test]
fn pinned_pages_are_refused_and_what_was_begun_is_undone() {
    for kind in [Kind::Huge, Kind::Base] {
        let guest = Guest::filled(2, kind);
        let Some(exchanger) = exchanger(vec![guest.range()], "pins") else {
            return;
        };
        // Whichever of the two it is, and wherever in the block: a base page in the middle makes a move end there.
        for (block, page) in [(0, 0), (0, 300), (1, 0), (1, 300), (1, 511)] {
            let Some(pin) = Pin::new(guest.address(block) + page * PAGE, PAGE) else {
                return;
            };
            let huge = guest.huge_bytes();
            assert_eq!(
                exchanger.exchange(&[pair(0, 1)]),
                [Err(Refusal::Busy)],
                "{kind:?} {block} {page}"
            );
            (0..2).for_each(|block| guest.assert_holds(block, block));
            assert_eq!(guest.huge_bytes(), huge);
            drop(pin);
        }
        assert_eq!(exchanger.exchange(&[pair(0, 1)]), [Ok(())]);
        guest.assert_holds(0, 1);
        guest.assert_holds(1, 0);
    }
}

#[test]
fn a_pause_ends_what_runs_and_refuses_what_comes() {
    let guest = Guest::filled(4, Kind::Huge);
    let Some(exchanger) = exchanger(vec![guest.range()], "a pause") else {
        return;
    };
    let end = AtomicBool::new(false);
    let (done, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let ends = Ends(&end);
        let exchanging = scope.spawn(|| {
            let mut holds = [0, 1, 2, 3];
            while !end.load(Relaxed) {
                for (index, result) in exchanger
                    .exchange(&[pair(0, 1), pair(2, 3)])
                    .into_iter()
                    .enumerate()
                {
                    match result {
                        Ok(()) => {
                            holds.swap(2 * index, 2 * index + 1);
                            done.fetch_add(1, Relaxed);
                        }
                        Err(Refusal::Paused) => {
                            refused.fetch_add(1, Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            holds
        });
        let mut rounds = 0;
        // On a busy machine the other thread may not run in any of a hundred pauses.
        let has_seen_both = || done.load(Relaxed) > 0 && refused.load(Relaxed) > 0;
        while !exchanging.is_finished() && (rounds < 100 || !has_seen_both()) {
            rounds += 1;
            exchanger.pause();
            exchanger.pause();
            exchanger.resume().unwrap();
            // As a migration would see it: nothing moves.
            let before: Vec<_> = (0..4).map(|block| guest.owner(block)).collect();
            thread::sleep(std::time::Duration::from_micros(300));
            assert_eq!(
                (0..4).map(|block| guest.owner(block)).collect::<Vec<_>>(),
                before
            );
            exchanger.resume().unwrap();
            thread::sleep(std::time::Duration::from_micros(300));
        }
        drop(ends);
        let holds = exchanging.join().unwrap();
        (0..4).for_each(|block| guest.assert_holds(block, holds[block]));
    });
}

#[test]
fn locked_memory_is_exchanged() {
    let guest = Guest::filled(4, Kind::Huge);
    // SAFETY: our own mapping.
    let result = unsafe { libc::mlock(std::ptr::with_exposed_provenance(guest.start), 4 * BLOCK) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let Some(exchanger) = exchanger(vec![guest.range()], "locked memory") else {
        return;
    };
    assert_eq!(
        exchanger.exchange(&[pair(0, 1), pair(2, 3)]),
        [Ok(()), Ok(())]
    );
    for (block, was) in [1, 0, 3, 2].into_iter().enumerate() {
        guest.assert_holds(block, was);
    }
    assert_eq!(guest.huge_bytes(), 4 * BLOCK as u64);
}
