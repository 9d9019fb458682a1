//! The replayed machine does what every machine must, as far as a recording can.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use mega_core::conformance::{Bench, violations};
use mega_core::{
    HUGE_PAGE_SIZE, Machine, MemoryObservation, Observation, PageSize, ProcessId,
    ProcessObservation, Region, RegionObservation,
};
use mega_record::replay::{ReplayedMachine, SimulatedReplay, Terms};
use mega_record::{Header, Look};

/// Looks that are made while they are replayed: the bench does not know before what it will be asked for.
#[derive(Clone, Default)]
struct Live(Rc<RefCell<VecDeque<Look>>>);

impl Iterator for Live {
    type Item = Look;

    fn next(&mut self) -> Option<Look> {
        self.0.borrow_mut().pop_front()
    }
}

/// Processes, and the machine that replays what a recorder sees of them.
struct Recorded<M> {
    looks: Live,
    machine: M,
    processes: BTreeMap<ProcessId, ProcessObservation>,
    started: u32,
    last: Duration,
}

impl<M: Machine> Recorded<M> {
    fn new(split_gives_back: bool, make: impl FnOnce(&Header, Live) -> M) -> Self {
        let looks = Live::default();
        let header = Header {
            split_gives_back,
            ..Header::default()
        };
        // One machine is made by what the first look says of memory.
        let mut first = Look::default();
        first.observation.memory = memory();
        looks.0.borrow_mut().push_back(first);
        Recorded {
            machine: make(&header, looks.clone()),
            looks,
            processes: BTreeMap::new(),
            started: 0,
            last: Duration::ZERO,
        }
    }

    /// Records a look at this moment.
    fn look(&mut self) {
        let at = self.machine.now();
        let look = Look {
            at,
            observation: Observation {
                interval: at - self.last,
                processes: self.processes.values().cloned().collect(),
                memory: memory(),
                ..Observation::default()
            },
            ..Look::default()
        };
        self.last = at;
        for process in self.processes.values_mut() {
            process.accesses_known = true;
            for region in &mut process.regions {
                region.accessed = 0;
            }
        }
        self.looks.0.borrow_mut().push_back(look);
    }
}

fn memory() -> MemoryObservation {
    MemoryObservation {
        total: 1 << 30,
        available: 1 << 29,
        free: 1 << 29,
        contiguity: 1 << 28,
        nodes: Vec::new(),
    }
}

fn replayed(header: &Header, looks: Live) -> ReplayedMachine<Live> {
    ReplayedMachine::new(header, looks, Terms::default())
}

fn simulated(header: &Header, looks: Live) -> SimulatedReplay<Live> {
    SimulatedReplay::new(header, looks, Terms::default()).unwrap()
}

impl<M: Machine> Bench for Recorded<M> {
    type Machine = M;

    fn machine(&mut self) -> &mut M {
        self.look();
        &mut self.machine
    }

    fn start(&mut self, regions: u64, filled: u16, zero: u16) -> (ProcessId, Region) {
        self.started += 1;
        let process = ProcessId {
            pid: self.started,
            start_time: 1,
        };
        let region = |index| RegionObservation {
            region: Region::containing(index * HUGE_PAGE_SIZE),
            mapped: filled + zero,
            accessed: filled + zero,
            page_size: PageSize::Base,
            zero_filled: Some(zero),
            swapped: 0,
        };
        let first = u64::from(self.started) << 10;
        let observation = ProcessObservation {
            process,
            cpu_time: None,
            regions: (first..first + regions).map(region).collect(),
            accesses_known: false,
            node: None,
            cgroup: None,
        };
        self.processes.insert(process, observation);
        (process, Region::containing(first * HUGE_PAGE_SIZE))
    }

    fn touch(&mut self, process: ProcessId, region: Region) {
        let process = self.processes.get_mut(&process).unwrap();
        let mut regions = process.regions.iter_mut();
        let touched = regions.find(|seen| seen.region == region).unwrap();
        touched.accessed = touched.mapped - touched.zero_filled.unwrap();
    }

    fn end(&mut self, process: ProcessId) {
        self.processes.remove(&process);
    }
}

#[test]
fn it_conforms_where_a_split_gives_zeros_back() {
    assert_eq!(violations(&mut Recorded::new(true, replayed)), [""; 0]);
}

#[test]
fn it_conforms_where_a_split_gives_nothing_back() {
    assert_eq!(violations(&mut Recorded::new(false, replayed)), [""; 0]);
}

#[test]
fn it_conforms_on_the_simulated_kernel() {
    assert_eq!(violations(&mut Recorded::new(true, simulated)), [""; 0]);
}
