//! Memory that several processes share is counted and promoted once, on the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use common::skip;
use common::subject::Subject;
use mega_core::{
    Action, ActionKind, Cause, Machine, Observation, Outcome, ProcessId, Region, RegionRef,
};
use mega_linux::process::not_eligible::Reason;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

const REGIONS: usize = 8;

/// Some processes that map one memfd, each where it likes.
struct Backends {
    subjects: Vec<(Subject, Range<u64>)>,
}

impl Backends {
    fn start(count: usize) -> Self {
        let file = rustix::fs::memfd_create("backends", rustix::fs::MemfdFlags::empty()).unwrap();
        rustix::fs::ftruncate(&file, (REGIONS << 21) as u64).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let start = |_| {
            // Faults as the system has them: one kept to base pages would map no huge page, whoever made it.
            let mut subject = Subject::start_with(|_| {});
            let range = subject.open(&path, REGIONS);
            (subject, range)
        };
        Backends {
            subjects: (0..count).map(start).collect(),
        }
    }

    fn processes(&self) -> Vec<ProcessId> {
        self.subjects
            .iter()
            .map(|(subject, _)| subject.process())
            .collect()
    }

    fn range_of(&self, process: ProcessId) -> &Range<u64> {
        let found = self
            .subjects
            .iter()
            .find(|(subject, _)| subject.pid() == process.pid);
        &found.unwrap().1
    }

    /// How many regions of the shared memory were seen of each process.
    fn seen(&self, observation: &Observation) -> BTreeMap<ProcessId, usize> {
        let seen = observation.processes.iter().map(|observed| {
            let range = self.range_of(observed.process);
            let inside = observed
                .regions
                .iter()
                .filter(|seen| range.contains(&seen.region.start()));
            (observed.process, inside.count())
        });
        seen.collect()
    }
}

/// The running kernel's version, as 6.12.
fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|number| number.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn promote(process: ProcessId, range: &Range<u64>) -> Vec<Action> {
    Region::wholly_inside(range.start, range.end)
        .map(|region| Action {
            kind: ActionKind::Promote,
            target: RegionRef { process, region },
        })
        .collect()
}

#[test]
fn shared_memory_is_counted_and_promoted_once() {
    let name = "shared_memory_is_counted_and_promoted_once";
    let host = match Host::open(HostOptions::default()) {
        Ok(host) => Arc::new(host),
        Err(error) => return skip(name, &error.to_string()),
    };
    let mut backends = Backends::start(3);
    // The second has touched most.
    let touched = [2, REGIONS, 1];
    for (index, touched) in touched.into_iter().enumerate() {
        let (subject, range) = &mut backends.subjects[index];
        let part = range.start..range.start + ((touched as u64) << 21);
        subject.fill(&part, 1);
    }
    let processes = backends.processes();
    let mut machine = LinuxMachine::new(host, MachineOptions::default());
    machine.set_targets(processes.clone());
    let seen = backends.seen(&machine.observe().unwrap());
    assert_eq!(seen.values().sum::<usize>(), REGIONS, "{seen:?}");
    assert_eq!(seen[&processes[1]], REGIONS);
    for &process in [&processes[0], &processes[2]] {
        let reason = Reason::CountedWith {
            pid: processes[1].pid,
        };
        let told = machine.not_eligible(process);
        let is_told = |range: &Range<u64>| {
            told.iter()
                .any(|part| part.range == *range && part.reason == reason)
        };
        assert!(is_told(backends.range_of(process)), "{told:?}");
        let outcomes = machine.act(&promote(process, backends.range_of(process)));
        assert_eq!(outcomes, [Outcome::Failed(Cause::NotEligible); REGIONS]);
    }
    // Through the one it is promoted, again where a page was busy for a moment.
    let actions = promote(processes[1], backends.range_of(processes[1]));
    let is_huge = |outcome: &Outcome| matches!(outcome, Outcome::Done { .. } | Outcome::AlreadySo);
    let mut outcomes = Vec::new();
    for _ in 0..50 {
        outcomes = machine.act(&actions);
        if outcomes.iter().all(is_huge) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(outcomes.iter().all(is_huge), "{outcomes:?}");
    // The others map it huge when they touch it, and find the same data. Before 6.6 the kernel may leave them what they
    // map by base pages already, if it does not get their mmap locks.
    let takes_out = kernel_version() >= (6, 6);
    let mut sums = Vec::new();
    for ((subject, range), touched) in backends.subjects.iter_mut().zip(touched) {
        subject.touch(&range.clone(), 1);
        let is_through = subject.pid() == processes[1].pid;
        let left = if takes_out || is_through { 0 } else { touched };
        let expected = ((REGIONS - left) as u64) << 21;
        let huge = subject.huge_bytes(range);
        assert!(
            huge >= expected,
            "{huge} of {expected}, {touched} touched before"
        );
        sums.push(subject.sum(&range.clone(), 1));
    }
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    // It stays with that process, though all have as much now, until that is gone.
    let seen = backends.seen(&machine.observe().unwrap());
    assert_eq!(seen[&processes[1]], REGIONS);
    let (mut gone, _) = backends.subjects.remove(1);
    gone.kill();
    let seen = backends.seen(&machine.observe().unwrap());
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen.values().sum::<usize>(), REGIONS, "{seen:?}");
}
