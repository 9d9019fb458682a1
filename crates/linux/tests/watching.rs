//! What a machine finds out of processes whose accesses nobody wants to know.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use common::skip;
use common::subject::Subject;
use mega_core::{Machine, ProcessId, ProcessObservation, Region};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, TrackerKind};

const REGIONS: usize = 8;

/// A process on base pages, and its memory.
fn filled() -> (Subject, Range<u64>) {
    let mut subject = Subject::start();
    let memory = subject.map("private", REGIONS);
    subject.advise("nohuge", &memory);
    subject.fill(&memory, 1);
    (subject, memory)
}

/// What is seen of a process after it ran for a while, and everybody's table of processes is brought up to date.
fn look(host: &Host, machine: &mut LinuxMachine, process: ProcessId) -> ProcessObservation {
    sleep(Duration::from_millis(200));
    let kernel = host.kernel().as_ref();
    host.processes().refresh(kernel, false).unwrap();
    let seen = machine.observe().unwrap();
    let mut processes = seen.processes.into_iter();
    processes.find(|seen| seen.process == process).unwrap()
}

/// Base pages of such memory that were accessed, as far as an observation knows.
fn accessed(seen: &ProcessObservation, memory: &Range<u64>) -> u64 {
    let inside = seen.regions.iter();
    let inside = inside.filter(|region| memory.contains(&region.region.start()));
    inside.map(|region| u64::from(region.accessed)).sum()
}

#[test]
fn what_works_is_left_alone_until_it_is_watched_and_what_rests_accesses_nothing() {
    let test = "what_works_is_left_alone_until_it_is_watched_and_what_rests_accesses_nothing";
    let host = match Host::open(HostOptions::default()) {
        Ok(host) => Arc::new(host),
        Err(error) => return skip(test, &error.to_string()),
    };
    if host.tracker_kind() != TrackerKind::Bpf {
        return skip(
            test,
            "only beside the bpf tracker mega clears the bits itself, and knows who rests",
        );
    }
    let (mut working, memory) = filled();
    let (resting, at_rest) = filled();
    // The last region only: the bits of the others stay as they were after the filling.
    let last = memory.end - mega_core::HUGE_PAGE_SIZE;
    working.ask(&format!("work {last} {}", memory.end));
    let mut machine = LinuxMachine::new(Arc::clone(&host), MachineOptions::default());
    machine.set_targets(vec![working.process(), resting.process()]);

    machine.watch(&|_| false);
    let mut worked = Duration::ZERO;
    for _ in 0..4 {
        let seen = look(&host, &mut machine, working.process());
        assert!(!seen.accesses_known);
        let before = std::mem::replace(&mut worked, seen.cpu_time.unwrap());
        assert!(worked > before, "it works");
        assert_eq!(machine.glance(), [], "nothing was cleared");
    }
    let regions: Vec<Region> = Region::wholly_inside(memory.start, memory.end).collect();
    let bits = machine.look(working.process(), &regions).unwrap();
    let kept: Vec<u16> = bits.iter().map(|region| region.accessed).collect();
    // A few may be clear for reasons of the kernel.
    assert!(
        kept.iter().all(|kept| *kept > 450),
        "somebody cleared them: {kept:?}"
    );
    let seen = look(&host, &mut machine, resting.process());
    assert!(seen.accesses_known);
    assert_eq!(accessed(&seen, &at_rest), 0);
    let rested = seen.cpu_time.unwrap();
    assert!(rested > Duration::ZERO, "it filled its memory");
    assert_eq!(
        look(&host, &mut machine, resting.process()).cpu_time,
        Some(rested)
    );

    machine.watch(&|_| true);
    assert!(
        !look(&host, &mut machine, working.process()).accesses_known,
        "of before it was cleared"
    );
    sleep(Duration::from_millis(200));
    let glances = machine.glance();
    let glance = glances
        .iter()
        .find(|seen| seen.process == working.process());
    let glance = glance.unwrap();
    assert!(glance.worked.unwrap() > Duration::ZERO, "it works");
    assert!(glance.length >= Duration::from_millis(200));
    let inside = glance.regions.iter();
    let inside = inside.filter(|seen| memory.contains(&seen.region.start()));
    let by_then: Vec<u16> = inside.map(|seen| seen.accessed).collect();
    assert_eq!(by_then.len(), REGIONS, "all were cleared");
    assert!(
        by_then[..REGIONS - 1].iter().all(|seen| *seen == 0),
        "{by_then:?}"
    );
    let seen = look(&host, &mut machine, working.process());
    assert!(seen.accesses_known);
    // Of the region in which it works; none where its translations are all in the TLB, as in an emulated guest.
    let accessed = accessed(&seen, &memory);
    assert!(accessed <= 512, "{accessed}");
    let by_then = u64::from(by_then[REGIONS - 1]);
    assert!(accessed >= by_then, "the glance cleared: {by_then}");
}
