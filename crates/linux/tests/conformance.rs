//! The live machine does what every machine must.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use common::skip;
use common::subject::Subject;
use mega_core::conformance::{Bench, violations};
use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, ProcessId, Region};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

/// The machine, its processes, how many bytes of each of their regions hold data, and their children.
struct Live {
    machine: LinuxMachine,
    subjects: BTreeMap<ProcessId, (Subject, u64)>,
    children: BTreeMap<ProcessId, i32>,
}

impl Live {
    fn manage(&mut self) {
        self.machine
            .set_targets(self.subjects.keys().copied().collect());
    }
}

impl Bench for Live {
    type Machine = LinuxMachine;

    fn machine(&mut self) -> &mut LinuxMachine {
        &mut self.machine
    }

    fn start(&mut self, regions: u64, filled: u16, zero: u16) -> (ProcessId, Region) {
        let mut subject = Subject::start();
        let process = subject.process();
        let all = subject.map("private", usize::try_from(regions).unwrap());
        let filled = u64::from(filled) * BASE_PAGE_SIZE;
        let zero = u64::from(zero) * BASE_PAGE_SIZE;
        for region in Region::wholly_inside(all.start, all.end) {
            let data: Range<u64> = region.start()..region.start() + filled;
            subject.fill(&data, 1);
            subject.zero(&(data.end..data.end + zero));
        }
        assert!(filled + zero <= HUGE_PAGE_SIZE);
        self.subjects.insert(process, (subject, filled));
        self.manage();
        (process, Region::containing(all.start))
    }

    fn touch(&mut self, process: ProcessId, region: Region) {
        let (subject, filled) = self.subjects.get_mut(&process).unwrap();
        let data = region.start()..region.start() + *filled;
        // Of the whole region: a part would have its huge page split.
        subject.advise("flush", &(region.start()..region.end()));
        subject.touch(&data, 1);
    }

    fn fork(&mut self, process: ProcessId) -> bool {
        let subject = &mut self.subjects.get_mut(&process).unwrap().0;
        let child = i32::try_from(subject.ask("fork")).unwrap();
        self.children.insert(process, child);
        true
    }

    fn end(&mut self, process: ProcessId) {
        if let Some(child) = self.children.remove(&process) {
            // SAFETY: a signal to a child of this test's own process.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        // It stays a target, as a process does that ends while it is managed.
        self.subjects.get_mut(&process).unwrap().0.kill();
    }
}

#[test]
fn it_conforms() {
    let host = match Host::open(HostOptions::default()) {
        Ok(host) => Arc::new(host),
        Err(error) => return skip("it_conforms", &error.to_string()),
    };
    let mut bench = Live {
        machine: LinuxMachine::new(host, MachineOptions::default()),
        subjects: BTreeMap::new(),
        children: BTreeMap::new(),
    };
    assert_eq!(violations(&mut bench), [""; 0]);
}
