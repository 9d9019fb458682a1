//! What no exchanger is made over, each with its reason.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub
)]

mod guest;

use guest::{BLOCK, GUEST, Guest, Kind, exchanger, pair};
use mega_exchange::{Error, Exchanger, Pair, Range, Refusal};

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

fn assert_refused(ranges: Vec<Range>, reason: &str) {
    match Exchanger::new(ranges) {
        Err(error @ (Error::Unsuitable { .. } | Error::BadRange { .. })) => {
            assert!(error.to_string().contains(reason), "{error}");
        }
        other => panic!("expected a refusal because {reason}: {other:?}"),
    }
}

#[test]
fn memory_that_cannot_be_exchanged_is_refused() {
    let probe = Guest::new(1, Kind::Base);
    if exchanger(vec![probe.range()], "refusals").is_none() {
        return;
    }

    let shared = Guest::with_flags(2, Kind::Base, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    assert_refused(vec![shared.range()], "it is shared");

    // Without a pool of huge pages there is still the mapping, which is all that is looked at.
    let hugetlb = Guest::with_flags(
        2,
        Kind::Huge,
        PRIVATE | libc::MAP_HUGETLB | libc::MAP_NORESERVE,
    );
    assert_refused(vec![hugetlb.range()], "hugetlb");

    let half_locked = Guest::new(4, Kind::Base);
    // SAFETY: our own mapping.
    let result =
        unsafe { libc::mlock(std::ptr::with_exposed_provenance(half_locked.start), BLOCK) };
    assert_eq!(result, 0);
    assert_refused(vec![half_locked.range()], "locked");

    let unmapped = Guest::new(4, Kind::Base);
    // SAFETY: our own mapping; this part is used no more, and mapped again before it is dropped.
    unsafe {
        libc::munmap(
            std::ptr::with_exposed_provenance_mut(unmapped.address(2)),
            BLOCK,
        )
    };
    assert_refused(vec![unmapped.range()], "nothing is mapped");

    let read_only = Guest::new(4, Kind::Base);
    // SAFETY: our own mapping, which is not written any more.
    unsafe {
        libc::mprotect(
            std::ptr::with_exposed_provenance_mut(read_only.address(3)),
            BLOCK,
            libc::PROT_READ,
        )
    };
    assert_refused(vec![read_only.range()], "not readable and writable");

    let odd = Guest::new(4, Kind::Base);
    // SAFETY: within the mapping.
    assert_refused(
        vec![unsafe { Range::new(GUEST, BLOCK as u64, odd.start + 4096) }],
        "differ modulo 2 MiB",
    );
    assert_refused(
        vec![odd.range(), odd.range_at(GUEST + (8 * BLOCK) as u64)],
        "share memory of this process",
    );
    assert_refused(
        vec![odd.range(), probe.range()],
        "same guest-physical address",
    );
}

#[test]
fn a_file_is_refused() {
    let probe = Guest::new(1, Kind::Base);
    if exchanger(vec![probe.range()], "a file").is_none() {
        return;
    }
    let memfd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memfd, (4 * BLOCK) as u64).unwrap();
    for (flags, reason) in [
        (libc::MAP_PRIVATE, "file or memfd"),
        (libc::MAP_SHARED, "it is shared"),
    ] {
        let guest = Guest::new(2, Kind::Base);
        // SAFETY: over our own mapping, which is dropped with it.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::with_exposed_provenance_mut(guest.start),
                2 * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_FIXED,
                std::os::fd::AsRawFd::as_raw_fd(&memfd),
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        assert_refused(vec![guest.range()], reason);
    }
}

#[test]
fn memory_has_one_exchanger_until_it_is_paused() {
    let guest = Guest::filled(2, Kind::Huge);
    let Some(first) = exchanger(vec![guest.range()], "one exchanger") else {
        return;
    };
    assert_refused(vec![guest.range()], "another userfaultfd");
    first.pause();
    let second = Exchanger::new(vec![guest.range()]).unwrap();
    let error = first.resume().unwrap_err();
    assert!(error.to_string().contains("another userfaultfd"), "{error}");
    assert_eq!(first.exchange(&[pair(0, 1)]), [Err(Refusal::Paused)]);
    drop(second);
    first.pause();
    first.resume().unwrap();
    assert_eq!(first.exchange(&[pair(0, 1)]), [Ok(())]);
    guest.assert_holds(0, 1);
}

#[test]
fn a_pair_outside_the_memory_or_in_it_twice_is_refused() {
    let guest = Guest::filled(4, Kind::Huge);
    let Some(exchanger) = exchanger(vec![guest.range()], "pairs") else {
        return;
    };
    let outside = Pair {
        source: GUEST + 4 * BLOCK as u64,
        target: GUEST,
    };
    let odd = Pair {
        source: GUEST + 4096,
        target: GUEST,
    };
    let pairs = [pair(0, 0), outside, odd, pair(0, 1), pair(1, 2), pair(3, 2)];
    let expected = [
        Err(Refusal::Invalid),
        Err(Refusal::NotGuest),
        Err(Refusal::Invalid),
        Ok(()),
        Err(Refusal::Invalid),
        Ok(()),
    ];
    assert_eq!(exchanger.exchange(&pairs), expected);
    for (block, was) in [1, 0, 3, 2].into_iter().enumerate() {
        guest.assert_holds(block, was);
    }
}
