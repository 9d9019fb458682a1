//! A program that forks: its child runs beside it, in memory that both had at the fork.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, Machine};
use mega_sim::address_space::{Advice, SharedId};
use mega_sim::kernel::{Fault, Pid};
use mega_sim::physical::Layout;
use mega_sim::{Costs, Kernel, Memory, Program, Settings, SimulatedMachine, Work};

const PAGES: u64 = 10;
const LIFE: Duration = Duration::from_millis(100);

/// Writes to private and to shared memory, forks, and writes to both again.
struct Parent {
    shared: SharedId,
    mapped: Option<[u64; 2]>,
    child: Rc<Cell<Option<Pid>>>,
}

/// Reads all of it, waits, and exits.
struct Child {
    mapped: [u64; 2],
    has_read: bool,
}

fn pages(start: u64) -> impl Iterator<Item = u64> {
    (0..PAGES).map(move |page| start + page * BASE_PAGE_SIZE)
}

impl Program for Parent {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let (mapped, work) = match self.mapped {
            Some(mapped) => {
                let child = Child {
                    mapped,
                    has_read: false,
                };
                self.child.set(memory.fork(child));
                (mapped, Work::Finished)
            }
            None => {
                let private = memory.map(PAGES * BASE_PAGE_SIZE, Advice::None);
                let mapped = [private, memory.map_shared(self.shared)];
                self.mapped = Some(mapped);
                (mapped, Work::GoesOn)
            }
        };
        for address in mapped.into_iter().flat_map(pages) {
            memory.touch(address)?;
        }
        Ok(work)
    }
}

impl Program for Child {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if self.has_read {
            return Ok(Work::Exits);
        }
        self.has_read = true;
        for address in self.mapped.into_iter().flat_map(pages) {
            assert!(memory.read(address)?.is_some());
        }
        Ok(Work::Rests(LIFE))
    }
}

#[test]
fn a_child_runs_beside_its_parent() {
    let layout = Layout::one_node(64 << 20).unwrap();
    let mut kernel = Kernel::new(&layout, Settings::default(), Costs::mega_notebook());
    let shared = kernel.share_memory(PAGES * BASE_PAGE_SIZE);
    let mut machine = SimulatedMachine::new(kernel, 4);
    let child = Rc::new(Cell::new(None));
    let program = Parent {
        shared,
        mapped: None,
        child: Rc::clone(&child),
    };
    let parent = machine.start(Box::new(program), 0);
    machine.rest(LIFE / 2);
    let child = child.get().unwrap();
    assert!(machine.ended(parent).is_some() && machine.ended(child).is_none());
    assert_eq!(machine.observe().unwrap().processes.len(), 2);
    // Private memory alone was copied.
    assert_eq!(machine.kernel().counters().copied_on_write, PAGES);
    machine.rest(LIFE);
    let ended = machine.ended(child).unwrap();
    assert!(ended.at > LIFE && ended.fault.is_none(), "{ended:?}");
    let mapped = machine.kernel().process(parent).space.mapped_bytes();
    assert_eq!(mapped.base, 2 * PAGES * BASE_PAGE_SIZE);
    machine.kernel().check(0).unwrap();
}
