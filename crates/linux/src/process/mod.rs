//! Which processes there are and what is known about them, from `/proc`.

pub mod claim;
pub mod eligible;
pub mod not_eligible;
pub mod sharing;
pub(crate) mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mega_core::{BASE_PAGE_SIZE, ProcessId};

use crate::Error;
use crate::kernel::Kernel;

/// `PF_KTHREAD` of `linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What selects a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which process.
    pub process: ProcessId,
    /// The command's name (up to 15 bytes).
    pub name: String,
    /// The program file it runs; `None` where that may not be seen.
    pub exe: Option<PathBuf>,
    /// Its path in the cgroup v2 tree, `/` for the root; `None` without cgroup v2.
    pub cgroup: Option<String>,
    /// The user it runs as (effective user id).
    pub uid: u32,
    /// Resident bytes.
    pub resident: u64,
}

/// The fields of `/proc/PID/stat` that are of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 1.
    pub pid: u32,
    /// Field 2, without its parentheses.
    pub name: String,
    /// Field 3: `Z` for one that has exited and not been waited for.
    pub state: char,
    /// Field 4.
    pub parent: u32,
    /// Field 9, `PF_*`.
    pub flags: u64,
    /// Field 20: the number of threads.
    pub threads: u64,
    /// Field 22, in clock ticks since boot.
    pub start_time: u64,
    /// Field 24, in bytes.
    pub resident: u64,
    /// Field 39: the processor that it ran on last.
    pub processor: Option<u32>,
    /// Where the program lies in memory (fields 26 to 28 and 45 to 51): differs after `execve`, as long as
    /// addresses are randomised or the program or its arguments differ. All 0 without permission.
    pub layout: Vec<u64>,
}

impl Stat {
    /// Reads the text of `/proc/PID/stat`. `None` where it is not one.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        // The name may hold spaces, parentheses and newlines: it ends at the last `)`.
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let name = text.get(open + 1..close)?;
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // `fields[0]` is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let value = |number: usize| field(number).and_then(|text| text.parse::<u64>().ok());
        Some(Stat {
            pid: std::str::from_utf8(text.get(..open)?)
                .ok()?
                .trim()
                .parse()
                .ok()?,
            name: String::from_utf8_lossy(name).into_owned(),
            state: field(3)?.chars().next()?,
            parent: u32::try_from(value(4)?).ok()?,
            flags: value(9)?,
            threads: value(20)?,
            start_time: value(22)?,
            resident: value(24)?.saturating_mul(BASE_PAGE_SIZE),
            processor: value(39).and_then(|processor| u32::try_from(processor).ok()),
            layout: (26..=28).chain(45..=51).filter_map(value).collect(),
        })
    }

    /// Which life of a process this is.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_time: self.start_time,
        }
    }

    /// Whether it is a thread of the kernel, which has no memory of its own.
    #[must_use]
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Whether it has exited, though its parent has not waited for it yet.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// `/proc/PID/NAME`.
pub(crate) fn path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Reads `/proc/PID/stat`.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`], [`Error::Malformed`].
pub fn stat(kernel: &dyn Kernel, pid: u32) -> Result<Stat, Error> {
    let path = path(pid, "stat");
    let text = kernel
        .read(&path)
        .map_err(|error| Error::of_process(pid, &path, error))?;
    Stat::parse(&text).ok_or(Error::Malformed {
        path,
        reason: "not in the format of proc(5)".to_owned(),
    })
}

/// The shared memory that a process has resident, in bytes: the third field of `/proc/PID/statm`, in which files count
/// too. 0 where it cannot be read.
pub(crate) fn shared_resident(kernel: &dyn Kernel, pid: u32) -> u64 {
    let pages = kernel.read(&path(pid, "statm")).ok().and_then(|text| {
        let text = String::from_utf8(text).ok()?;
        text.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()
    });
    pages.unwrap_or(0).saturating_mul(BASE_PAGE_SIZE)
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

/// Whether `process` still runs.
#[must_use]
pub fn is_alive(kernel: &dyn Kernel, process: ProcessId) -> bool {
    stat(kernel, process.pid).is_ok_and(|stat| stat.process() == process && !stat.has_exited())
}

/// Every process that runs now, kernel threads left out, by pid.
///
/// # Errors
/// [`Error::Io`] where `/proc` cannot be listed.
pub fn list(kernel: &dyn Kernel) -> Result<Vec<ProcessId>, Error> {
    Ok(running(kernel)?
        .into_values()
        .map(|stat| stat.process())
        .collect())
}

/// `root` and all that descend from it, by pid. A descendant whose parent has exited is found only where it
/// was re-parented to one that is found: to `root`'s own manager if that is a subreaper and `root` here.
///
/// # Errors
/// [`Error::Io`] where `/proc` cannot be listed.
pub fn descendants(kernel: &dyn Kernel, root: ProcessId) -> Result<Vec<ProcessId>, Error> {
    let running = running(kernel)?;
    if running
        .get(&root.pid)
        .is_none_or(|stat| stat.process() != root)
    {
        return Ok(Vec::new());
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for stat in running.values() {
        children.entry(stat.parent).or_default().push(stat.pid);
    }
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.pid];
    while let Some(pid) = waiting.pop() {
        // The snapshot is not atomic, so a cycle through a pid used again is conceivable.
        if found.insert(pid) {
            waiting.extend(children.get(&pid).into_iter().flatten());
        }
    }
    Ok(found
        .iter()
        .filter_map(|pid| running.get(pid).map(Stat::process))
        .collect())
}

fn running(kernel: &dyn Kernel) -> Result<BTreeMap<u32, Stat>, Error> {
    let proc = Path::new("/proc");
    let names = kernel.list(proc).map_err(Error::io("list", proc))?;
    Ok(names
        .iter()
        .filter_map(|name| name.to_str()?.parse::<u32>().ok())
        // One that exits while the list is read is simply not in it.
        .filter_map(|pid| stat(kernel, pid).ok())
        .filter(|stat| !stat.is_kernel_thread() && !stat.has_exited())
        .map(|stat| (stat.pid, stat))
        .collect())
}

/// What is known about a process.
///
/// # Errors
/// [`Error::Gone`], [`Error::Io`], [`Error::Malformed`].
pub fn facts(kernel: &dyn Kernel, pid: u32) -> Result<Facts, Error> {
    let stat = stat(kernel, pid)?;
    let status_path = path(pid, "status");
    let status = kernel
        .read(&status_path)
        .map_err(|error| Error::of_process(pid, &status_path, error))?;
    let uid = effective_uid(&status).ok_or(Error::Malformed {
        path: status_path,
        reason: "has no line `Uid:`".to_owned(),
    })?;
    let cgroup = kernel
        .read(&path(pid, "cgroup"))
        .ok()
        .and_then(|text| unified_cgroup(&text));
    Ok(Facts {
        process: stat.process(),
        exe: kernel.read_link(&path(pid, "exe")).ok(),
        cgroup,
        uid,
        resident: stat.resident,
        name: stat.name,
    })
}

/// The effective user id in the text of `/proc/PID/status`.
fn effective_uid(status: &[u8]) -> Option<u32> {
    String::from_utf8_lossy(status)
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The cgroup v2 path in the text of `/proc/PID/cgroup`.
pub(crate) fn unified_cgroup(text: &[u8]) -> Option<String> {
    String::from_utf8_lossy(text)
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REST: &str = "S 12 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 4242 1000 77 18446744073709551615 21 22 23 \
                        0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 45 46 47 48 49 50 51 0";

    #[test]
    fn fields_are_counted_from_the_last_parenthesis() {
        let stat = Stat::parse(format!("7 (a (b) c) {REST}\n").as_bytes()).unwrap();
        assert_eq!(
            (stat.pid, stat.parent, stat.threads, stat.start_time),
            (7, 12, 3, 4242)
        );
        assert_eq!(stat.name, "a (b) c");
        assert_eq!(stat.resident, 77 * BASE_PAGE_SIZE);
        assert_eq!(stat.processor, Some(1));
        assert_eq!(stat.layout, [21, 22, 23, 45, 46, 47, 48, 49, 50, 51]);
        assert!(!stat.is_kernel_thread() && !stat.has_exited());
    }

    #[test]
    fn ids_and_cgroups_are_found() {
        assert_eq!(
            effective_uid(b"Name:\tx\nUid:\t0\t1000\t0\t0\n"),
            Some(1000)
        );
        assert_eq!(effective_uid(b"Uid:\n"), None);
        let text = b"4:memory:/old\n0::/user.slice/a b\n";
        assert_eq!(unified_cgroup(text).as_deref(), Some("/user.slice/a b"));
        assert_eq!(unified_cgroup(b"4:memory:/old\n"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_read_whole(name in "[ -~\n]{0,15}", pid in 1_u32..4_194_304) {
            let stat = Stat::parse(format!("{pid} ({name}) {REST}").as_bytes()).unwrap();
            prop_assert_eq!(&stat.name, &name);
            prop_assert_eq!(stat.process(), ProcessId { pid, start_time: 4242 });
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Stat::parse(&bytes);
            let _ = effective_uid(&bytes);
            let _ = unified_cgroup(&bytes);
        }

        #[test]
        fn no_cut_makes_it_panic(length in 0_usize..250) {
            let text = format!("7 (a) {REST}");
            let _ = Stat::parse(&text.as_bytes()[..length.min(text.len())]);
        }
    }
}
