//! The simulated machine does what every machine must.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::collections::BTreeMap;

use mega_core::conformance::{Bench, violations};
use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, ProcessId, Region};
use mega_sim::address_space::Advice;
use mega_sim::physical::Layout;
use mega_sim::{Costs, Kernel, Settings, SimulatedMachine};

/// The machine, and how many pages of each region of a process hold data.
struct Simulated(SimulatedMachine, BTreeMap<ProcessId, u16>);

impl Simulated {
    fn new(settings: Settings) -> Self {
        let layout = Layout::one_node(256 << 20).unwrap();
        let kernel = Kernel::new(&layout, settings, Costs::mega_notebook());
        Simulated(SimulatedMachine::new(kernel, 4), BTreeMap::new())
    }
}

impl Bench for Simulated {
    type Machine = SimulatedMachine;

    fn machine(&mut self) -> &mut SimulatedMachine {
        &mut self.0
    }

    fn start(&mut self, regions: u64, filled: u16, zero: u16) -> (ProcessId, Region) {
        let kernel = self.0.kernel_mut();
        let pid = kernel.spawn(0);
        let start = kernel.map(pid, regions * HUGE_PAGE_SIZE, Advice::None);
        for region in 0..regions {
            for page in 0..u64::from(filled + zero) {
                let address = start + region * HUGE_PAGE_SIZE + page * BASE_PAGE_SIZE;
                kernel.touch(pid, address).unwrap();
                if page >= u64::from(filled) {
                    kernel.write_zeros(pid, address);
                }
            }
        }
        let process = kernel.process(pid).id;
        self.1.insert(process, filled);
        (process, Region::containing(start))
    }

    fn touch(&mut self, process: ProcessId, region: Region) {
        let kernel = self.0.kernel_mut();
        let pid = kernel.find(process).unwrap();
        for page in 0..self.1[&process].into() {
            kernel
                .touch(pid, region.start() + page * BASE_PAGE_SIZE)
                .unwrap();
        }
    }

    fn fork(&mut self, process: ProcessId) -> bool {
        let kernel = self.0.kernel_mut();
        let pid = kernel.find(process).unwrap();
        kernel.fork(pid).is_some()
    }

    fn end(&mut self, process: ProcessId) {
        let kernel = self.0.kernel_mut();
        let pid = kernel.find(process).unwrap();
        kernel.exit(pid);
    }
}

#[test]
fn it_conforms_without_giant_pages() {
    let mut bench = Simulated::new(Settings::default());
    assert_eq!(violations(&mut bench), [""; 0]);
    bench.0.kernel().check(0).unwrap();
}

#[test]
fn it_conforms_with_giant_pages() {
    let mut bench = Simulated::new(Settings {
        giant_pages: true,
        ..Settings::default()
    });
    assert_eq!(violations(&mut bench), [""; 0]);
}
