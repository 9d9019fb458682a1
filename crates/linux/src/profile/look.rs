//! One look at a process for its profile.

use std::ops::Range;

use mega_core::profile::{MappingClass, MappingKind};
use mega_core::{ProcessId, Region, RegionObservation};

use crate::act::ready;
use crate::kernel::Kernel;
use crate::observe::cgroups::{self, Cgroups};
use crate::observe::{memory, tracker};
use crate::process::{self, eligible, statm};
use crate::{Error, Host};

/// What a process's memory is like at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Differs when the process started another program.
    pub layout: Vec<u64>,
    /// Its mappings that huge pages can map, in address order.
    pub mappings: Vec<Part>,
}

/// A mapping, as far as huge pages can map it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its class.
    pub class: MappingClass,
    /// Its addresses, in whole regions.
    pub range: Range<u64>,
    /// Its regions with a page, in address order.
    pub regions: Vec<RegionObservation>,
}

/// Looks at a process. Clears nothing.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`], and as the tracker.
pub fn look(host: &Host, process: ProcessId) -> Result<Look, Error> {
    let kernel = host.kernel().as_ref();
    let pid = process.pid;
    let handle = kernel
        .open_process(pid)
        .map_err(|error| Error::of_process(pid, &process::path(pid, ""), error))?;
    let stat = process::stat(kernel, pid)?;
    if stat.process() != process || stat.has_exited() {
        return Err(Error::Gone { pid });
    }
    let path = process::path(pid, "maps");
    let text = kernel
        .read(&path)
        .map_err(|error| Error::of_process(pid, &path, error))?;
    let mappings = eligible::mappings(&text);
    let ranges = eligible::eligibility(&mappings, stat.threads > 1, host.shmem_device()).ranges;
    let target = tracker::TrackedProcess {
        process,
        handle: &handle,
    };
    let mut found = Vec::new();
    host.tracker().peek(&target, &ranges, &mut found)?;
    let mut found = found.into_iter().peekable();
    let parts = ranges.into_iter().filter_map(|range| {
        let regions = std::iter::from_fn(|| found.next_if(|seen| seen.region.start() < range.end));
        let regions = regions.collect();
        let mapping = mappings
            .iter()
            .find(|mapping| mapping.range.contains(&range.start))?;
        let kind = match (mapping.shared, mapping.name.as_str()) {
            (true, _) => MappingKind::Shared,
            (false, "[heap]") => MappingKind::Heap,
            (false, _) => MappingKind::Anonymous,
        };
        Some(Part {
            class: MappingClass::of(kind, mapping.range.end - mapping.range.start),
            range,
            regions,
        })
    });
    Ok(Look {
        layout: stat.layout,
        mappings: parts.collect(),
    })
}

/// What a process has resident, in bytes: some microseconds, where a look takes as long for each 10 MiB. `None` where it cannot
/// be read.
#[must_use]
pub fn resident(host: &Host, process: ProcessId) -> Option<u64> {
    let resident = statm::resident(host.kernel().as_ref(), process.pid)?;
    Some(resident.all)
}

/// Makes these regions of a process huge, which it has not come to yet; they are in address order. Returns those that are
/// huge now.
///
/// # Errors
/// As [`look`].
pub fn make_ready(
    host: &Host,
    process: ProcessId,
    regions: &[Region],
) -> Result<Vec<Region>, Error> {
    let kernel = host.kernel().as_ref();
    let pid = process.pid;
    let handle = kernel
        .open_process(pid)
        .map_err(|error| Error::of_process(pid, &process::path(pid, ""), error))?;
    if !process::is_alive(kernel, process) {
        return Err(Error::Gone { pid });
    }
    // What was refused is seen by its not being huge.
    let _ = ready::make_ready(kernel, &handle, regions);
    let ranges: Vec<Range<u64>> = regions
        .chunk_by(|a, b| a.end() == b.start())
        .filter_map(|run| Some(run.first()?.start()..run.last()?.end()))
        .collect();
    let target = tracker::TrackedProcess {
        process,
        handle: &handle,
    };
    let mut found = Vec::new();
    host.tracker().peek(&target, &ranges, &mut found)?;
    let huge = found.iter().filter(|seen| seen.is_huge());
    Ok(huge.map(|seen| seen.region).collect())
}

/// What memory is left to a process, and of how much, in bytes: on the machine, and under the tightest limit of its
/// cgroups if it has one.
///
/// # Errors
/// [`Error::Io`], [`Error::Malformed`].
pub fn available(kernel: &dyn Kernel, process: ProcessId) -> Result<Vec<(u64, u64)>, Error> {
    let machine = memory::observe(kernel)?;
    let mount = cgroups::mount_point(kernel);
    let limit = Cgroups::new(kernel, mount.as_deref()).limit_of(process.pid);
    let limit = limit.map(|cgroup| (cgroup.available, cgroup.limit));
    Ok([(machine.available, machine.total)]
        .into_iter()
        .chain(limit)
        .collect())
}

/// Whether regions of the mapping at `address` may be made ready: nobody but the kernel supplies its pages.
#[must_use]
pub fn may_be_made_ready(host: &Host, process: ProcessId, address: u64) -> bool {
    ready::is_the_kernels(host.kernel().as_ref(), process.pid, address)
}
