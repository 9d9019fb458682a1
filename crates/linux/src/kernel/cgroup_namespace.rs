//! The cgroup namespace that mega looks from.
//!
//! A container usually has one of its own. There the paths of other processes' cgroups are relative to the container's, and
//! fit neither a pattern nor the files of their limits.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The first namespace, which sees the whole tree, as a link in `/proc/PID/ns` names it (`PROC_CGROUP_INIT_INO`).
const FIRST: &str = "cgroup:[4026531835]";

/// Has the calling thread, and those that it starts from then on, see the whole tree of cgroups, if they do not yet. Does
/// nothing to the cgroup that they are in.
///
/// # Errors
/// Where process 1 has the same view or another part of the tree, or it may not be taken over: that needs `CAP_SYS_ADMIN`,
/// `CAP_SYS_PTRACE`, and the machine's PID namespace.
pub fn see_whole_tree() -> io::Result<()> {
    if sees_whole_tree() {
        return Ok(());
    }
    let of_first_process = File::open("/proc/1/ns/cgroup")?;
    move_into_link_name_space(
        of_first_process.as_fd(),
        Some(LinkNameSpaceType::ControlGroup),
    )?;
    if sees_whole_tree() {
        return Ok(());
    }
    Err(io::Error::other("process 1 does not see all of them"))
}

/// Also true where the kernel has no cgroups: then there is nothing else to see.
fn sees_whole_tree() -> bool {
    fs::read_link("/proc/thread-self/ns/cgroup").is_ok_and(|link| link.as_os_str() == FIRST)
        || !fs::exists("/proc/self/ns/cgroup").unwrap_or(true)
}
