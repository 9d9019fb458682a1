//! What the memory cgroups (v2) of a process let it use.
//!
//! A limit holds for all that is in a cgroup and below it, so the tightest of a process's cgroup and its ancestors
//! counts: the one that leaves least. Limits change while programs run, so they are read at every observation, each
//! cgroup once, however many processes are in it; usage only where there is a limit.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use mega_core::CgroupMemory;

use crate::kernel::Kernel;
use crate::process;

/// The cgroups of one observation.
pub(crate) struct Cgroups<'a> {
    kernel: &'a dyn Kernel,
    mount: Option<&'a Path>,
    /// By path in the mount.
    known: BTreeMap<PathBuf, Option<CgroupMemory>>,
}

/// Where cgroup v2 is mounted; `None` where it is not.
pub(crate) fn mount_point(kernel: &dyn Kernel) -> Option<PathBuf> {
    let mounts = kernel.read(Path::new("/proc/self/mounts")).ok()?;
    String::from_utf8_lossy(&mounts).lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

impl<'a> Cgroups<'a> {
    /// None read yet. Without a mount nothing has a limit.
    pub(crate) fn new(kernel: &'a dyn Kernel, mount: Option<&'a Path>) -> Self {
        Cgroups {
            kernel,
            mount,
            known: BTreeMap::new(),
        }
    }

    /// The tightest limit on a process; `None` where there is none, or it cannot be read.
    pub(crate) fn limit_of(&mut self, pid: u32) -> Option<CgroupMemory> {
        self.mount?;
        let text = self.kernel.read(&process::path(pid, "cgroup")).ok()?;
        self.limit_in(&process::unified_cgroup(&text)?)
    }

    /// The tightest limit on what is in `cgroup`, a path as `/proc/PID/cgroup` has it.
    pub(crate) fn limit_in(&mut self, cgroup: &str) -> Option<CgroupMemory> {
        let mount = self.mount?;
        let inside = Path::new(cgroup.trim_start_matches('/'));
        // One outside our cgroup namespace begins with `..`: its files are not below the mount.
        if inside.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        inside
            .ancestors()
            // The root has no limit, and no file that says so.
            .filter(|cgroup| !cgroup.as_os_str().as_bytes().is_empty())
            .filter_map(|cgroup| self.memory(mount, cgroup))
            .min_by_key(|memory| (memory.available, memory.limit))
    }

    fn memory(&mut self, mount: &Path, cgroup: &Path) -> Option<CgroupMemory> {
        if let Some(known) = self.known.get(cgroup) {
            return *known;
        }
        let memory = read(self.kernel, &mount.join(cgroup));
        self.known.insert(cgroup.to_owned(), memory);
        memory
    }
}

/// Reads one cgroup; `None` where it has no limit.
fn read(kernel: &dyn Kernel, cgroup: &Path) -> Option<CgroupMemory> {
    let file = |name: &str| {
        let text = kernel.read(&cgroup.join(name)).ok()?;
        String::from_utf8(text).ok()
    };
    // `max` is no number.
    let bytes = |name: &str| file(name)?.trim().parse::<u64>().ok();
    let limit = match (bytes("memory.max"), bytes("memory.high")) {
        (Some(max), Some(high)) => max.min(high),
        (max, high) => max.or(high)?,
    };
    let used = bytes("memory.current")?;
    let reclaimable = file("memory.stat").map_or(0, |stat| reclaimable(&stat));
    let available = limit
        .saturating_add(reclaimable)
        .saturating_sub(used)
        .min(limit);
    Some(CgroupMemory { limit, available })
}

/// What can be reclaimed without swapping, in the text of `memory.stat`: files and caches.
fn reclaimable(stat: &str) -> u64 {
    let is_reclaimable =
        |name: &str| matches!(name, "inactive_file" | "active_file" | "slab_reclaimable");
    stat.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| is_reclaimable(name))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    /// A kernel with these processes in these cgroups, and these files below /cg.
    fn kernel(processes: &[(u32, &str)], files: &[(&str, &str)]) -> FakeKernel {
        let kernel = FakeKernel::new();
        let mut state = kernel.state();
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /cg cgroup2 rw,nosuid 0 0\n";
        state
            .files
            .insert("/proc/self/mounts".into(), mounts.into());
        for (pid, cgroup) in processes {
            let text = format!("4:memory:/old\n0::{cgroup}\n");
            state
                .files
                .insert(process::path(*pid, "cgroup"), text.into());
        }
        for (name, content) in files {
            let content = format!("{content}\n").into_bytes();
            state.files.insert(Path::new("/cg").join(name), content);
        }
        drop(state);
        kernel
    }

    fn limit(kernel: &FakeKernel, pid: u32) -> Option<CgroupMemory> {
        let mount = mount_point(kernel);
        Cgroups::new(kernel, mount.as_deref()).limit_of(pid)
    }

    #[test]
    fn the_tightest_of_a_cgroup_and_its_ancestors_counts() {
        let stat = "anon 500\ninactive_file 30\nactive_file 20\nslab_reclaimable 10\nslab_unreclaimable 99";
        let kernel = kernel(
            &[
                (1, "/a/b/c"),
                (2, "/a"),
                (3, "/d"),
                (4, "/"),
                (5, "/../other"),
                (6, "/e"),
            ],
            &[
                ("a/memory.max", "1000"),
                ("a/memory.high", "max"),
                ("a/memory.current", "400"),
                ("a/memory.stat", stat),
                ("a/b/memory.max", "800"),
                ("a/b/memory.high", "700"),
                ("a/b/memory.current", "690"),
                ("a/b/memory.stat", stat),
                ("a/b/c/memory.max", "max"),
                ("a/b/c/memory.high", "max"),
                ("d/memory.max", "max"),
                ("e/memory.high", "100"),
                ("e/memory.current", "130"),
                ("other/memory.max", "1"),
            ],
        );
        let memory = |limit, available| Some(CgroupMemory { limit, available });
        assert_eq!(limit(&kernel, 1), memory(700, 70));
        assert_eq!(limit(&kernel, 2), memory(1000, 660));
        assert_eq!([3, 4, 5, 99].map(|pid| limit(&kernel, pid)), [None; 4]);
        assert_eq!(limit(&kernel, 6), memory(100, 0), "over its high limit");
    }

    #[test]
    fn without_cgroup_v2_nothing_has_a_limit() {
        let kernel = FakeKernel::new();
        let mounts = b"cgroup /cg/memory cgroup rw,memory 0 0\n".to_vec();
        kernel
            .state()
            .files
            .insert("/proc/self/mounts".into(), mounts);
        assert_eq!((mount_point(&kernel), limit(&kernel, 1)), (None, None));
    }

    #[test]
    fn each_cgroup_is_read_once_in_an_observation_and_anew_in_the_next() {
        let kernel = kernel(
            &[(1, "/a/b"), (2, "/a/b"), (3, "/a")],
            &[("a/memory.max", "90"), ("a/memory.current", "0")],
        );
        let mount = mount_point(&kernel);
        let mut cgroups = Cgroups::new(&kernel, mount.as_deref());
        let limit_of = |cgroups: &mut Cgroups<'_>, pid| cgroups.limit_of(pid).unwrap().limit;
        assert_eq!(limit_of(&mut cgroups, 1), 90);
        for (name, content) in [
            ("a/memory.max", "70"),
            ("a/b/memory.max", "50"),
            ("a/b/memory.current", "1"),
        ] {
            let path = Path::new("/cg").join(name);
            kernel.state().files.insert(path, content.into());
        }
        assert_eq!([2, 3].map(|pid| limit_of(&mut cgroups, pid)), [90, 90]);
        let mut next = Cgroups::new(&kernel, mount.as_deref());
        assert_eq!([2, 3].map(|pid| limit_of(&mut next, pid)), [50, 70]);
    }
}
