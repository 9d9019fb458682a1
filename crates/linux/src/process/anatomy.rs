//! Every mapping of a process, and why mega makes none of it huge where it does not.
//!
//! [`super::eligible`] decides; this says in words what it decided, for people who look at a process.

use std::ops::Range;

use super::eligible::{self, Mapping};
use super::not_eligible::Reason;
use super::{path, stat};
use crate::kernel::Kernel;
use crate::{Error, Host};

/// A mapping of at least one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its addresses.
    pub range: Range<u64>,
    /// The file's path, or the kernel's name in brackets, or nothing.
    pub name: String,
    /// Whether others who map the same see its writes.
    pub shared: bool,
    /// Why mega makes none of it huge; `None` where it may make some of it huge.
    pub obstacle: Option<Obstacle>,
}

/// Why mega makes nothing of a mapping huge. But for files, because no huge page can map it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It has no aligned 2 MiB.
    TooSmall,
    /// A file on a disk, or a device. Of some files some kernels can make a huge page (the doctor tries that, on mega's own text). mega
    /// does not ask them to: the page cache is the machine's, shared by all who map or read the file, so that neither a process's
    /// budget nor what mega sees of its accesses fits.
    File,
    /// Hugetlb memory: its pages are large already, and the program's own affair.
    Hugetlb,
    /// A stack.
    Stack,
    /// The kernel's own pages in the process: `[vdso]` and the like.
    Kernel,
    /// Reserved and not accessible: nothing can be in it.
    Reserved,
    /// Shared memory at addresses that no huge page of it fits.
    Misaligned,
}

impl Obstacle {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Obstacle::TooSmall => "too_small",
            Obstacle::File => "file",
            Obstacle::Hugetlb => "hugetlb",
            Obstacle::Stack => "stack",
            Obstacle::Kernel => "kernel",
            Obstacle::Reserved => "reserved",
            Obstacle::Misaligned => Reason::MisalignedShared.name(),
        }
    }
}

/// The mappings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anatomy {
    /// Every mapping, in address order.
    pub parts: Vec<Part>,
    /// Whether the program switched huge pages off for itself by prctl (`PR_SET_THP_DISABLE`). `None` where the kernel
    /// does not say.
    pub switched_off: Option<bool>,
}

/// Reads the mappings of a process: microseconds for each. Takes no look at its pages.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`], [`Error::Malformed`].
pub fn anatomy(host: &Host, pid: u32) -> Result<Anatomy, Error> {
    let kernel = host.kernel().as_ref();
    let threaded = stat(kernel, pid)?.threads > 1;
    let maps = path(pid, "maps");
    let text = kernel
        .read(&maps)
        .map_err(|error| Error::of_process(pid, &maps, error))?;
    Ok(Anatomy {
        parts: parts(&eligible::mappings(&text), threaded, host.shmem_device()),
        switched_off: switched_off(kernel, pid),
    })
}

fn parts(mappings: &[Mapping], threaded: bool, shmem_device: Option<(u32, u32)>) -> Vec<Part> {
    let eligibility = eligible::eligibility(mappings, threaded, shmem_device);
    let fitting: Vec<&Range<u64>> = eligibility.ranges.iter().collect();
    let misaligned: Vec<&Range<u64>> = eligibility
        .not_eligible
        .iter()
        .map(|part| &part.range)
        .collect();
    let obstacle = |mapping: &Mapping| {
        if overlap(&fitting, &mapping.range) {
            None
        } else if overlap(&misaligned, &mapping.range) {
            Some(Obstacle::Misaligned)
        } else {
            Some(obstacle_by_kind(mapping, shmem_device))
        }
    };
    mappings
        .iter()
        .map(|mapping| Part {
            range: mapping.range.clone(),
            name: mapping.name.clone(),
            shared: mapping.shared,
            obstacle: obstacle(mapping),
        })
        .collect()
}

/// Whether one of `ranges`, which are ascending and disjoint, has an address of `range`.
fn overlap(ranges: &[&Range<u64>], range: &Range<u64>) -> bool {
    let next = ranges.partition_point(|known| known.end <= range.start);
    ranges
        .get(next)
        .is_some_and(|known| known.start < range.end)
}

fn obstacle_by_kind(mapping: &Mapping, shmem_device: Option<(u32, u32)>) -> Obstacle {
    let name = mapping.name.as_str();
    if !mapping.accessible {
        Obstacle::Reserved
    } else if mapping.is_private_anonymous() || mapping.is_shared_memory(shmem_device) {
        match eligible::whole_regions(&mapping.range).is_empty() {
            true => Obstacle::TooSmall,
            // Of memory that huge pages could map, only stacks are left out.
            false => Obstacle::Stack,
        }
    } else if name == "[stack]" {
        Obstacle::Stack
    } else if mapping.inode == 0 {
        Obstacle::Kernel
    } else if is_hugetlb(name) {
        Obstacle::Hugetlb
    } else {
        Obstacle::File
    }
}

/// What hugetlb memory that lies in no mounted file is called. (Shared memory of the same names was told by its device.)
fn is_hugetlb(name: &str) -> bool {
    ["/anon_hugepage", "/memfd:", "/SYSV"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        && name.ends_with("(deleted)")
}

/// The line `THP_enabled:` of `/proc/PID/status`, which is 0 where the program switched huge pages off.
fn switched_off(kernel: &dyn Kernel, pid: u32) -> Option<bool> {
    let text = kernel.read(&path(pid, "status")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("THP_enabled:"))?;
    Some(value.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapping_has_its_obstacle_or_none() {
        for (line, expected) in [
            ("40000000-40400000 rw-p 00000000 00:00 0", None),
            ("40000000-40400000 rw-p 00000000 00:00 0 [heap]", None),
            (
                "40001000-40201000 rw-p 00000000 00:00 0",
                Some(Obstacle::TooSmall),
            ),
            (
                "40000000-40400000 ---p 00000000 00:00 0",
                Some(Obstacle::Reserved),
            ),
            (
                "40000000-40400000 rw-p 00000000 00:00 0 [stack]",
                Some(Obstacle::Stack),
            ),
            (
                "40000000-40400000 r--p 00000000 00:00 0 [vvar]",
                Some(Obstacle::Kernel),
            ),
            (
                "40000000-40400000 r-xp 00000000 fd:00 9 /usr/bin/x",
                Some(Obstacle::File),
            ),
            (
                "40000000-40400000 rw-s 00000000 00:01 7 /dev/zero (deleted)",
                None,
            ),
            (
                "40001000-40801000 rw-s 00000000 00:01 7 /dev/zero (deleted)",
                Some(Obstacle::Misaligned),
            ),
            (
                "40000000-40400000 rw-p 00000000 00:0f 7 /anon_hugepage (deleted)",
                Some(Obstacle::Hugetlb),
            ),
            (
                "40000000-40400000 rw-s 00000000 00:0f 7 /memfd:x (deleted)",
                Some(Obstacle::Hugetlb),
            ),
        ] {
            let found = parts(&eligible::mappings(line.as_bytes()), true, Some((0, 1)));
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].obstacle, expected, "{line}");
        }
    }

    #[test]
    fn a_threads_stack_is_told_by_its_guard() {
        let maps = "40000000-40001000 ---p 0 00:00 0\n40001000-41001000 rw-p 0 00:00 0\n";
        let obstacles = |threaded| -> Vec<_> {
            let found = parts(&eligible::mappings(maps.as_bytes()), threaded, None);
            found.iter().map(|part| part.obstacle).collect()
        };
        let guard = Some(Obstacle::Reserved);
        assert_eq!(obstacles(true), [guard, Some(Obstacle::Stack)]);
        assert_eq!(obstacles(false), [guard, None]);
    }
}
