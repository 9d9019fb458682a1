//! The memory of a process that huge pages mapped when it was recorded: nobody knows which of its base pages were used.
//!
//! It is in use here, by huge pages as far as there are blocks, in a process of its own that no policy should see: what a policy would
//! make of it cannot be told. Its faults take nobody's time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use mega_core::{HUGE_PAGE_SIZE, ProcessId, Region};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::start::{POLL, Start, cycles, rest_until};
use super::tape::{Step, Tape};
use crate::look::Look;

/// The program that has it.
pub struct BlindMemory<L> {
    tape: Rc<RefCell<Tape<L>>>,
    process: ProcessId,
    start: Start,
    hertz: u64,
    has: BTreeSet<Region>,
    /// The look that it goes on to, once it is time for that.
    next: Option<Rc<Step>>,
    /// Whether it has rested until then.
    is_due: bool,
    is_ready: bool,
}

impl<L: Iterator<Item = Look>> BlindMemory<L> {
    /// That of a process. The machine's clock counts `hertz` cycles a second.
    pub fn new(tape: &Rc<RefCell<Tape<L>>>, process: ProcessId, start: &Start, hertz: u64) -> Self {
        start.wait_for_one_more();
        BlindMemory {
            tape: Rc::clone(tape),
            process,
            start: start.clone(),
            hertz,
            has: BTreeSet::new(),
            next: None,
            is_due: false,
            is_ready: false,
        }
    }

    /// Takes what is blind at a look and was not before.
    fn take(&mut self, memory: &mut Memory<'_>, step: &Step) -> Result<(), Fault> {
        for region in step.blind.difference(&self.has) {
            memory.map_at(region.start()..region.end(), Advice::Huge);
            let mut address = region.start();
            while address < region.end() {
                let size = memory.touch(address)?.bytes();
                address = (address / size + 1) * size;
            }
        }
        self.has.clone_from(&step.blind);
        Ok(())
    }

    /// Gives back what is not blind any more at a look.
    fn give(&mut self, memory: &mut Memory<'_>, step: &Step) {
        for region in self.has.difference(&step.blind) {
            memory.unmap(region.start(), HUGE_PAGE_SIZE);
        }
        self.has.retain(|region| step.blind.contains(region));
    }
}

impl<L: Iterator<Item = Look>> Program for BlindMemory<L> {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if !self.is_ready {
            self.is_ready = true;
            self.next = self.tape.borrow_mut().next_blind(self.process);
            if let Some(first) = self.next.take_if(|step| step.begins) {
                self.take(memory, &first)?;
            }
            self.start.ready(memory.now());
        }
        let Some(began) = self.start.began() else {
            return Ok(Work::Rests(POLL));
        };
        let next = self.next.take();
        let Some(step) = next.or_else(|| self.tape.borrow_mut().next_blind(self.process)) else {
            return Ok(Work::Finished);
        };
        let is_seen = step.regions.is_some();
        if !self.is_due {
            // What base pages map at the next look is theirs from now on.
            if is_seen {
                self.give(memory, &step);
            }
            let at = began + cycles(step.at, self.hertz);
            self.next = Some(step);
            self.is_due = true;
            return Ok(rest_until(memory, at, self.hertz));
        }
        self.is_due = false;
        if is_seen {
            self.take(memory, &step)?;
        }
        Ok(if step.is_last {
            Work::Exits
        } else {
            Work::GoesOn
        })
    }
}
