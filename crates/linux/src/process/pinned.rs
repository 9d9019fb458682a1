//! How much of a process's memory the kernel cannot move, as far as it says so: pages that devices read and write by themselves.

use std::path::{Path, PathBuf};

use super::path;
use crate::Error;
use crate::kernel::Kernel;

/// What is pinned, in bytes. A huge page cannot take the place of a pinned base page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// What the kernel counts as pinned (`VmPin` in `/proc/PID/status`): registered buffers of io_uring, RDMA, iommufd, AF_XDP.
    pub counted: u64,
    /// What is locked (`VmLck`) of a process that has VFIO open: VFIO counts what it pins there, and so does mlock(2), so this is
    /// the most that VFIO has pinned. `None` for a process without VFIO.
    pub vfio: Option<u64>,
}

/// What is pinned of a process's memory.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`].
pub fn pinned(kernel: &dyn Kernel, pid: u32) -> Result<Pinned, Error> {
    let status = path(pid, "status");
    let text = kernel
        .read(&status)
        .map_err(|error| Error::of_process(pid, &status, error))?;
    let text = String::from_utf8_lossy(&text);
    let locked = Some(field(&text, "VmLck:")).filter(|&locked| locked > 0);
    Ok(Pinned {
        counted: field(&text, "VmPin:"),
        vfio: locked.filter(|_| has_vfio(kernel, &path(pid, "fd"))),
    })
}

/// A field of `/proc/PID/status` that is in KiB; 0 where it is missing.
fn field(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.trim().strip_suffix(" kB"));
    let kib: u64 = number.and_then(|kib| kib.parse().ok()).unwrap_or(0);
    kib.saturating_mul(1024)
}

/// Whether one of the open files is VFIO's: a group's, or the container that groups share. False where they cannot be read.
fn has_vfio(kernel: &dyn Kernel, files: &Path) -> bool {
    let open = kernel.list(files).unwrap_or_default();
    let mut targets = open
        .iter()
        .filter_map(|file| kernel.read_link(&files.join(file)).ok());
    targets.any(|target: PathBuf| target.starts_with("/dev/vfio"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    fn status_of_7(text: &str) -> FakeKernel {
        FakeKernel::with_files(&[("/proc/7/status", text)])
    }

    #[test]
    fn what_the_kernel_counts_is_in_bytes() {
        let kernel = status_of_7("Name:\tx\nVmLck:\t       0 kB\nVmPin:\t    4096 kB\n");
        let found = pinned(&kernel, 7).expect("its status");
        assert_eq!(found.counted, 4 << 20);
        assert_eq!(found.vfio, None);
    }

    #[test]
    fn what_is_locked_without_vfio_is_not_pinned() {
        let kernel = status_of_7("VmLck:\t    4096 kB\nVmPin:\t       0 kB\n");
        assert_eq!(pinned(&kernel, 7).expect("its status"), Pinned::default());
    }

    #[test]
    fn what_is_locked_beside_vfio_may_be_pinned() {
        let files = [
            (
                "/proc/7/status",
                "VmLck:\t    4096 kB\nVmPin:\t       0 kB\n",
            ),
            ("/proc/7/fd/2", "/dev/null"),
            ("/proc/7/fd/9", "/dev/vfio/12"),
        ];
        let found = pinned(&FakeKernel::with_files(&files), 7).expect("its status");
        assert_eq!(found.vfio, Some(4 << 20));
    }

    #[test]
    fn what_makes_no_sense_counts_as_nothing() {
        for text in ["", "VmPin:", "VmPin:\t-1 kB\n", "VmPin:\t1 MB\n"] {
            let found = pinned(&status_of_7(text), 7).expect("its status");
            assert_eq!(found, Pinned::default(), "{text}");
        }
        let all = format!("VmPin:\t{} kB\n", u64::MAX);
        let found = pinned(&status_of_7(&all), 7).expect("its status");
        assert_eq!(found.counted, u64::MAX);
    }
}
