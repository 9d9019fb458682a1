//! A server of values that saves them while it goes on, as Redis does: it forks, and the child reads all that the server had then and
//! writes it to a file.
//!
//! Requests come at a fixed pace, whatever becomes of those before: one that comes while the server forks waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::address_space::Advice;
use mega_sim::kernel::{Fault, Pid};
use mega_sim::latencies::Latencies;
use mega_sim::{Memory, Program, Work};

use crate::random::{Random, below};
use crate::sim::numbers::share;

/// Bytes of a value: a page.
const VALUE: u64 = BASE_PAGE_SIZE;
/// The hot values are one in so many, and get all writes but one in so many.
const HOT: usize = 10;
/// After so many bytes the child looks how much memory is in use.
const LOOKS: u64 = 64 * VALUE;

/// Which values are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Written {
    /// All alike.
    Anywhere,
    /// Nine times in ten a tenth of them, which lie among the others.
    Scattered,
    /// Nine times in ten a tenth of them, which lie side by side.
    Together,
}

/// What a server has to do. Times are in cycles.
#[derive(Clone, Debug)]
pub(in super::super) struct Load {
    /// Values that it has.
    pub(in super::super) values: u64,
    /// Between two requests.
    pub(in super::super) every: u64,
    /// What a request takes beside its touch.
    pub(in super::super) request: u64,
    /// One request in so many writes.
    pub(in super::super) writes: usize,
    pub(in super::super) written: Written,
    /// Since it stored all values: when it forks, in order.
    pub(in super::super) saves: Vec<u64>,
    /// The same: when it ends.
    pub(in super::super) end: u64,
    /// What saving a value takes.
    pub(in super::super) save: u64,
    pub(in super::super) seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(in super::super) struct Told {
    /// Whether a child is saving.
    pub(in super::super) saves: bool,
    /// What each fork took, in cycles.
    pub(in super::super) forks: Vec<u64>,
    /// How long whoever wrote waited for the answer, in cycles: while no child was saving, and while one was.
    pub(in super::super) writes: [Latencies; 2],
    /// The part of the server's memory in huge pages: before and after each save, and in the end.
    pub(in super::super) huge: Vec<f64>,
    /// Bytes in use on the machine before the latest fork.
    before: u64,
    /// Bytes in use at the worst moment of a save beyond those before its fork.
    pub(in super::super) added: u64,
}

/// Bytes in use on the machine.
fn in_use(memory: &Memory<'_>) -> u64 {
    let memory = memory.kernel().memory();
    (memory.frames() - memory.free_frames()) * BASE_PAGE_SIZE
}

/// The part of a process's memory that is in huge pages.
fn in_huge(memory: &Memory<'_>, pid: Pid) -> f64 {
    let mapped = memory.kernel().process(pid).space.mapped_bytes();
    share(mapped.huge, mapped.resident())
}

/// The server.
pub(in super::super) struct SavingServer {
    load: Load,
    start: Option<u64>,
    stored: u64,
    /// When the next request comes, and when the first one did.
    next: u64,
    first: u64,
    saves: VecDeque<u64>,
    random: Random,
    told: Rc<RefCell<Told>>,
}

impl SavingServer {
    /// The server, and where it tells what came of it.
    pub(in super::super) fn new(load: Load) -> (Self, Rc<RefCell<Told>>) {
        let told = Rc::new(RefCell::new(Told::default()));
        let server = SavingServer {
            start: None,
            stored: 0,
            next: 0,
            first: 0,
            saves: load.saves.iter().copied().collect(),
            random: Random::new(load.seed),
            told: Rc::clone(&told),
            load,
        };
        (server, told)
    }

    /// The value that is written next.
    fn choose_to_write(&mut self) -> u64 {
        let all = self.load.values;
        let hot = (all / HOT as u64).max(1);
        if self.load.written == Written::Anywhere || below(self.random.word(), HOT) == 0 {
            return self.random.below(all);
        }
        match self.load.written {
            Written::Scattered => self.random.below(hot) * HOT as u64 % all,
            Written::Anywhere | Written::Together => self.random.below(hot),
        }
    }

    /// Stores the next value.
    fn store(&mut self, memory: &mut Memory<'_>, start: u64) -> Result<Work, Fault> {
        memory.touch(start + self.stored * VALUE)?;
        memory.compute(self.load.request);
        self.stored += 1;
        if self.stored == self.load.values {
            (self.first, self.next) = (memory.now(), memory.now());
        }
        Ok(Work::GoesOn)
    }

    /// Forks, if it is time to. A save that could not begin is left out.
    fn save(&mut self, memory: &mut Memory<'_>, start: u64) {
        let began = memory.now();
        if self.saves.front().is_none_or(|at| self.first + at > began) {
            return;
        }
        self.saves.pop_front();
        let mut told = self.told.borrow_mut();
        told.huge.push(in_huge(memory, memory.pid()));
        told.before = in_use(memory);
        drop(told);
        let child = Save {
            next: start,
            end: start + self.load.values * VALUE,
            each: self.load.save,
            parent: memory.pid(),
            told: Rc::clone(&self.told),
        };
        if memory.fork(child).is_some() {
            let mut told = self.told.borrow_mut();
            told.forks.push(memory.now() - began);
            told.saves = true;
        }
    }

    fn serve(&mut self, memory: &mut Memory<'_>, start: u64) -> Result<(), Fault> {
        let writes = below(self.random.word(), self.load.writes) == 0;
        if writes {
            let value = self.choose_to_write();
            memory.touch(start + value * VALUE)?;
        } else {
            let value = self.random.below(self.load.values);
            memory.read(start + value * VALUE)?;
        }
        memory.compute(self.load.request);
        if writes {
            let mut told = self.told.borrow_mut();
            let saves = usize::from(told.saves);
            told.writes[saves].record(memory.now() - self.next);
        }
        self.next += self.load.every;
        Ok(())
    }
}

impl Program for SavingServer {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let bytes = self.load.values * VALUE;
        let start = *self
            .start
            .get_or_insert_with(|| memory.map(bytes, Advice::None));
        if self.stored < self.load.values {
            return self.store(memory, start);
        }
        self.save(memory, start);
        self.serve(memory, start)?;
        if self.next > self.first + self.load.end {
            let huge = in_huge(memory, memory.pid());
            self.told.borrow_mut().huge.push(huge);
            return Ok(Work::Finished);
        }
        let rest = self.next.saturating_sub(memory.now());
        if rest == 0 {
            return Ok(Work::GoesOn);
        }
        // Rounded up, so that the request is there by then.
        let rest = memory.kernel().costs().time(rest) + Duration::from_nanos(1);
        Ok(Work::Rests(rest))
    }
}

/// The child: it reads value after value, and exits.
struct Save {
    next: u64,
    end: u64,
    /// Cycles for each value.
    each: u64,
    parent: Pid,
    told: Rc<RefCell<Told>>,
}

impl Program for Save {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if self.next.is_multiple_of(LOOKS) || self.next >= self.end {
            let mut told = self.told.borrow_mut();
            told.added = told.added.max(in_use(memory).saturating_sub(told.before));
        }
        if self.next >= self.end {
            let mut told = self.told.borrow_mut();
            told.saves = false;
            told.huge.push(in_huge(memory, self.parent));
            return Ok(Work::Exits);
        }
        memory.read(self.next)?;
        memory.compute(self.each);
        self.next += VALUE;
        Ok(Work::GoesOn)
    }
}
