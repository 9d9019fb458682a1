//! The memory that everybody else has in use on the simulated kernel.

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};
use mega_sim::Kernel;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Pid;

/// Pages in use beside a free page, at most: more would make no other pieces of the free memory.
const IN_USE_PER_HOLE: u64 = 3;

/// Has a process use so many bytes, so that as many as `in_pieces` are free between its pages, in pieces too small for a huge
/// page; fewer where it has too few pages to lie between. All of it can be moved.
pub(super) fn fill(kernel: &mut Kernel, used: u64, in_pieces: u64) -> Pid {
    let pid = kernel.spawn(0);
    let holes = in_pieces / BASE_PAGE_SIZE;
    let scattered = (used / BASE_PAGE_SIZE).min(holes.saturating_mul(IN_USE_PER_HOLE));
    let rest = used - scattered * BASE_PAGE_SIZE;
    let whole = rest / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
    touch(kernel, pid, whole, Advice::Huge, HUGE_PAGE_SIZE);
    touch(kernel, pid, rest - whole, Advice::None, BASE_PAGE_SIZE);
    let all = scattered + holes;
    let start = touch(
        kernel,
        pid,
        all * BASE_PAGE_SIZE,
        Advice::None,
        BASE_PAGE_SIZE,
    );
    // Those stay whose number makes the next whole part of what stays.
    for page in 0..all {
        let stays = |page: u64| u128::from(page) * u128::from(scattered) / u128::from(all);
        if stays(page) == stays(page + 1) {
            kernel.discard(pid, start + page * BASE_PAGE_SIZE, BASE_PAGE_SIZE);
        }
    }
    pid
}

/// Maps memory and touches it all, as far as there is any. Returns where it begins.
fn touch(kernel: &mut Kernel, pid: Pid, bytes: u64, advice: Advice, step: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let start = kernel.map(pid, bytes, advice);
    let mut address = start;
    while address < start + bytes && kernel.touch(pid, address).is_ok() {
        address += step;
    }
    start
}
