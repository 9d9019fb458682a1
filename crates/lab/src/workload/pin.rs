//! Keeps threads on one CPU each, the last CPU first, so that everything else runs on the others.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Error;

/// The CPUs that this process may use, the last one first; empty until it is to keep to any.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

/// Keeps the calling thread, and those it starts, to the last CPU.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn keep_to_last() -> Result<(), Error> {
    let set = sched_getaffinity(None)
        .map_err(|e| Error::io("reading which CPUs this process may use", e))?;
    let cpus = (0..CpuSet::MAX_CPU).rev().filter(|cpu| set.is_set(*cpu));
    let cpus = CPUS.get_or_init(|| cpus.collect());
    let Some(last) = cpus.first() else {
        return Ok(());
    };
    keep_to(&[*last]).map_err(|e| Error::io(format!("keeping to CPU {last}"), e))
}

/// Keeps the calling thread, number `number` of several, to a CPU of its own, as far as there are enough; nothing where
/// [`keep_to_last`] was not called.
pub(super) fn keep_thread(number: usize) {
    let cpus = CPUS.get().map(Vec::as_slice).unwrap_or_default();
    if cpus.is_empty() {
        return;
    }
    // A CPU may go offline meanwhile; the thread then runs where the others do.
    let _ = keep_to(&[cpus[number % cpus.len()]]);
}

/// Keeps the calling thread, and what it starts from now on, to these CPUs.
pub(crate) fn keep_to(cpus: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set)
}
