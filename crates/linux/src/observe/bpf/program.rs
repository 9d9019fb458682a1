//! Loads the page table walker and runs it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, Object};

use super::abi::{REQUEST_BYTES, RUN_BYTES, Request, Run};
use crate::bpf::{self, LoadError};

/// The compiled program; build.rs makes it.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.bpf.o"));

/// The walker, loaded. Each one has its own maps, so runs of two never mix.
pub(crate) struct Program {
    object: Object,
    buffer: Vec<u8>,
}

/// Why the walker could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("the kernel cannot limit a task iterator to one thread")]
    NoTaskIterator,
    #[error("there is no such thread")]
    NoThread,
    #[error("{attempted}: {error}")]
    System {
        attempted: &'static str,
        error: io::Error,
    },
    #[error("the program wrote {bytes} bytes that are no result")]
    Garbled { bytes: usize },
    #[error("the program has no part called {0}")]
    Missing(&'static str),
}

/// A thread to walk the memory map of.
pub(crate) struct Thread {
    link: OwnedFd,
}

impl Program {
    /// Loads the walker into the kernel.
    ///
    /// # Errors
    /// Not permitted, or refused with the reason libbpf logged.
    pub(crate) fn load() -> Result<Program, LoadError> {
        Ok(Program {
            object: bpf::load(OBJECT)?,
            buffer: vec![0; RUN_BYTES],
        })
    }

    /// Prepares to walk the memory map of the thread `tid` of the caller's PID namespace.
    ///
    /// # Errors
    /// When the kernel cannot limit a task iterator.
    pub(crate) fn thread(&self, tid: u32) -> Result<Thread, RunError> {
        let program = self
            .object
            .progs()
            .find(|program| program.name() == "walk")
            .ok_or(RunError::Missing("walk"))?;
        let link = bpf::attach_to_thread(program.as_fd(), tid).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EINVAL | libc::E2BIG) => RunError::NoTaskIterator,
                _ => RunError::System {
                    attempted: "attach the BPF task iterator",
                    error,
                },
            }
        })?;
        Ok(Thread { link })
    }

    /// Walks as much of `request` as one run may.
    ///
    /// # Errors
    /// When the thread is gone or a system call fails.
    pub(crate) fn run(&mut self, thread: &Thread, request: &Request) -> Result<Run, RunError> {
        let map = self
            .object
            .maps_mut()
            .find(|map| map.name() == ".data.request")
            .ok_or(RunError::Missing(".data.request"))?;
        let bytes = request.encode();
        debug_assert_eq!(bytes.len(), REQUEST_BYTES);
        map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY)
            .map_err(|error| RunError::System {
                attempted: "hand the request to the BPF program",
                error: io::Error::other(error),
            })?;
        let iterator = bpf::iterator(&thread.link).map_err(|error| RunError::System {
            attempted: "make a BPF iterator",
            error,
        })?;
        let filled =
            rustix::io::retry_on_intr(|| rustix::io::read(&iterator, &mut self.buffer[..]))
                .map_err(|error| RunError::System {
                    attempted: "run the BPF iterator",
                    error: error.into(),
                })?;
        match self.buffer.get(..filled) {
            None | Some([]) => Err(RunError::NoThread),
            Some(bytes) => Run::decode(bytes).ok_or(RunError::Garbled { bytes: filled }),
        }
    }
}
