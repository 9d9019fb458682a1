//! The page that a guest shares with us: requests that are well made, given up, and hostile.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub
)]

mod guest;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use guest::{BLOCK, GUEST, Guest, Kind, Random, exchanger, pair};
use mega_exchange::state::{CANCELLED, DONE, IDLE, PENDING, RUNNING};
use mega_exchange::{MAX_PAIRS, Pair, Served, Server, SharedPage};

/// Writes a request as a guest does, with its number.
fn request(page: &SharedPage, pairs: &[Pair], sequence: u64) {
    page.header.sequence.store(sequence, Relaxed);
    page.request(pairs);
}

fn results(page: &SharedPage, count: usize) -> Vec<(u32, i32)> {
    page.pairs[..count]
        .iter()
        .map(|pair| (pair.state.load(Relaxed), pair.result.load(Relaxed)))
        .collect()
}

#[test]
fn a_request_is_carried_out_pair_by_pair() {
    let guest = Guest::filled(6, Kind::Huge);
    let Some(exchanger) = exchanger(vec![guest.range()], "a request") else {
        return;
    };
    let server = Server::new().unwrap();
    let page = server.page();
    assert_eq!(page.header.magic.load(Relaxed).to_le_bytes(), *b"MEGAEXCH");
    assert_eq!(page.header.features.load(Relaxed), 1);
    assert_eq!(server.serve(&exchanger), None);

    let outside = Pair {
        source: GUEST,
        target: 0,
    };
    request(page, &[pair(0, 1), outside, pair(1, 2), pair(4, 5)], 77);
    page.pairs[3].state.store(CANCELLED, Relaxed);
    let served = server.serve(&exchanger).unwrap();
    assert_eq!(
        served,
        Served {
            pairs: 4,
            exchanged: 1,
            refused: 2
        }
    );
    assert_eq!(
        results(page, 4),
        [
            (DONE, 0),
            (DONE, -libc::EPERM),
            (DONE, -libc::EINVAL),
            (CANCELLED, -1)
        ]
    );
    assert_eq!(page.header.state.load(Relaxed), DONE);
    assert_eq!(page.header.done_sequence.load(Relaxed), 77);
    for (block, was) in [1, 0, 2, 3, 4, 5].into_iter().enumerate() {
        guest.assert_holds(block, was);
    }

    // What was given up, and what nobody asked for, is never carried out.
    for state in [IDLE, RUNNING, DONE, CANCELLED, 5, u32::MAX] {
        request(page, &[pair(0, 1)], 78);
        page.header.state.store(state, Relaxed);
        assert_eq!(server.serve(&exchanger), None);
        assert_eq!(page.header.state.load(Relaxed), state);
    }
    // Nor is a request of an impossible size.
    for count in [0, MAX_PAIRS as u32 + 1, u32::MAX] {
        request(page, &[pair(0, 1)], 79);
        page.header.pairs.store(count, Relaxed);
        assert_eq!(
            server.serve(&exchanger),
            Some(Served {
                pairs: 0,
                exchanged: 0,
                refused: 0
            })
        );
        assert_eq!(results(page, 1), [(PENDING, -1)]);
        assert_eq!(page.header.state.load(Relaxed), DONE);
    }
    guest.assert_holds(0, 1);
    server.withdraw();
    assert_eq!(page.header.features.load(Relaxed), 0);
}

#[test]
fn a_thread_serves_until_it_is_stopped() {
    let guest = Guest::filled(2, Kind::Huge);
    let Some(exchanger) = exchanger(vec![guest.range()], "a thread") else {
        return;
    };
    let server = Server::new().unwrap();
    let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&exchanger, std::os::fd::AsFd::as_fd(&stop)));
        for round in 1..=200 {
            request(server.page(), &[pair(0, 1)], round);
            rustix::io::write(server.doorbell(), &1_u64.to_ne_bytes()).unwrap();
            while server
                .page()
                .header
                .state
                .load(std::sync::atomic::Ordering::Acquire)
                != DONE
            {
                assert!(!serving.is_finished());
                thread::yield_now();
            }
            assert_eq!(server.page().header.done_sequence.load(Relaxed), round);
            guest.assert_tags(0, (round % 2) as usize);
        }
        rustix::io::write(&stop, &1_u64.to_ne_bytes()).unwrap();
        serving.join().unwrap().unwrap();
    });
    guest.assert_holds(1, 1);
}

/// A guest writes anything anywhere in the page while it is served. Its own blocks may change places; nothing else may
/// happen, to them or to what lies beside them.
#[test]
fn a_hostile_guest_harms_nobody() {
    const BLOCKS: usize = 12;
    let guest = Guest::filled(BLOCKS, Kind::Huge);
    // The blocks around it belong to the VMM.
    let beside = [guest.start - BLOCK, guest.start + BLOCKS * BLOCK];
    let word = |start: usize, index: usize| guest.word(start + index * 8);
    let pattern = |start: usize, index: usize| (start + index) as u64 ^ 0x5555_5555_5555_5555;
    for start in beside {
        (0..BLOCK / 8).for_each(|index| word(start, index).store(pattern(start, index), Relaxed));
    }
    let Some(exchanger) = exchanger(vec![guest.range()], "a hostile guest") else {
        return;
    };
    let server = Server::new().unwrap();
    let page = server.page();
    let end = AtomicBool::new(false);
    let (mut requests, mut exchanged) = (0, 0);
    thread::scope(|scope| {
        let hostile = scope.spawn(|| {
            let mut random = Random(0xbad);
            while !end.load(Relaxed) {
                // Often enough a request that looks right, or there is nothing to change in the middle.
                if random.below(8) == 0 {
                    let pairs: Vec<Pair> = (0..1 + random.below(MAX_PAIRS))
                        .map(|_| pair(random.below(BLOCKS + 1), random.below(BLOCKS + 1)))
                        .collect();
                    request(page, &pairs, random.next());
                }
                for _ in 0..random.below(600) {
                    let target = &page.pairs[random.below(MAX_PAIRS)];
                    match random.below(8) {
                        0 => target.source.store(random.next(), Relaxed),
                        1 => target
                            .target
                            .store(GUEST.wrapping_sub(BLOCK as u64), Relaxed),
                        2 => target.source.store(u64::MAX - (BLOCK as u64) + 1, Relaxed),
                        3 => target
                            .target
                            .store(GUEST + (random.below(BLOCKS) * BLOCK) as u64, Relaxed),
                        4 => target.state.store(random.below(6) as u32, Relaxed),
                        5 => target.result.store(random.next() as i32, Relaxed),
                        6 => page.header.state.store(random.below(6) as u32, Relaxed),
                        _ => page
                            .header
                            .pairs
                            .store(random.next() as u32 >> random.below(32), Relaxed),
                    }
                }
            }
        });
        while requests < 300 || exchanged < 200 {
            match server.serve(&exchanger) {
                Some(served) => {
                    requests += 1;
                    exchanged += served.exchanged;
                }
                None => thread::yield_now(),
            }
            assert!(!hostile.is_finished(), "the hostile guest has failed");
        }
        end.store(true, Relaxed);
    });
    let mut owners = BTreeSet::new();
    for block in 0..BLOCKS {
        let owner = guest.owner(block).unwrap();
        guest.assert_holds(block, owner);
        assert!(owners.insert(owner), "block {owner} is there twice");
    }
    for start in beside {
        (0..BLOCK / 8)
            .for_each(|index| assert_eq!(word(start, index).load(Relaxed), pattern(start, index)));
    }
    assert_eq!(exchanger.broken(), None);
}

#[test]
fn a_request_of_a_guest_that_was_reset_is_never_carried_out() {
    let guest = Guest::filled(2, Kind::Huge);
    let Some(exchanger) = exchanger(vec![guest.range()], "a reset") else {
        return;
    };
    let server = Server::new().unwrap();
    let page = server.page();
    request(page, &[pair(0, 1)], 1);
    server.end_request();
    assert_eq!(page.header.state.load(Relaxed), CANCELLED);
    assert_eq!(server.serve(&exchanger), None);
    guest.assert_holds(0, 0);
}

#[test]
fn a_server_that_died_leaves_the_guest_free_to_ask_again() {
    let guest = Guest::filled(6, Kind::Huge);
    let Some(exchanger) = exchanger(vec![guest.range()], "a dead server") else {
        return;
    };
    let server = Server::new().unwrap();
    let page = server.page();
    request(page, &[pair(0, 1), pair(2, 3), pair(4, 5)], 1);
    // As one leaves it that dies at the second pair.
    page.header.state.store(RUNNING, Relaxed);
    page.pairs[0].state.store(DONE, Relaxed);
    page.pairs[1].state.store(RUNNING, Relaxed);
    server.end_request();
    let states: Vec<u32> = results(page, 3)
        .into_iter()
        .map(|(state, _)| state)
        .collect();
    assert_eq!(states, [DONE, DONE, CANCELLED]);
    assert_eq!(page.header.state.load(Relaxed), DONE);
    assert_eq!(server.serve(&exchanger), None);

    request(page, &[pair(0, 1)], 2);
    assert_eq!(server.serve(&exchanger).unwrap().exchanged, 1);
    guest.assert_holds(0, 1);
}
