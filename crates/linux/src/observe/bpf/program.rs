//! Loads the page table walker and runs it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel};

use super::abi::{REQUEST_BYTES, RUN_BYTES, Request, Run};
use super::task_link;

/// The compiled program; build.rs makes it.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.bpf.o"));

/// Lines of libbpf's log kept in an error: the reason is in its last lines.
const LOG_LINES: usize = 12;

/// The walker, loaded. Each one has its own maps, so runs of two never mix.
pub(crate) struct Program {
    object: Object,
    buffer: Vec<u8>,
}

/// Why the walker could not be loaded.
#[derive(Debug)]
pub(crate) enum LoadError {
    NotPermitted,
    Rejected { reason: String },
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
        let (loaded, log) = captured(|| {
            let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
            Ok(object)
        });
        let object = loaded.map_err(|error: libbpf_rs::Error| match error.kind() {
            ErrorKind::PermissionDenied => LoadError::NotPermitted,
            _ => LoadError::Rejected {
                reason: reason(&error, &log),
            },
        })?;
        Ok(Program {
            object,
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
        let link =
            task_link::attach_to_thread(program.as_fd(), tid).map_err(|error| {
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
        let iterator = task_link::iterator(&thread.link).map_err(|error| RunError::System {
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

/// libbpf's log while a [`captured`] call runs.
static LOG: Mutex<String> = Mutex::new(String::new());
/// Held during a [`captured`] call: libbpf has one log for the whole process.
static CAPTURING: Mutex<()> = Mutex::new(());

/// Runs `call` with libbpf's log captured instead of printed, and leaves libbpf silent.
fn captured<T>(call: impl FnOnce() -> T) -> (T, String) {
    let _one_at_a_time = CAPTURING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    libbpf_rs::set_print(Some((PrintLevel::Info, |_, line| {
        log(|text| text.push_str(&line))
    })));
    log(String::clear);
    let result = call();
    libbpf_rs::set_print(None);
    let mut captured = String::new();
    log(|text| captured = std::mem::take(text));
    (result, captured)
}

fn log(change: impl FnOnce(&mut String)) {
    change(
        &mut LOG
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
    );
}

/// The error and the last lines of the log, which hold the verifier's complaint.
fn reason(error: &libbpf_rs::Error, log: &str) -> String {
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let tail = lines
        .get(lines.len().saturating_sub(LOG_LINES)..)
        .unwrap_or_default()
        .join("; ");
    if tail.is_empty() {
        error.to_string()
    } else {
        format!("{error} ({tail})")
    }
}
