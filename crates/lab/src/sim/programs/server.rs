//! A server of keys and values with one thread, as Redis is: it stores all values, one request after the other, and then reads them
//! at random. Its clients each wait for the answer before they ask again, so a request waits for those of all others.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::latencies::Latencies;
use mega_sim::{Memory, Program, Work};

use crate::random::Random;

/// Bytes of a value: a page.
const VALUE: u64 = BASE_PAGE_SIZE;
/// Bytes of the table of keys for each value: a line.
const KEY: u64 = 64;

/// What a server has to do.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Load {
    /// Values that it stores.
    pub(in super::super) values: u64,
    /// The pieces in which it maps memory for them, in bytes: a multiple of a value's.
    pub(in super::super) piece: u64,
    /// Requests that read, for each value.
    pub(in super::super) reads: u64,
    pub(in super::super) clients: usize,
    /// Cycles that a request takes beside its touches.
    pub(in super::super) cycles: u64,
    pub(in super::super) seed: u64,
}

/// The server.
pub(in super::super) struct Server {
    load: Load,
    keys: Option<u64>,
    pieces: Vec<u64>,
    /// Requests that were answered.
    answered: u64,
    /// When the request of each client came, the next one first.
    waiting: VecDeque<u64>,
    random: Random,
    /// How long clients waited for an answer, in cycles.
    latencies: Rc<RefCell<Latencies>>,
}

impl Server {
    /// The server, and where it notes how long clients waited.
    pub(in super::super) fn new(load: Load) -> (Self, Rc<RefCell<Latencies>>) {
        let latencies = Rc::new(RefCell::new(Latencies::default()));
        let server = Server {
            load,
            keys: None,
            pieces: Vec::new(),
            answered: 0,
            waiting: VecDeque::new(),
            random: Random::new(load.seed),
            latencies: Rc::clone(&latencies),
        };
        (server, latencies)
    }

    /// Where a value lies; memory for it is mapped where that is not yet so.
    fn address(&mut self, memory: &mut Memory<'_>, value: u64) -> u64 {
        let piece = value * VALUE / self.load.piece;
        while self.pieces.len() as u64 <= piece {
            self.pieces.push(memory.map(self.load.piece, Advice::None));
        }
        let piece = usize::try_from(piece).unwrap_or(usize::MAX);
        self.pieces[piece] + value * VALUE % self.load.piece
    }

    fn serve(&mut self, memory: &mut Memory<'_>, keys: u64) -> Result<(), Fault> {
        let value = match self.answered {
            new if new < self.load.values => new,
            _ => self.random.below(self.load.values),
        };
        // The key's place in the table has nothing to do with the value's.
        let key = self.random.below(self.load.values);
        memory.touch(keys + key * KEY)?;
        let address = self.address(memory, value);
        memory.touch(address)?;
        memory.compute(self.load.cycles);
        Ok(())
    }
}

impl Program for Server {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let bytes = self.load.values * KEY;
        let keys = *self
            .keys
            .get_or_insert_with(|| memory.map(bytes, Advice::None));
        if self.waiting.is_empty() {
            self.waiting.resize(self.load.clients, memory.now());
        }
        self.serve(memory, keys)?;
        self.answered += 1;
        if let Some(came) = self.waiting.pop_front() {
            let now = memory.now();
            self.latencies.borrow_mut().record(now - came);
            self.waiting.push_back(now);
        }
        let all = self.load.values * (1 + self.load.reads);
        Ok(if self.answered < all {
            Work::GoesOn
        } else {
            Work::Finished
        })
    }
}
