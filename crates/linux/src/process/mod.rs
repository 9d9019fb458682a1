//! Processes: which there are, what is known of each, who manages it, and how mega holds it while it works on it.

pub mod anatomy;
pub mod children;
mod chosen;
pub mod claim;
pub mod eligible;
mod facts;
pub mod not_eligible;
pub mod obstacles;
pub mod pinned;
mod pod;
pub mod sharing;
mod stat;
pub(crate) mod statm;
pub mod table;
mod tasks;

use std::path::PathBuf;
use std::time::Duration;

use mega_core::ProcessId;

use crate::Error;
use crate::kernel::Kernel;

pub use chosen::Chosen;
pub(crate) use facts::unified_cgroup;
pub use facts::{Facts, facts};
pub use pod::Pod;
pub use stat::{Stat, stat};
pub use table::Table;
pub(crate) use tasks::TICK;

/// `/proc/PID/NAME`.
pub(crate) fn path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Makes sure that `pid` is a process whose memory can be managed, and names it.
///
/// # Errors
/// [`Error::Gone`] (also where it has exited and was not waited for), [`Error::KernelThread`],
/// [`Error::NotPermitted`].
pub fn identify(kernel: &dyn Kernel, pid: u32) -> Result<ProcessId, Error> {
    let stat = stat(kernel, pid)?;
    if stat.is_kernel_thread() {
        return Err(Error::KernelThread { pid });
    }
    if stat.has_exited() {
        return Err(Error::Gone { pid });
    }
    // pid names a thread's entry too, with the same memory; only the process itself is managed.
    let pagemap = path(pid, "pagemap");
    kernel
        .open(&pagemap)
        .map_err(|error| Error::of_process(pid, &pagemap, error))?;
    Ok(stat.process())
}

/// How that very process is; `None` where it has ended.
#[must_use]
pub fn stat_of(kernel: &dyn Kernel, process: ProcessId) -> Option<Stat> {
    let stat = stat(kernel, process.pid).ok();
    stat.filter(|stat| stat.process() == process)
}

/// For how long a process has lived. What the machine was suspended is missing: it only looks younger.
pub(crate) fn age(kernel: &dyn Kernel, process: ProcessId) -> Duration {
    let started = Duration::from_nanos(process.start_time.saturating_mul(TICK));
    kernel.now().saturating_sub(started)
}

/// The name of its command; empty where it has ended.
#[must_use]
pub fn name_of(kernel: &dyn Kernel, process: ProcessId) -> String {
    stat_of(kernel, process).map_or_else(String::new, |stat| stat.name)
}

/// Whether `process` still runs.
#[must_use]
pub fn is_alive(kernel: &dyn Kernel, process: ProcessId) -> bool {
    stat_of(kernel, process).is_some_and(|stat| !stat.has_exited())
}
