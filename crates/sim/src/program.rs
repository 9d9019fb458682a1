//! Programs that run on the simulated machine, and what they can do.

use std::time::Duration;

use mega_core::PageSize;

use crate::address_space::{Advice, SharedId};
use crate::kernel::{Fault, Kernel, Pid};
use crate::translation::{Counts, Mmu};

/// A program. It decides by itself what it does next, and by nothing but what it did and was told before.
pub trait Program {
    /// Works on, for some microseconds or so: the shorter, the finer programs and manager take turns.
    ///
    /// # Errors
    ///
    /// Where its memory could not be touched; the kernel ends it then.
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault>;
}

/// What a program does after a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It works on.
    GoesOn,
    /// It does nothing for that time.
    Rests(Duration),
    /// It has done all that it had to, and keeps its memory.
    Finished,
    /// It exits.
    Exits,
}

/// The memory of a program, while it works.
#[derive(Debug)]
pub struct Memory<'a> {
    pub(crate) kernel: &'a mut Kernel,
    pub(crate) pid: Pid,
    /// The core that it runs on, and what its addresses get there.
    pub(crate) core: Option<(&'a mut Mmu, u64)>,
    /// When the work began, in cycles.
    pub(crate) began: u64,
    pub(crate) spent: u64,
    /// Of it, what touches took without their faults, and what was computed.
    pub(crate) repeatable: u64,
    /// How many pieces of work this one would stand for.
    pub(crate) stands_for: u64,
    /// Whether the touch meter looks at the process just now.
    pub(crate) is_watched: bool,
    /// Those that it started meanwhile.
    pub(crate) children: Vec<Child>,
}

/// A child of a program.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) program: Box<dyn Program>,
    /// From when on it works, in cycles.
    pub(crate) born: u64,
}

impl std::fmt::Debug for Child {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Child").finish_non_exhaustive()
    }
}

impl Memory<'_> {
    /// Maps memory; returns its first address.
    pub fn map(&mut self, bytes: u64, advice: Advice) -> u64 {
        self.kernel.map(self.pid, bytes, advice)
    }

    /// Maps private memory at addresses that have none (`MAP_FIXED`), in whole base pages.
    pub fn map_at(&mut self, addresses: std::ops::Range<u64>, advice: Advice) {
        self.kernel.map_at(self.pid, addresses, advice);
    }

    /// Writes zeros over a base page that is mapped. What that takes is part of the touch that comes with it.
    pub fn write_zeros(&mut self, address: u64) {
        self.kernel.write_zeros(self.pid, address);
    }

    /// Gives a mapping back.
    pub fn unmap(&mut self, start: u64, bytes: u64) {
        self.spent += self.kernel.unmap(self.pid, start, bytes);
    }

    /// Gives the pages of a range back and keeps it mapped (`MADV_DONTNEED`).
    pub fn discard(&mut self, start: u64, bytes: u64) {
        self.spent += self.kernel.discard(self.pid, start, bytes);
    }

    /// Writes to a base page, and says what maps it. Takes a fault's time where there is one, and the processor's, where the
    /// machine has one.
    ///
    /// # Errors
    ///
    /// Where it is not mapped, and where memory is used up.
    pub fn touch(&mut self, address: u64) -> Result<PageSize, Fault> {
        let touched = self.kernel.touch(self.pid, address)?;
        self.spent += touched.fault;
        if let Some((core, tag)) = &mut self.core {
            let took = core.touch(address | *tag, touched.page_size);
            self.compute(took);
        }
        Ok(touched.page_size)
    }

    /// Maps shared memory; returns its first address.
    pub fn map_shared(&mut self, id: SharedId) -> u64 {
        self.kernel.map_shared(self.pid, id)
    }

    /// Reads a base page, and says what maps it. Takes a fault's time where there is one, and the processor's, where the machine has
    /// one. `None` where nothing was ever written to private memory.
    ///
    /// # Errors
    ///
    /// As [`Memory::touch`].
    pub fn read(&mut self, address: u64) -> Result<Option<PageSize>, Fault> {
        let Some(touched) = self.kernel.read(self.pid, address)? else {
            return Ok(None);
        };
        self.spent += touched.fault;
        if let Some((core, tag)) = &mut self.core {
            let took = core.touch(address | *tag, touched.page_size);
            self.compute(took);
        }
        Ok(Some(touched.page_size))
    }

    /// Starts a child that shares the memory with this process and runs a program of its own, once this piece of work is done. `None`
    /// where no memory is left for its page tables.
    pub fn fork(&mut self, program: impl Program + 'static) -> Option<Pid> {
        let (pid, took) = self.kernel.fork(self.pid)?;
        self.spent += took;
        self.children.push(Child {
            pid,
            program: Box::new(program),
            born: self.now(),
        });
        Some(pid)
    }

    /// Writes to base pages in a row, within one region. As [`Memory::touch`], but where base pages map them all, the processor's time
    /// is that of a sample ([`Mmu::touch_row`]). Where a larger page does, its bit is set once, and the processor's time is such, too.
    ///
    /// # Errors
    ///
    /// As [`Memory::touch`].
    pub fn touch_row(&mut self, address: u64, pages: u64) -> Result<(), Fault> {
        if self.kernel.touch_row(self.pid, address, pages) {
            if let Some((core, tag)) = &mut self.core {
                let took = core.touch_row(address | *tag, pages, PageSize::Base);
                self.compute(took);
            }
            return Ok(());
        }
        for page in 0..pages {
            let address = address + page * PageSize::Base.bytes();
            let page_size = self.touch(address)?;
            if page_size != PageSize::Base {
                if let Some((core, tag)) = &mut self.core {
                    let rest = address + PageSize::Base.bytes();
                    let took = core.touch_row(rest | *tag, pages - page - 1, page_size);
                    self.compute(took);
                }
                break;
            }
        }
        Ok(())
    }

    /// Works for `cycles` without touching memory that is counted.
    pub fn compute(&mut self, cycles: u64) {
        self.spent += cycles;
        self.repeatable += cycles;
    }

    /// Has this piece of work stand for so many like it, 1 or more: the others take as long, but for page faults, and touch pages that
    /// nobody looks up. So Accessed bits show one part in so many of the touches. The touch meter needs each: while it looks, a piece stands
    /// for itself. Returns for how many this one stands.
    pub fn stand_for(&mut self, pieces: u64) -> u64 {
        self.stands_for = pieces.max(1);
        self.repeat(pieces)
    }

    /// As [`Memory::stand_for`], of a program whose Accessed bits show all of its touches anyway, since it touches each page by itself
    /// that it uses: what they showed before the touch meter looked is not put back.
    pub fn repeat(&mut self, pieces: u64) -> u64 {
        let stands_for = if self.is_watched { 1 } else { pieces.max(1) };
        self.spent += self.repeatable * (stands_for - 1);
        self.repeatable = 0;
        stands_for
    }

    /// What the core has counted that it runs on, and shares with others beyond the first 64 programs.
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        self.core.as_ref().map(|(core, _)| core.counts())
    }

    /// What time it is, in cycles since the machine started.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.began + self.spent
    }

    /// The process that the program runs in.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The kernel, to look at.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        self.kernel
    }
}
