//! Task iterators, over one thread or over all: the one thing needed of the BPF system call that libbpf-rs does not
//! offer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_sys::{BPF_TRACE_ITER, bpf_iter_link_info, bpf_link_create_opts};

#[allow(clippy::cast_possible_truncation)] // a dozen bytes
const LINK_INFO_BYTES: u32 = size_of::<bpf_iter_link_info>() as u32;

/// Attaches the iterator program `program` to the thread `tid` of the caller's PID namespace (Linux 6.1).
/// Returns the link. The thread is looked up when an iterator made from the link is read.
///
/// # Errors
/// As `BPF_LINK_CREATE`; `EINVAL` or `E2BIG` where the kernel cannot limit a task iterator.
pub(crate) fn attach_to_thread(program: BorrowedFd<'_>, tid: u32) -> io::Result<OwnedFd> {
    let mut info = bpf_iter_link_info::default();
    info.task.tid = tid;
    attach(program, info)
}

/// The same to all threads of the process `pid`.
///
/// # Errors
/// As [`attach_to_thread`].
pub(crate) fn attach_to_process(program: BorrowedFd<'_>, pid: u32) -> io::Result<OwnedFd> {
    let mut info = bpf_iter_link_info::default();
    info.task.pid = pid;
    attach(program, info)
}

fn attach(program: BorrowedFd<'_>, mut info: bpf_iter_link_info) -> io::Result<OwnedFd> {
    let options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as u64,
        iter_info: ptr::from_mut(&mut info),
        iter_info_len: LINK_INFO_BYTES,
        ..Default::default()
    };
    // SAFETY: `options` and the `info` it points to outlive the call, their sizes are their own, and the
    // call only reads them.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, BPF_TRACE_ITER, &raw const options)
    };
    owned(fd)
}

/// Attaches the iterator program `program` to every thread of the caller's PID namespace (Linux 5.8). Returns the link.
///
/// # Errors
/// As `BPF_LINK_CREATE`.
pub(crate) fn attach_to_all(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: a null pointer to options asks for none; the call takes only a file descriptor besides.
    let fd =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, BPF_TRACE_ITER, ptr::null()) };
    owned(fd)
}

/// Makes an iterator from a link: a file whose first read runs the program.
///
/// # Errors
/// As `BPF_ITER_CREATE`.
pub(crate) fn iterator(link: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes only a file descriptor, which `link` keeps open.
    let fd = unsafe { libbpf_sys::bpf_iter_create(link.as_fd().as_raw_fd()) };
    owned(fd)
}

/// Takes ownership of what a libbpf call returned: a new file descriptor, or a negated error number.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a non-negative result is a file descriptor that libbpf just opened for this caller, and
    // nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
