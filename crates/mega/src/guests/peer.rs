//! Who is at the other end of a connection. The kernel says it, so nobody can claim to be another process.

use std::os::fd::AsFd;
use std::path::PathBuf;

use mega_linux::kernel::{Kernel, ProcessHandle};
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::UCred;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Uid;

/// The user of the process that connected.
///
/// # Errors
/// In words, why it is not known.
pub(super) fn user(socket: impl AsFd) -> Result<Uid, String> {
    Ok(credentials(socket)?.uid)
}

/// What the process that connected was then.
fn credentials(socket: impl AsFd) -> Result<UCred, String> {
    socket_peercred(socket).map_err(|error| format!("who connected is not known: {error}"))
}

/// The process that connected, held so that its pid is never mistaken for another's.
///
/// A process keeps its pid over execve(2). So a VMM that could become a program with more rights, as a setuid one, could have that
/// program's memory rearranged. Only root is served, and processes that have given up more rights for good: libvirt and `-sandbox
/// on,elevateprivileges=deny` have QEMU do that.
///
/// # Errors
/// In words, why it is not served.
pub(super) fn identify(kernel: &dyn Kernel, socket: impl AsFd) -> Result<ProcessHandle, String> {
    let peer = credentials(&socket)?;
    let pidfd = getsockopt(&socket, PeerPidfd).map_err(|error| {
        format!("the kernel gives no hold on the process that connected: {error}")
    })?;
    let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
    if !peer.uid.is_root() && !gains_no_rights(kernel, pid) {
        return Err(format!(
            "process {pid} may gain rights by executing another program: start the VMM with no_new_privs (QEMU: -sandbox on,elevateprivileges=deny)"
        ));
    }
    // Now it is clear that it was the same process all the time.
    let now = Timespec::default();
    let has_ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&now)) != Ok(0);
    if has_ended {
        return Err(format!("process {pid} has ended"));
    }
    Ok(ProcessHandle::new(pid, Some(pidfd)))
}

/// Whether each thread of a process has given up to gain rights for good (`no_new_privs`). False where that cannot be read.
fn gains_no_rights(kernel: &dyn Kernel, pid: u32) -> bool {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let Ok(threads) = kernel.list(&tasks) else {
        return false;
    };
    let has_given_up = |thread: &std::ffi::OsString| {
        let status = kernel
            .read(&tasks.join(thread).join("status"))
            .unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let mut lines = status.lines();
        lines.any(|line| line.strip_prefix("NoNewPrivs:").map(str::trim) == Some("1"))
    };
    !threads.is_empty() && threads.iter().all(has_given_up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_linux::kernel::fake::FakeKernel;

    #[test]
    fn each_thread_must_have_given_up_to_gain_rights() {
        let threads = |first: &str, second: &str| {
            let kernel = FakeKernel::with_files(&[
                (
                    "/proc/7/task/7/status",
                    format!("Name:\tqemu\n{first}Seccomp:\t2\n").as_str(),
                ),
                (
                    "/proc/7/task/8/status",
                    format!("Name:\tCPU 0/KVM\n{second}").as_str(),
                ),
            ]);
            gains_no_rights(&kernel, 7)
        };
        let (has, has_not) = ("NoNewPrivs:\t1\n", "NoNewPrivs:\t0\n");
        assert!(threads(has, has));
        for [first, second] in [[has, has_not], [has_not, has], [has, ""], ["", ""]] {
            assert!(!threads(first, second), "{first}{second}");
        }
        assert!(!gains_no_rights(&FakeKernel::new(), 7));
    }

    #[test]
    fn the_kernel_says_who_connected() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = FakeKernel::with_files(&[(
            format!("/proc/{0}/task/{0}/status", std::process::id()),
            "NoNewPrivs:\t1\n",
        )]);
        let handle = identify(&own, &one).unwrap();
        assert_eq!(handle.pid(), std::process::id());
    }
}
