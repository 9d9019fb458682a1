//! What selects a process, from `/proc`.

use std::path::PathBuf;

use mega_core::ProcessId;

use super::pod::{self, Pod};
use super::{path, stat};
use crate::Error;
use crate::kernel::Kernel;

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
    /// The pod of Kubernetes that it belongs to; `None` where it belongs to none.
    pub pod: Option<Pod>,
    /// The user it runs as (effective user id).
    pub uid: u32,
    /// Resident bytes.
    pub resident: u64,
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
    let cgroups = kernel.read(&path(pid, "cgroup")).unwrap_or_default();
    Ok(Facts {
        process: stat.process(),
        exe: kernel.read_link(&path(pid, "exe")).ok(),
        cgroup: unified_cgroup(&cgroups),
        pod: pod::of_cgroups(kernel, &cgroups),
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
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = effective_uid(&bytes);
            let _ = unified_cgroup(&bytes);
        }
    }
}
