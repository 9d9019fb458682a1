//! Lists every process in one pass over the kernel's tasks, by a BPF task iterator. It takes about a microsecond for each;
//! to read what selects a process from `/proc` takes some sixty.

mod abi;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::Object;

use super::stat;
use crate::bpf;
use crate::kernel::Kernel;

pub(crate) use abi::TICK;
pub(crate) use abi::Task;

/// The compiled program; build.rs makes it.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tasks.bpf.o"));

/// Bytes asked for in one read: what the kernel's own buffer holds.
const READ: usize = 32 << 10;

/// The program, loaded and attached.
pub(crate) struct Tasks {
    /// Keeps the program in the kernel.
    _object: Object,
    link: OwnedFd,
    pass: Vec<u8>,
}

impl Tasks {
    /// Loads the program, and makes sure that it sees this process as `/proc` does. `None` where it cannot be used: in
    /// a PID or time namespace of its own, without BTF, without the privilege.
    pub(crate) fn open(kernel: &dyn Kernel) -> Option<Self> {
        let object = bpf::load(OBJECT).ok()?;
        let program = object.progs().find(|program| program.name() == "tasks")?;
        let link = bpf::attach_to_all(program.as_fd()).ok()?;
        let mut tasks = Tasks {
            _object: object,
            link,
            pass: Vec::new(),
        };
        let own = stat(kernel, std::process::id()).ok()?;
        let seen = tasks.list().ok()?;
        let agrees = |task: &Task| task.process == own.process() && task.parent == own.parent;
        seen.iter().any(agrees).then_some(tasks)
    }

    /// All processes with memory, in the order of their pids.
    ///
    /// # Errors
    /// As `bpf` and `read`: `EMFILE` where no file can be opened.
    pub(crate) fn list(&mut self) -> io::Result<Vec<Task>> {
        let iterator = bpf::iterator(&self.link)?;
        let mut filled = 0;
        loop {
            self.pass.resize(filled + READ, 0);
            let read = rustix::io::retry_on_intr(|| {
                rustix::io::read(&iterator, &mut self.pass[filled..])
            })?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        let tasks = abi::decode(&self.pass[..filled]);
        tasks.ok_or_else(|| {
            io::Error::other("the BPF program wrote bytes that are no list of tasks")
        })
    }
}
