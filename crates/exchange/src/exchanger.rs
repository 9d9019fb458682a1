//! Exchanges pairs of blocks.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::kernel::{self, BYTES, Pagemap, Part, SMALLEST_PAGE, Spare, Userfaultfd};
use crate::memory::{Blocks, Memory, Pair, Range};
use crate::{Backend, Error, Refusal, mappings};

/// How often a move is tried again that has made no progress. The kernel asks for it (EAGAIN) if a page is being migrated, or
/// if somebody holds its lock.
const TRIES_AGAIN: u32 = 200;
/// The same where the page is busy (EBUSY). It passes soon if the kernel itself was at the page; a pin does not.
const TRIES_BUSY: u32 = 3;
/// Between two tries, after the first ones.
const PAUSE: Duration = Duration::from_micros(50);
/// How often a page is dropped that somebody brings into a block while it is empty, until a page is moved there.
const TRIES_EXIST: u32 = 16;

/// Exchanges what is behind pairs of blocks of one guest's memory. It may be used from any thread; one pair is exchanged at
/// a time.
#[derive(Debug)]
pub struct Exchanger {
    memory: Memory,
    userfaultfd: Userfaultfd,
    pagemap: Pagemap,
    /// Whether the guest's memory is locked, so the spare block has to be.
    locked: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    spare: Spare,
    /// Calls of `pause` without a `resume`.
    pauses: u32,
    /// Whether the memory is registered with userfaultfd. Not in a pause, nor where the kernel refused it after one.
    registered: bool,
    /// Why nothing is exchanged any more.
    broken: Option<&'static str>,
}

impl Exchanger {
    /// An exchanger over a guest's memory.
    ///
    /// # Errors
    ///
    /// The kernel is older than 6.8 or the sandbox forbids userfaultfd(2); ranges overlap or are not aligned alike; the memory
    /// is not private and anonymous; another userfaultfd is registered with it.
    pub fn new(ranges: Vec<Range>) -> Result<Self, Error> {
        let memory = Memory::new(ranges)?;
        let userfaultfd = Userfaultfd::open()?;
        let locked = mappings::check(memory.ranges())?;
        let spare = spare(&userfaultfd, locked)?;
        let exchanger = Self {
            memory,
            userfaultfd,
            pagemap: Pagemap::open()?,
            locked,
            state: Mutex::new(State {
                spare,
                pauses: 0,
                registered: true,
                broken: None,
            }),
        };
        exchanger.register()?;
        Ok(exchanger)
    }

    /// Exchanges the contents of each pair, in order. A pair that is refused is as before; the others are exchanged.
    /// From the call to its return nobody else may touch these blocks: what is written to them may be lost.
    pub fn exchange(&self, pairs: &[Pair]) -> Vec<Result<(), Refusal>> {
        self.memory
            .plan(pairs)
            .into_iter()
            .map(|plan| plan.and_then(|blocks| self.exchange_blocks(blocks)))
            .collect()
    }

    /// Waits until no pair is being exchanged, and refuses all others until [`resume`](Self::resume). The memory is not
    /// registered with userfaultfd meanwhile. Call it before dirty logging, migration, a snapshot, or a fork whose child goes on.
    /// Calls nest.
    pub fn pause(&self) {
        let mut state = self.lock();
        state.pauses += 1;
        if state.pauses == 1 && state.registered {
            self.unregister();
            state.registered = false;
        }
    }

    /// Ends a [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// The memory cannot be registered again. Nothing is exchanged from then on, until a later call succeeds.
    pub fn resume(&self) -> Result<(), Error> {
        let mut state = self.lock();
        state.pauses = state.pauses.saturating_sub(1);
        if state.pauses > 0 {
            return Ok(());
        }
        self.register()?;
        state.registered = true;
        Ok(())
    }

    /// Exchanges one pair that was planned.
    fn exchange_blocks(&self, Blocks { source, target }: Blocks) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.broken.is_some() {
            return Err(Refusal::Failed);
        }
        if !state.registered {
            return Err(Refusal::Paused);
        }
        let exchange = Exchange {
            userfaultfd: &self.userfaultfd,
            pagemap: &self.pagemap,
            spare: state.spare.part(),
            spoilt: Cell::new(false),
        };
        let result = exchange.run(source.into(), target.into());
        if exchange.spoilt.get()
            && let Ok(fresh) = spare(&self.userfaultfd, self.locked)
            && !matches!(result, Err(Failure::Stuck(_)))
        {
            state.spare = fresh;
        }
        result.map_err(|failure| match failure {
            Failure::Undone(error) => Refusal::of_move(error),
            Failure::Stuck(reason) => {
                state.broken = Some(reason);
                Refusal::Failed
            }
        })
    }

    /// Why nothing is exchanged any more: a pair could neither be exchanged nor undone, because its memory was unmapped in the
    /// middle. What it held is in the spare block, which stays.
    #[must_use]
    pub fn broken(&self) -> Option<&'static str> {
        self.lock().broken
    }

    /// No invariant spans a panic: the state is what the last finished pair left.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self) -> Result<(), Error> {
        for range in self.memory.ranges() {
            let (start, bytes) = range.blocks();
            if bytes == 0 {
                continue;
            }
            self.userfaultfd.register(start, bytes).map_err(|error| {
                self.unregister();
                Error::Unsuitable {
                    host: start,
                    reason: match error {
                        Errno::BUSY => "another userfaultfd is registered with it".into(),
                        other => {
                            format!("the kernel does not register it with userfaultfd: {other}")
                        }
                    },
                }
            })?;
        }
        Ok(())
    }

    /// Memory that is not registered, or not mapped any more, needs nothing.
    fn unregister(&self) {
        for range in self.memory.ranges() {
            let (start, bytes) = range.blocks();
            if bytes > 0 {
                let _ = self.userfaultfd.unregister(start, bytes);
            }
        }
    }
}

impl Backend for Exchanger {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    /// One, so that the guest can cancel the others meanwhile.
    fn at_once(&self) -> usize {
        1
    }

    fn carry_out(&self, pairs: &[Blocks]) -> Vec<Result<(), Refusal>> {
        let exchange = |blocks: &Blocks| {
            // They may be of another guest's memory, in another process: not what this one's ranges promise.
            if self.memory.has(blocks.source) && self.memory.has(blocks.target) {
                self.exchange_blocks(*blocks)
            } else {
                Err(Refusal::NotGuest)
            }
        };
        pairs.iter().map(exchange).collect()
    }
}

/// A fresh spare block, ready to be moved to and from.
fn spare(userfaultfd: &Userfaultfd, locked: bool) -> Result<Spare, Error> {
    let spare = Spare::new(locked).map_err(Error::system("map a spare block"))?;
    userfaultfd
        .register(spare.address(), BYTES)
        .map_err(Error::system("register the spare block with userfaultfd"))?;
    Ok(spare)
}

enum Failure {
    /// Both blocks are as before.
    Undone(Errno),
    /// A block's contents could be brought nowhere.
    Stuck(&'static str),
}

/// One exchange, through the spare block, which is empty before and after.
struct Exchange<'a> {
    userfaultfd: &'a Userfaultfd,
    pagemap: &'a Pagemap,
    spare: Part,
    /// Whether the spare block had base pages. Kernels before 6.14 keep the page table, which would split each huge page that is
    /// moved there later.
    spoilt: Cell<bool>,
}

impl Exchange<'_> {
    /// The target first: its contents are worth nothing to the guest. So wherever this thread is stopped for long, or for
    /// good, the source's contents are in the guest's memory, where the guest finds them.
    fn run(&self, source: Part, target: Part) -> Result<(), Failure> {
        let carried = self.carry(self.spare, target);
        self.spoilt.set(!self.pagemap.is_huge(self.spare));
        carried?;
        clear(target);
        if let Err(failure) = self.carry(target, source) {
            self.settle(target, self.spare)?;
            return Err(failure);
        }
        clear(source);
        self.settle(source, self.spare)?;
        clear(self.spare);
        Ok(())
    }

    /// Moves all pages of `from` to `to`, or none.
    fn carry(&self, to: Part, from: Part) -> Result<(), Failure> {
        let (moved, result) = self.move_on(to, from);
        let Err(error) = result else {
            return Ok(());
        };
        self.settle(from.first(moved), to.first(moved))?;
        self.take_back(to.after(moved), from.after(moved))?;
        Err(Failure::Undone(error))
    }

    /// Brings back from `to` what the kernel moved there and did not count (see [`move_on`](Self::move_on)), behind a page that somebody
    /// touched meanwhile.
    fn take_back(&self, to: Part, from: Part) -> Result<(), Failure> {
        for done in (0..to.bytes()).step_by(SMALLEST_PAGE) {
            let page = |part: Part| part.after(done).first(SMALLEST_PAGE);
            if self.is_moved(page(to), page(from)) {
                self.settle(page(from), page(to))?;
            }
        }
        Ok(())
    }

    /// Brings the contents of `from` to `to` whatever happens. `to` was emptied by us, so what is there now somebody put there
    /// who had promised not to touch it: it makes way. What cannot be moved is copied.
    fn settle(&self, to: Part, from: Part) -> Result<(), Failure> {
        let (mut done, mut tries) = (0, 0);
        while tries < TRIES_EXIST {
            let (moved, result) = self.move_on(to.after(done), from.after(done));
            done += moved;
            tries = if moved > 0 { 0 } else { tries + 1 };
            match result {
                Ok(()) => return Ok(()),
                // That page alone: the kernel may have moved others behind it.
                Err(Errno::EXIST) => clear(to.after(done).first(SMALLEST_PAGE)),
                Err(_) => break,
            }
        }
        kernel::copy(to.after(done), from.after(done)).map_err(|_| {
            Failure::Stuck("memory of the guest was unmapped while it was exchanged")
        })?;
        clear(from.after(done));
        Ok(())
    }

    /// Moves pages until it is done or makes no progress; says how far it came.
    ///
    /// Linux 6.18 does not count the pages that it moves after it has waited for one that was being migrated: it goes on at the first
    /// of them, finds it at its destination, and says EEXIST (move_pages() in mm/userfaultfd.c keeps the EAGAIN). So we look.
    fn move_on(&self, to: Part, from: Part) -> (usize, Result<(), Errno>) {
        let (mut done, mut again, mut busy) = (0, 0, 0);
        while done < from.bytes() {
            let (moved, result) = self
                .userfaultfd
                .move_pages(to.after(done), from.after(done));
            done += moved;
            let tries = match result {
                Ok(()) => return (from.bytes(), Ok(())),
                Err(_) if moved > 0 => {
                    (again, busy) = (0, 0);
                    continue;
                }
                Err(Errno::EXIST) if self.is_moved(to.after(done), from.after(done)) => {
                    done += SMALLEST_PAGE;
                    continue;
                }
                Err(Errno::AGAIN) if again < TRIES_AGAIN => &mut again,
                Err(Errno::BUSY) if busy < TRIES_BUSY => &mut busy,
                Err(error) => return (done, Err(error)),
            };
            *tries += 1;
            if *tries > 1 {
                thread::sleep(PAUSE);
            }
        }
        (done, Ok(()))
    }

    /// Whether the first page of `from` is at the beginning of `to` already.
    fn is_moved(&self, to: Part, from: Part) -> bool {
        !self.pagemap.has_first(from) && self.pagemap.has_first(to)
    }
}

/// Drops what is in a part that we have emptied. A failure leaves a page or a page table there, which a later move reports.
fn clear(part: Part) {
    let _ = kernel::discard(part);
}
