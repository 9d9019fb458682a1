//! The one place that calls `ioctl` on `/dev/mega`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::interface::{
    Block, Compact, Exchange, Pair, Region, Request, ScanBlocks, ScanTask, request,
};
use super::request::ModuleRequest;
use crate::kernel::ProcessHandle;

/// Passes a request to the module.
pub(crate) fn ask(device: BorrowedFd<'_>, request: ModuleRequest<'_>) -> io::Result<()> {
    match request {
        ModuleRequest::Info(request) => plain(device, request),
        ModuleRequest::ScanTask {
            process,
            request,
            regions,
        } => {
            request.pidfd = pidfd(process);
            scan_task(device, request, regions)
        }
        ModuleRequest::ScanBlocks { request, blocks } => scan_blocks(device, request, blocks),
        ModuleRequest::Compact { request, avoid } => compact(device, request, avoid),
        ModuleRequest::Promote { process, request } => {
            request.pidfd = pidfd(process);
            plain(device, request)
        }
        ModuleRequest::Demote { process, request } => {
            request.pidfd = pidfd(process);
            plain(device, request)
        }
        ModuleRequest::FreeZero { process, request } => {
            request.pidfd = pidfd(process);
            plain(device, request)
        }
        ModuleRequest::Exchange {
            process,
            request,
            pairs,
        } => {
            request.pidfd = pidfd(process);
            exchange(device, request, pairs)
        }
    }
}

/// The module refuses -1 (`EBADF`): a handle that is not from a live kernel has no pidfd.
fn pidfd(process: &ProcessHandle) -> i32 {
    process.fd().map_or(-1, |fd| fd.as_raw_fd())
}

/// A request without pointers.
fn plain<T: Request + Pointerless>(device: BorrowedFd<'_>, argument: &mut T) -> io::Result<()> {
    // SAFETY: `T` has the layout that its request takes (`Request`), no pointers in it (`Pointerless`), and is
    // borrowed mutably for the call.
    unsafe { call(device, argument) }
}

/// Marks requests that hold no pointer.
trait Pointerless {}
impl Pointerless for super::interface::Info {}
impl Pointerless for super::interface::Promote {}
impl Pointerless for super::interface::Demote {}
impl Pointerless for super::interface::FreeZero {}

/// SCAN_TASK into `regions`: sets `regions` and `capacity` of the request, and `maps` to 0.
fn scan_task(
    device: BorrowedFd<'_>,
    argument: &mut ScanTask,
    regions: &mut [Region],
) -> io::Result<()> {
    argument.regions = regions.as_mut_ptr().addr() as u64;
    argument.capacity = count(regions.len());
    argument.maps = 0;
    // SAFETY: the kernel writes at most `capacity` regions to `regions`, borrowed mutably for the call; any
    // bytes are a valid Region. `regions` and `argument` are distinct borrows.
    let result = unsafe { call(device, argument) };
    argument.regions = 0;
    result
}

/// SCAN_BLOCKS into `blocks`: sets `blocks` and `count` of the request.
fn scan_blocks(
    device: BorrowedFd<'_>,
    argument: &mut ScanBlocks,
    blocks: &mut [Block],
) -> io::Result<()> {
    argument.blocks = blocks.as_mut_ptr().addr() as u64;
    argument.count = count(blocks.len());
    // SAFETY: the kernel writes at most `count` blocks to `blocks`, borrowed mutably for the call; any bytes
    // are a valid Block. `blocks` and `argument` are distinct borrows.
    let result = unsafe { call(device, argument) };
    argument.blocks = 0;
    result
}

/// COMPACT into none of the ranges that begin at the frames `avoid`: sets `avoid` of the request.
fn compact(device: BorrowedFd<'_>, argument: &mut Compact, avoid: &[u64]) -> io::Result<()> {
    // As struct mega_avoid: their number, and they.
    let list: Vec<u64> = [avoid.len() as u64].iter().chain(avoid).copied().collect();
    argument.avoid = if avoid.is_empty() {
        0
    } else {
        list.as_ptr().addr() as u64
    };
    // SAFETY: the kernel reads at most as many frames as the list's first word says, which it holds until the call is over,
    // and writes none.
    let result = unsafe { call(device, argument) };
    argument.avoid = 0;
    result
}

/// EXCHANGE of `pairs`: sets `pairs` and `count` of the request.
fn exchange(device: BorrowedFd<'_>, argument: &mut Exchange, pairs: &mut [Pair]) -> io::Result<()> {
    argument.pairs = pairs.as_mut_ptr().addr() as u64;
    argument.count = count(pairs.len());
    // SAFETY: the kernel reads and writes at most `count` pairs at `pairs`, borrowed mutably for the call; any bytes are a
    // valid Pair. `pairs` and `argument` are distinct borrows.
    let result = unsafe { call(device, argument) };
    argument.pairs = 0;
    result
}

/// A length as the interface has it. Entries beyond are not used.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// # Safety
///
/// Every pointer in `argument` is 0 or points to as many entries as `argument` says, writable where the kernel writes them.
unsafe fn call<T: Request>(device: BorrowedFd<'_>, argument: &mut T) -> io::Result<()> {
    // SAFETY: `argument` has the layout that the request number says, and its pointers are the caller's
    // promise. On a file that is not /dev/mega the number is unknown (ENOTTY).
    let result = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            request::<T>() as libc::c_ulong,
            std::ptr::from_mut(argument),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
